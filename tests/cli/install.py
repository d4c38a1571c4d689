"""`cmake --install` into a folder that is moved afterwards: the program works, and find_package(Nestor) builds models with it."""

import os
import random
import re
import shutil
import subprocess
import sys
import time

from harness import Harness, files_below

t = Harness()
BUILD, CMAKE = sys.argv[4:6]
rng = random.Random(1)
IMAGES = "\n".join(" ".join(str(rng.randint(0, 16)) for _ in range(64)) for _ in range(20))


def command(what, *args, fails=False, **kw):
    p = subprocess.run([str(a) for a in args], capture_output=True, text=True, **kw)
    t.check((p.returncode != 0) == fails, what, f"{args}\nexit {p.returncode}\n{p.stdout}{p.stderr}")
    return p.stdout + p.stderr


def installed():
    command("cmake --install", CMAKE, "--install", BUILD, "--prefix", os.path.abspath("first"))
    os.rename("first", "moved")
    t.check(files_below("moved") == {"moved/bin/nestor", "moved/lib/cmake/Nestor/NestorConfig.cmake",
                                     "moved/lib/cmake/Nestor/NestorConfigVersion.cmake"},
            "what is installed", str(files_below("moved")))
    t.nestor = os.path.abspath("moved/bin/nestor")


def runs_alone():
    """With its workers, which are processes of the same program; no file of the build folder or of the sources is opened."""
    op = "Softmax(f32[64,100])"
    for args in (["verify", op], ["tune", op, "--db", "t.db", "--time", "2s"], ["inspect", op, "--html", "page.html"],
                 ["run", op, "--target", "cuda:sm_80", "--emulate", "--input", "x0=random:1"], ["doctor", "--json"]):
        t.succeeds(f"installed: {args[0]}", *args)
        if not shutil.which("strace"):
            print("skip what it opens: there is no strace")
            continue
        p = subprocess.run(["strace", "-f", "-qq", "-s", "4096", "-e", "trace=%file", "-o", "trace", t.nestor, *args], capture_output=True, text=True)
        if "ptrace" in p.stderr:
            print("skip what it opens: strace may not look")
            continue
        # The test's own folder is below the build folder.
        opened = {f for f in re.findall(r'"(/[^"]*)"', open("trace").read())
                  if f.startswith((BUILD + "/", t.source + "/")) and not (f + "/").startswith(t.work + "/") and not os.path.isdir(f)}
        t.check(not opened, f"installed: {args[0]} opens nothing of the build folder", str(sorted(opened)[:5]))


def c_example():
    """The lines in the head comment of examples/c/digits.c."""
    os.makedirs("by_hand")
    os.symlink(os.path.join(t.source, "examples"), "by_hand/examples")
    lines = re.findall(r"^ \*   (.+)$", open(os.path.join(t.source, "examples/c/digits.c")).read(), re.M)
    t.check([l.split()[0] for l in lines] == ["nestor", "cc"], "examples/c says how it is built", str(lines))
    path = os.path.dirname(t.nestor) + os.pathsep + os.environ["PATH"]
    for line in lines:
        command(line, "bash", "-c", line, cwd="by_hand", env={**os.environ, "PATH": path})
    return command("examples/c runs", "by_hand/digits", input=IMAGES)


def project(expected):
    """examples/cmake, beside copies of what it names."""
    for folder in ("cmake", "c", "digits"):
        shutil.copytree(os.path.join(t.source, "examples", folder), os.path.join("project", folder))
    prefix = "-DCMAKE_PREFIX_PATH=" + os.path.abspath("moved")
    configure = [CMAKE, "-S", "project/cmake", "-B", "out", prefix]
    build = [CMAKE, "--build", "out"]
    archive = "out/nestor/digits/digits.a"
    command("find_package(Nestor)", *configure)
    command("the project builds", *build)
    t.check(command("it runs", "out/which_digit", input=IMAGES) == expected, "and says what examples/c says")
    before = os.stat(archive).st_mtime_ns
    command("it builds again", *build)
    t.check(os.stat(archive).st_mtime_ns == before, "without compiling the model")

    model = "project/digits/digits.json"
    text = open(model).read()
    time.sleep(0.01)
    t.write(model, text.replace('"probability"', '"chance"'))
    t.check("probability" in command("a changed model is compiled", *build, fails=True), "the program sees its new header")
    t.write(model, text)
    command("and back", *build)
    t.check(command("it runs again", "out/which_digit", input=IMAGES) == expected, "as before")

    lists = "project/cmake/CMakeLists.txt"
    text = open(lists).read()
    call = "nestor_add_model(digits ../digits/digits.json DIM batch=1 THREADS 1)"
    t.check(call in text and call in open(os.path.join(t.source, "docs/deploy.md")).read(), "docs/deploy.md shows this call")

    def other(arguments):
        return t.write(lists, text.replace(call, f"nestor_add_model({arguments})"))

    other("model ../digits/digits.onnx SHARED NAME digits DIM batch=1 TARGET native DB ../../t.db OPTIONS --exact-conv")
    t.write(lists, open(lists).read().replace("PRIVATE digits", "PRIVATE model"))
    command("a shared object, another name, a database", *configure)
    command("it builds", *build)
    t.check(command("it runs", "out/which_digit", input=IMAGES) == expected, "and says the same")
    for arguments, why in (("digits nowhere.onnx", "nowhere.onnx"), ("digits ../digits/digits.json DIMS batch=1", "`DIMS` isn't an argument"),
                           ("digits ../digits/digits.json THREADS", "THREADS needs a value")):
        other(arguments)
        t.check(why in command(f"refused: {arguments}", *configure, fails=True).replace("\n  ", " "), f"because {why}")


installed()
runs_alone()
digits = c_example()
t.check(len(digits.split()) == 20, "a digit for each image", digits)
project(digits)
t.finish()
