"""Looks at the HTML report in a real browser: clicks through it, compares it with what the terminal shows, and keeps
screenshots in the work folder. SKIPPED where there is no Chromium with its driver (./dev browser installs them).

    page_test.py NESTOR SOURCE WORK
"""

import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import browser
from harness import Harness

if not browser.find():
    print("SKIPPED: no chromium with chromedriver; ./dev browser installs them")
    sys.exit(0)

t = Harness()
MATMUL = ["MatMul(f32[63,640], const f32[640,3168])", "--target", "x86-64-v4", "--threads", "1"]
LINES = """[...document.querySelectorAll(arguments[0] + ' .line')].map(l =>
    (l.querySelector('.mark') ? l.querySelector('.mark').textContent + ' ' : '') + l.querySelector('.text').textContent)"""
LINKED = "[...document.querySelectorAll('.pane')].map(p => [...p.querySelectorAll('.line.linked .text')].map(e => e.textContent))"


def terminal_steps(*call):
    """The marked lines of each step as `inspect --steps` prints them, behind the step's text."""
    shown = t.succeeds("inspect --steps", "inspect", *call, "--steps")
    parts = re.split(r"^# step \d+: (.*)\n", shown, flags=re.M)[1:]
    return [(name, [l for l in body.split("\n") if re.match(r"[-+~] ", l)]) for name, body in zip(parts[::2], parts[1::2])]


def no_complaints(b, page):
    errors = [e["message"] for e in b.log("browser")]
    t.check(not errors, f"{page}: nothing on the console", "\n".join(errors))
    events = [json.loads(e["message"])["message"] for e in b.log("performance")]
    urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    outside = [u for u in urls if not u.startswith(("file:", "data:"))]
    t.check(urls and not outside, f"{page}: nothing is fetched", "\n".join(outside))


def overlap(p, q):
    return p["left"] < q["right"] and q["left"] < p["right"] and p["top"] < q["bottom"] and q["top"] < p["bottom"]


def graph(b):
    t.succeeds("the page of digits", "inspect", t.digits, "--dim", "batch=1", "--html", "digits.html")
    b.open("digits.html")
    b.screenshot("graph.png")
    fused = t.run("inspect", t.digits, "--dim", "batch=1", "--stage", "fused").stdout
    ops = [m.split(" + ") for m in re.findall(r"= (.*)$", fused, re.M)]
    drawn = b.js("[...document.querySelectorAll('.call')].map(c => [...c.querySelectorAll('.op')].map(o => o.textContent))")
    t.check(drawn == ops, "the graph has the fused groups in their order", f"{drawn}\n{ops}")
    shapes = b.js("[...document.querySelectorAll('.shape')].map(e => e.textContent)")
    t.check("f32[1,1,8,8]" in shapes and "f32[1,10]" in shapes, "edges have shapes", str(shapes))
    boxes = b.js("[...document.querySelectorAll('.call .box')].map(e => e.getBoundingClientRect().toJSON())")
    t.check(len(boxes) == len(ops) and not any(overlap(p, q) for i, p in enumerate(boxes) for q in boxes[:i]),
            "no two boxes overlap", str(boxes))
    names = b.js("[...document.querySelectorAll('.function .name')].map(e => e.textContent)")
    t.check(len(names) == len(set(names)) == 6, "each function is listed once", str(names))
    b.click("a[href='#f0']", then=".walk")
    t.check(b.js("document.querySelector('h1').textContent") == "conv2d_bias_relu", "a click on a group shows its function")
    no_complaints(b, "digits")


def walk(b):
    t.succeeds("the page of a MatMul", "inspect", *MATMUL, "--html", "matmul.html")
    b.open("matmul.html")
    t.check(b.js("document.querySelector('.walk') !== null && document.querySelector('.graph') === null"),
            "a model of one function opens on its code")
    want = terminal_steps(*MATMUL)
    whole = b.js(LINES, ".stage")
    t.check(b.js("document.querySelector('.step-title').textContent") == want[-1][0], "after its last step")
    b.click("#crumbs a", then=".graph")
    t.check(b.js("location.hash") == "#graph", "its graph is a click away")
    b.click(".function", then=".walk")
    before = b.js(LINES, ".stage")
    for i, (name, marked) in enumerate(want):
        b.press("ArrowRight")
        got = b.js(LINES, ".stage")
        title = b.js("document.querySelector('.step-title').textContent")
        ok = title == name and [l for l in got if l[0] != " "] == marked and (not marked or got != before)
        t.check(ok, f"step {i + 1} is the terminal's: {name}", "\n".join([title, *got, "---", *marked]))
        before = got
    t.check(before == whole, "the page began there")
    schedule = t.run("inspect", *MATMUL, "--stage", "schedule").stdout
    last = [l[2:] for l in before if l[0] != "-"]
    t.check(last == [l for l in schedule.rstrip().split("\n") if l[:1] != "#"], "after the last step it is the scheduled function", "\n".join(last))
    now = lambda: int(b.js("[...document.querySelectorAll('.trace li')].findIndex(e => e.classList.contains('now'))"))
    b.press("Home")
    t.check(now() == 0, "Home goes to the start")
    b.press("End")
    t.check(now() == len(want), "End to the end")
    b.press("ArrowLeft")
    t.check(now() == len(want) - 1, "the left arrow goes back")
    b.click("button[aria-label^=Forward]")
    t.check(now() == len(want), "so do the buttons")
    b.do("const s = document.querySelector('input[type=range]'); s.value = 9; s.dispatchEvent(new Event('input'))")
    t.check(now() == 9, "and the slider")
    b.click(".trace li:nth-child(18) button")
    t.check(now() == 17 and b.js("location.hash") == "#f0/17", "a click on a step shows it, and the address says so")


def costs(b):
    b.hover(".loop.k-parallel")
    shown = b.js("document.querySelector('.card').innerText")
    # One iteration of j0: all 63 x 640 of A, 640 x 48 of B, 63 x 48 of Y; 66 of them.
    for needle in ("parallel", "255 Mflop", "158 KiB", "120 KiB", "11.8 KiB", "289 KiB", "8.65 MiB", "fits"):
        t.check(needle in shown, f"the card of j0 says {needle}", shown)
    b.screenshot("steps.png")
    style = "['parallel', 'vectorized', 'unrolled'].map(k => getComputedStyle(document.querySelector('%s' + k)).%s)"
    colors, legend = b.js(style % (".stage .loop.k-", "color")), b.js(style % (".legend .k-", "backgroundColor"))
    t.check(len(set(colors)) == 3 and colors == legend, "loops have the colour of their kind, as the legend says",
            f"{colors} {legend}")


def machine(b):
    b.click(".tabs a:nth-child(2)", then=".machine")
    lowered = t.run("inspect", *MATMUL, "--stage", "lowered").stdout.rstrip().split("\n")
    t.check(b.js(LINES, ".pane:nth-child(2)") == lowered, "the lowered text is the terminal's")
    code = b.js(LINES, ".pane:nth-child(3)")
    # The vectorized loop of the update: gone in the lowered text, yet linked with all its fmas and nothing of the init.
    b.do("document.querySelectorAll('.pane .loop.k-vectorized')[1].click()")
    scheduled, middle, right = b.js(LINKED)
    fmas = [l for l in code if "vfmadd" in l]
    shown = "\n".join(scheduled)
    t.check("Y_local[vi,vj] += A[vi,vk] * B[vk,vj]" in shown, "a clicked loop is marked", shown)
    shown = "\n".join(middle)
    t.check(shown.count("fma(") == 27 and "x16(0.0f32)" not in shown, "so are its lowered lines", shown)
    shown = "\n".join(right)
    t.check(len(fmas) == 27 and [l for l in right if "vfmadd" in l] == fmas, "and its instructions", shown)
    t.check("ret" not in shown and "callq" not in shown, "and nothing else", shown)
    b.screenshot("machine.png")
    at = next(i for i, l in enumerate(code) if "vfmadd" in l)
    b.do(f"document.querySelectorAll('.pane:nth-child(3) .line')[{at}].click()")
    exact = b.js("[...document.querySelectorAll('.pane:nth-child(2) .line.exact .text')].map(e => e.textContent)")
    t.check(len(exact) == 1 and "= fma(" in exact[0], "an instruction leads to its lowered line", str(exact))
    t.check(b.js("document.querySelector('.loop.chosen').textContent").startswith("vectorized j1"), "and to its loop")


def theme(b):
    background = lambda: b.js("getComputedStyle(document.body).backgroundColor")
    emulate = lambda scheme: b.call("POST", "/goog/cdp/execute", {
        "cmd": "Emulation.setEmulatedMedia", "params": {"features": [{"name": "prefers-color-scheme", "value": scheme}]}})
    emulate("light")
    light = background()
    emulate("dark")
    dark = background()
    t.check(light != dark, "it follows the system's light and dark", f"{light} {dark}")
    b.click("#theme")
    t.check(background() == light, "the button goes the other way")
    b.click("#theme")
    t.check(background() == dark, "and back")
    b.screenshot("dark.png")
    no_complaints(b, "matmul")


def refused(b):
    t.write("bad.sched", "j0 j1 = split Y.j [_, 16]\nparallel Y.k\n")
    p = t.run("inspect", *MATMUL, "--schedule", "bad.sched", "--html", "bad.html")
    t.check(p.returncode == 1 and "requirement" in p.stderr, "a refused schedule is an error, page or no page", p.stderr)
    b.open("bad.html")
    t.check(b.js("document.querySelector('.refusal').textContent").strip() == p.stderr.strip(), "the page opens on the message")
    b.click("#crumbs a", then=".graph")
    t.check("refused" in b.js("document.querySelector('.function').textContent"), "the page says so")
    b.click(".function", then=".walk")
    b.press("End")
    shown = b.js("document.querySelector('.refusal').textContent")
    t.check(shown.strip() == p.stderr.strip(), "and shows the message in its place", shown)
    no_complaints(b, "refused")


def cuda(b):
    t.succeeds("the page for a GPU", "inspect", t.digits, "--dim", "batch=1", "--target", "cuda:sm_80", "--html", "cuda.html")
    b.open("cuda.html")
    b.click(".function", then=".walk")
    b.press("End")
    t.check(b.js("document.querySelectorAll('.loop.k-thread').length") > 1, "thread loops have their colour")
    b.click(".tabs a:nth-child(2)", then=".machine")
    t.check("__global__" in b.js("document.querySelector('.pane:nth-child(3)').textContent"), "CUDA source stands beside")
    b.click(".pane .loop.k-thread")
    source = "\n".join(b.js(LINKED)[2])
    t.check("blockIdx.x" in source and "for (" in source and "__global__" not in source, "and is linked to its loops", source)
    no_complaints(b, "cuda")


def tuning(b):
    t.succeeds("a tuning with a report", "tune", t.digits, "--dim", "batch=1", "--db", "t.db", "--threads", "1", "--time",
               "20s", "--trials", "20", "--report", "tuning.html")
    b.open("tuning.html")
    b.screenshot("tuning.png")
    names = b.js("[...document.querySelectorAll('.summary a')].map(a => a.textContent)")
    t.check(len(names) == 6 and names == b.js("[...document.querySelectorAll('.tuned h2')].map(h => h.firstChild.data)"),
            "a row and a section for each function", str(names))
    curve = b.js("document.querySelector('.curve').getBoundingClientRect().toJSON()")
    t.check(curve["width"] > 400 and curve["height"] > 80, "a curve is drawn", str(curve))
    b.click(".summary tr:nth-child(3) a")
    t.check(b.js("location.hash") == "#f1", "a name leads to its section")
    wide = b.js("document.documentElement.scrollWidth - innerWidth")
    t.check(wide <= 0, "nothing is wider than the window", f"{wide} pixels too wide")
    no_complaints(b, "tuning")


def measured(b):
    """The page of `bench --html`: times, and the chart of what bounds them."""
    out = t.succeeds("a measured page", "bench", t.digits, "--dim", "batch=8", "--threads", "1", "--seconds", "0.05", "--html",
                     "measured.html", "--profile", "--json").splitlines()
    want = [f["func"] for f in json.loads(out[-1])["funcs"]]
    b.open("measured.html")
    names = b.js("[...document.querySelectorAll('.function .name')].map(e => e.textContent)")
    t.check(names == want, "functions by time, as --profile has them", f"{names}\n{want}")
    figures = b.js("[...document.querySelectorAll('.function .figure')].map(e => e.textContent)")
    t.check(all(re.fullmatch(r"[\d.]+ (ns|µs|ms)", f) for f in figures), "with times", str(figures))
    b.wait("document.querySelectorAll('.roofline circle').length")
    dots = b.js("[...document.querySelectorAll('.roofline circle')].map(e => e.getBoundingClientRect().toJSON())")
    frame = b.js("document.querySelector('.roofline-frame').getBoundingClientRect().toJSON()")
    t.check(1 <= len(dots) <= len(want) and all(overlap(d, frame) for d in dots), "the roofline has dots", str(dots))
    words = b.js("[...document.querySelectorAll('.roofline .point, .roofline .roof.end')].map(e => e.getBoundingClientRect().toJSON())")
    t.check(words and not any(overlap(p, q) for i, p in enumerate(words) for q in words[:i]), "no two names overlap", str(words))
    b.screenshot("measured.png")
    b.do("document.querySelector('.roofline a').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    b.wait("document.querySelector('.walk')")
    t.check("a run, " in b.js("document.querySelector('.facts').textContent"), "a dot leads to its function, which has its time")
    why = t.succeeds("an algorithm with a reason", "inspect", "Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])", "--html",
                     "winograd.html", "--threads", "1", "--blocked-io")
    b.open("winograd.html#f0/0")
    t.check("Because Winograd's" in b.js("document.querySelector('.stage').innerText"), "the algorithm's reason stands before the steps", why)
    no_complaints(b, "measured")


def large(b):
    """Forty equal layers: drawn once, with the input that all of them read beside each reader."""
    nodes, last = [], "x"
    for i in range(40):
        nodes += [{"op": "MatMul", "inputs": [last, "w"], "outputs": [f"a{i}"]}, {"op": "Softmax", "inputs": [f"a{i}"], "outputs": [f"b{i}"]},
                  {"op": "MatMul", "inputs": [f"b{i}", "bias"], "outputs": [f"c{i}"]}]
        last = f"c{i}"
    t.write("large.json", {"name": "large", "opset": 17, "nodes": nodes, "outputs": [last],
                           "inputs": [{"name": n, "dtype": "f32", "shape": [16, 16]} for n in ("x", "w", "bias")]})
    t.succeeds("the page of a large model", "inspect", "large.json", "--html", "large.html")
    b.open("large.html")
    calls = "document.querySelectorAll('.call').length"
    folded, fold = b.js(calls), b.js("document.querySelector('.fold').textContent")
    t.check(folded == 1 and fold.startswith("the same kernel, 39 times more"), "what repeats is drawn once", fold)
    ports = "[...document.querySelectorAll('.port')].map(e => e.textContent)"
    b.do("document.querySelector('.fold').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    t.check(b.js(calls) == 40, "a click shows all of it", str(b.js(calls)))
    names = b.js(ports)
    t.check(sum(n.startswith("bias") for n in names) >= 39, "an input stands beside each reader", str(names))
    boxes = b.js("[...document.querySelectorAll('.graph .box')].map(e => e.getBoundingClientRect().toJSON())")
    t.check(not any(overlap(p, q) for i, p in enumerate(boxes) for q in boxes[:i]), "no two boxes overlap")
    words = b.js("[...document.querySelectorAll('.call')].map(c => [c.querySelector('.name').getBoundingClientRect().right, "
                 "c.querySelector('.box').getBoundingClientRect().right])")
    t.check(all(x < y for x, y in words), "names stay in their boxes", str(words))
    b.screenshot("large.png")
    no_complaints(b, "large")


def resnet(b):
    models = glob.glob(t.source + "/build/venv/lib/python3*/site-packages/onnx/backend/test/data/light/light_resnet50.onnx")
    if not models:
        print("(no ResNet-50: ./dev setup brings it)")
        return
    t.succeeds("the page of ResNet-50", "inspect", models[0], "--html", "resnet50.html")
    size = os.path.getsize("resnet50.html")
    t.check(size < 10e6, f"it is {size / 1e6:.2f} MB")
    b.open("resnet50.html")
    ready = b.js("performance.getEntriesByName('nestor-interactive')[0].startTime")
    b.wait("performance.getEntriesByType('paint').length")
    painted = b.js("performance.getEntriesByType('paint').map(e => e.startTime)")
    print(f"     interactive after {ready:.0f} ms, painted after {max(painted, default=0):.0f} ms")
    # Time isn't asserted, what makes it is: a page that draws only what is looked at.
    elements = b.js("document.getElementsByTagName('*').length")
    t.check(elements < 4000, f"and {elements} elements")
    drawn, folds = b.js("document.querySelectorAll('.call').length"), b.js("[...document.querySelectorAll('.fold text')].map(e => e.textContent)")
    repeated = sum(int(n or 1) * int(times) for n, times in re.findall(r"same (\d*) ?kernels?, (\d+) times", " ".join(folds)))
    all_of_them = b.js("document.querySelector('.home-graph small').textContent")
    t.check(drawn > 30 and all_of_them.startswith(f"{drawn + repeated} kernels"), "all kernels are drawn, those that repeat once",
            f"{drawn} and {folds} of {all_of_them}")
    b.screenshot("resnet50.png")
    no_complaints(b, "resnet50")


def phone():
    b = browser.Browser(390, 844, mobile=True)
    try:
        for where, name in (("digits.html", "home"), ("measured.html", "measured"), ("matmul.html#f0/16", "steps"), ("matmul.html#f0/code", "machine"),
                            ("tuning.html", "tuning")):
            b.open(where)
            wide = b.js("document.documentElement.scrollWidth - innerWidth")
            t.check(wide <= 0, f"on a phone, {name} doesn't scroll sideways", f"{wide} pixels too wide")
            b.screenshot(f"phone-{name}.png")
        b.open("matmul.html#f0/15")
        b.click(".loop")
        t.check(b.js("getComputedStyle(document.querySelector('.card')).display") == "block", "a tap on a loop shows its card")
        b.screenshot("phone-card.png")
        no_complaints(b, "phone")
    finally:
        b.close()


desktop = browser.Browser()
try:
    for part in (graph, walk, costs, machine, theme, refused, cuda, tuning, measured, large, resnet):
        part(desktop)
finally:
    desktop.close()
phone()
t.finish()
