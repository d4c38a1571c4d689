"""What ptxas and the disassembler say of our CUDA kernels, without a GPU.

    python3 bench/cuda/kernels.py NESTOR [--works FILE] [--arch sm_80] [MODEL.onnx ...]

For each kernel of the works' default schedules: threads and blocks, registers, spilled bytes, the share of a
multiprocessor's threads that may be resident, by registers, shared memory and blocks. Where nvdisasm is found (NVDISASM, or in PATH):
FMAs, loads and stores among the instructions of the loop with most FMAs.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Of a multiprocessor (CUDA C++ Programming Guide, "Compute Capabilities"): threads, blocks, shared memory.
LIMITS = {"sm_75": (1024, 16, 64), "sm_80": (2048, 32, 164), "sm_86": (1536, 16, 100), "sm_89": (1536, 24, 100),
          "sm_90": (2048, 32, 228), "sm_100": (2048, 32, 228), "sm_120": (1536, 24, 100)}
REGISTERS = 65536


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def occupancy(arch, threads, registers, shared):
    most, blocks, memory = LIMITS[arch]
    of_warp = -(-registers * 32 // 256) * 256
    warps = -(-threads // 32)
    fit = min(blocks, most // (32 * warps), REGISTERS // (of_warp * warps) if of_warp else blocks,
              (memory << 10) // (shared + 1024))
    return 32 * warps * fit / most


def loops(sass):
    """{kernel: instructions of the loop that has most FMAs}"""
    best, name, code, labels = {}, None, [], {}
    for line in sass.splitlines():
        if m := re.match(r"\.text\.(\w+):", line.strip()):
            name, code, labels = m.group(1), [], {}
        elif m := re.match(r"(\.L_\S+):", line):
            labels[m.group(1)] = len(code)
        elif m := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?);", line):
            code.append(m.group(1))
            jump = re.search(r"BRA.*?(\.L_\w+)", m.group(1))
            if name and jump and jump.group(1) in labels:
                body = code[labels[jump.group(1)]:]
                if count(body, "FFMA") >= count(best.get(name, []), "FFMA"):
                    best[name] = body
    return best


def count(body, word):
    return sum(word in instruction for instruction in body)


def kernels(source, arch, disassembler):
    """(name, blocks, threads, registers, spilled, shared, loop) of each kernel."""
    launches = {m.group(1): (m.group(2), m.group(3))
                for m in re.finditer(r"//   (\w+)<<<(\(.*?\)|\d+), (\(.*?\)|\d+)>>>", source)}
    with tempfile.TemporaryDirectory() as folder:
        path, cubin = folder + "/k.cu", folder + "/k.cubin"
        with open(path, "w", encoding="utf-8") as f:
            f.write(source)
        log = run(["nvcc", "-arch=" + arch, "-cubin", "-Xptxas", "-v", "-o", cubin, path])
        body = loops(run([disassembler, "-c", cubin])) if disassembler else {}
    for part in log.split("Compiling entry function '")[1:]:
        name = part.split("'")[0]
        number = lambda pattern: int((re.search(pattern, part) or [0, 0])[1])
        volume = lambda text: eval(text.replace(",", "*").strip("()"))  # (32, 8, 1)
        blocks, threads = (volume(t) for t in launches[name])
        dynamic = sum(int(n) for n in re.findall(r"shared_memory \+ (\d+)", source))
        yield (name, blocks, threads, number(r"Used (\d+) registers"), number(r"(\d+) bytes spill stores"),
               max(number(r"(\d+) bytes smem"), dynamic), body.get(name, []))


def source_of(options, work):
    if "(" in work:  # an operator
        return run([options.nestor, "inspect", work, "--target", "cuda:" + options.arch, "--stage", "cuda"])
    with tempfile.TemporaryDirectory() as folder:
        command = [options.nestor, "compile", work, "--target", "cuda:" + options.arch, "-o", folder + "/m.cu"]
        for dim in options.dim:
            command += ["--dim", dim]
        run(command)
        with open(folder + "/m.cu", encoding="utf-8") as f:
            return f.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nestor")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--works", default=HERE + "/works.txt")
    parser.add_argument("--arch", default="sm_80", choices=sorted(LIMITS))
    parser.add_argument("--dim", action="append", default=[])
    options = parser.parse_args()
    disassembler = os.environ.get("NVDISASM") or shutil.which("nvdisasm")
    works = [(m, m) for m in options.models]
    if not works:
        with open(options.works, encoding="utf-8") as f:
            works = [tuple(line.strip().split(": ", 1)) for line in f if line.strip() and line[0] != "#"]
    print(f"{'work':<12} {'kernel':<28} {'blocks':>7} {'threads':>7} {'regs':>4} {'spill':>5} {'shared':>6} "
          f"{'occup.':>6} {'FMA':>5}  loop: instructions, LDS, LDG, STS, barriers")
    spilled = 0
    for name, work in works:
        try:
            source = source_of(options, work)
        except RuntimeError as e:
            print(f"{name:<12} {e}")
            continue
        for kernel, blocks, threads, registers, spill, shared, body in kernels(source, options.arch, disassembler):
            spilled += spill > 0
            share = f"{count(body, 'FFMA') / len(body):5.2f}" if body and count(body, "FFMA") else "    -"
            rest = ", ".join(str(n) for n in [len(body)] + [count(body, w) for w in ("LDS", "LDG", "STS", "BAR")])
            print(f"{name[-12:]:<12} {kernel[:28]:<28} {blocks:>7} {threads:>7} {registers:>4} {spill:>5} {shared:>6} "
                  f"{occupancy(options.arch, threads, registers, shared):>6.0%} {share}  {rest if body else ''}")
    print(f"{spilled} kernels spill registers")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
