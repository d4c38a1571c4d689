#!/usr/bin/env python3
"""A page of one run of bench_cpu: a roofline plot and the table, in one self-contained HTML file.

    report.py cpu.json cpu.html

The roof is what that very run measured: the FMA peak, and the bandwidth of a copy as large as each work's operands."""

import html
import json
import math
import os
import sys

WIDTH, HEIGHT, LEFT, BOTTOM = 900, 460, 60, 40
COLORS = {"matmul": "#2563eb", "gemv": "#0891b2", "batched": "#4f46e5", "unpacked": "#60a5fa", "conv": "#ea580c",
          "rows": "#16a34a", "memory": "#a21caf"}


def plot(works):
    """Operations per byte across, GFLOP/s up, both logarithmic; the roof above."""
    peak = max(w["peak_gflops"] for w in works)
    copy = sorted(w["copy_gbs"] for w in works)[len(works) // 2]
    intensity = lambda w: max(w["flops"], 1) / w["bytes"]
    x0, x1 = math.log10(min(map(intensity, works)) / 2), math.log10(max(map(intensity, works)) * 2)
    y1 = math.log10(peak * 1.6)
    y0 = y1 - 4
    x = lambda v: LEFT + (math.log10(v) - x0) / (x1 - x0) * (WIDTH - LEFT - 20)
    y = lambda v: HEIGHT - BOTTOM - (math.log10(max(v, 10**y0)) - y0) / (y1 - y0) * (HEIGHT - BOTTOM - 20)
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="roofline">']
    for e in range(math.ceil(y0), math.floor(y1) + 1):
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(10**e):.1f}" y2="{y(10**e):.1f}"/>'
                   f'<text x="{LEFT - 6}" y="{y(10**e) + 4:.1f}" text-anchor="end">{10**e:g}</text>')
    for e in range(math.ceil(x0), math.floor(x1) + 1):
        out.append(f'<line class="grid" x1="{x(10**e):.1f}" x2="{x(10**e):.1f}" y1="20" y2="{HEIGHT - BOTTOM}"/>'
                   f'<text x="{x(10**e):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{10**e:g}</text>')
    ridge = peak / copy
    points = [(10**x0, copy * 10**x0), (ridge, peak), (10**x1, peak)]
    if ridge < 10**x0:
        points = [(10**x0, peak), (10**x1, peak)]
    out.append('<polyline class="roof" points="' + " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points) + '"/>')
    for w in works:
        color = COLORS.get(w["label"].split(";")[0], "#64748b")
        out.append(f'<circle cx="{x(intensity(w)):.1f}" cy="{y(w["gflops"]):.1f}" r="5" fill="{color}">'
                   f'<title>{html.escape(w["name"])}: {w["gflops"]:.1f} GFLOP/s, {100 * w["of_bound"]:.0f} % of its bound'
                   f'</title></circle>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle">operations per byte</text>'
               f'<text x="14" y="14">GFLOP/s</text></svg>')
    return "\n".join(out)


def row(w):
    ratio = f'{w["x_best"]:.2f} <small>[{w["x_best_low"]:.2f}, {w["x_best_high"]:.2f}]</small>' if "x_best" in w else ""
    peers = "<br>".join(html.escape(p.strip()) for p in w["label"].split(";")[1:])
    cells = [f'{w["us"]:.2f}', f'{w["gflops"]:.1f}', f'{w["gbs"]:.1f}', f'{100 * w["of_bound"]:.1f} %',
             *(f"{w[p]:.2f}" if p in w else "" for p in ("oneDNN_us", "OpenBLAS_us")), ratio,
             f'{w["schedule_ms"]:.2f}', f'{w["compile_ms"]:.0f}']
    return (f'<tr><td>{html.escape(w["name"])}<td>' + "<td>".join(cells) + f'<td><small>{peers}</small></tr>')


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run = json.load(open(sys.argv[1]))
    works = [{**b, "name": b["name"].split("/iterations")[0]} for b in run["benchmarks"] if not b.get("error_occurred")]
    if not works:
        sys.exit("no work ran to its end")
    heads = ["work", "us", "GFLOP/s", "GB/s", "of its bound", "oneDNN us", "OpenBLAS us", "x best peer [95 %]", "schedule ms",
             "compile ms", "peers' kernels"]
    page = f"""<!doctype html><meta charset="utf-8"><title>Nestor beside oneDNN and OpenBLAS</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px; padding: 0 1rem; }}
svg {{ width: 100%; height: auto; }} svg text {{ fill: currentColor; font-size: 11px; }}
.grid {{ stroke: currentColor; opacity: .12; }} .roof {{ fill: none; stroke: currentColor; stroke-width: 2; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
td, th {{ text-align: right; padding: .2rem .5rem; border-bottom: 1px solid #8884; }}
td:first-child, th:first-child, td:last-child, th:last-child {{ text-align: left; }} small {{ opacity: .7; }}
</style>
<h1>Untuned kernels beside the libraries</h1>
<p>{html.escape(run["context"]["date"])}, FMA peak {max(w["peak_gflops"] for w in works):.0f} GFLOP/s.
Ratios are paired medians with their 95 % interval; above 1 Nestor is faster than the best peer.</p>
{plot(works)}
<table><tr><th>{"<th>".join(heads)}</tr>
{chr(10).join(map(row, works))}
</table>
"""
    beside = sys.argv[2] + ".tmp"
    with open(beside, "w") as f:
        f.write(page)
    os.replace(beside, sys.argv[2])
    print(f"wrote {sys.argv[2]}")


if __name__ == "__main__":
    main()
