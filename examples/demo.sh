#!/usr/bin/env bash
# The whole road on real input: called by ./dev demo with the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath --relative-to=. "$1")
nestor=$build/bin/nestor
python=build/venv/bin/python
out=$build/demo
rm -rf "$out" && mkdir -p "$out"
digits=examples/digits/digits.json

title() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() { # the command as one would type it, then what it prints
  local word line=
  for word in "${@#"$build/bin/"}"; do
    case $word in *[!A-Za-z0-9_./=:,@-]*) word="'$word'" ;; esac
    line+="$word "
  done
  printf '\033[2m$ %s\033[0m\n' "$line"
  "$@"
}

title "1. A trained network, read from ONNX-like JSON, on images it has never seen"
$python examples/digits/accuracy.py "$nestor"
show "$nestor" inspect $digits --dim batch=1 --stage fused

title "2. One of its functions before and after its schedule (chosen in milliseconds, not tuned)"
show "$nestor" inspect $digits --dim batch=1 --stage func --func gemm_bias
show "$nestor" inspect $digits --dim batch=1 --stage schedule --func gemm_bias
show "$nestor" inspect $digits --dim batch=1 --html "$out/digits.html"  # open it in a browser

title "3. An illegal step, and what would be legal"
matmul='MatMul(f32[64,48], const f32[48,80])'
printf 'parallel Y.k\n' > "$out/illegal.sched"
show "$nestor" inspect "$matmul" --schedule "$out/illegal.sched" || true
printf 'j0 j1 = split Y.j [_, 16]\nreorder Y (i j0 k j1)\nvectorize Y.j1\nparallel Y.i\n' > "$out/legal.sched"
show "$nestor" verify "$matmul" --schedule "$out/legal.sched"

title "4. Twenty-five seconds of tuning"
$python examples/mobilenet/layer.py "$out/layer.onnx"
unmeasured() { echo "(this machine is slow or busy: functions that weren't measured keep their default schedules)"; }
show "$nestor" tune $digits --dim batch=64 --db "$out/tune.db" --time 5s --threads 1 || unmeasured
show "$nestor" tune "$out/layer.onnx" --db "$out/tune.db" --time 20s --threads 1 || unmeasured

title "5. Naive, default and tuned beside ONNX Runtime: one thread, in turns, in one process"
compare() { # MODEL.onnx [FLAG ...]
  NESTOR_PYTHON=$python show "$nestor" bench "$@" --schedule naive default tuned --db "$out/tune.db" --beside onnxruntime --threads 1
}
compare examples/digits/digits.onnx --dim batch=64
compare "$out/layer.onnx"

title "6. The artifact: one shared object, one header, a C program that uses it"
show "$nestor" compile $digits --dim batch=1 --threads 1 -o "$out/digits.so"
ls -l "$out/digits.so" | awk '{print $5 " bytes"}'
show ldd "$out/digits.so"
show cc -I"$out" examples/c/digits.c "$out/digits.so" -Wl,-rpath,"$out" -o "$out/digits"
$python - <<'PY' > "$out/images.txt"
import numpy as np
data = np.load("examples/digits/heldout.npz")
for image in data["image"][:8]:
    print(*(int(v) for v in image.reshape(-1) * 16))
PY
echo "labels of the first eight held-out images, and what the C program says:"
$python -c 'import numpy as np; print(*np.load("examples/digits/heldout.npz")["label"][:8])'
"$out/digits" < "$out/images.txt" | tr '\n' ' '
echo

title "7. CUDA: the source of one kernel, and its verdict under emulation (no GPU needed)"
show "$nestor" inspect $digits --dim batch=1 --target cuda:sm_80 --stage cuda --func gemm_bias
"$build/tests/cuda/test_cuda" "*digits*" | tail -2

title "Now try yours: nestor compile your_model.onnx -o m.so        ($nestor)"
