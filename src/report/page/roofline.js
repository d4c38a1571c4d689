// The roofline: how many operations a function does for each byte, how many a second it does, and the lines that no
// function of this machine is above: the FMA peak, and copies of a small and a large size.

function roofline_points() {
  const { funcs, ns } = data.profile;
  return Object.entries(funcs)
    .map(([func, m]) => ({
      func, m, share: m.ns / ns, x: m.operations / m.bytes, y: m.operations / m.at_once / m.ns,  // as operations of f32
    }))
    .filter((p) => p.x > 0 && data.funcs[p.func])
    .sort((a, b) => b.share - a.share);
}

// 1, 2 and 5 times powers of ten, or only powers where that is too many.
function ticks(low, high, room) {
  const out = [];
  const steps = Math.log10(high / low) * 3 > room ? [1] : [1, 2, 5];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e)
    for (const s of steps) {
      const t = s * 10 ** e;
      if (t >= low && t <= high) out.push(t);
    }
  return out;
}
const tick_text = (t) => (t >= 1 ? count_text(t) : String(Number(t.toPrecision(1))));

function draw_roofline(width) {
  const points = roofline_points(), { peak, copies } = data.profile;
  const narrow = width < 560, height = narrow ? 280 : 330, left = 46, right = 14, top = 14, bottom = 44;
  const copy_of = (i) => ({ bytes: copies[i][0], gbs: copies[i][1] });
  const slopes = copies.length ? [copy_of(0), copy_of(copies.length - 1)] : [];
  if (slopes.length > 1 && Math.abs(slopes[0].gbs / slopes[1].gbs - 1) < 0.15) slopes.pop();
  const ridge = slopes.length ? peak / slopes[slopes.length - 1].gbs : 1;
  const x_low = Math.min(...points.map((p) => p.x), ridge) / 2, x_high = Math.max(...points.map((p) => p.x), ridge) * 3;
  const y_low = Math.min(...points.map((p) => p.y), peak / 10) / 2, y_high = peak * 2;
  const along = (v, low, high) => Math.log(v / low) / Math.log(high / low);
  const x_of = (v) => left + along(v, x_low, x_high) * (width - left - right);
  const y_of = (v) => height - bottom - along(v, y_low, y_high) * (height - top - bottom);

  const box = (x0, x1, middle, half) => ({ x0, x1, y0: middle - half, y1: middle + half });
  const taken = [box(left, width, y_of(peak), 2), box(width - right - 160, width, y_of(peak) - 10, 8)];  // by lines and text
  const grid = svg("g", { class: "grid" }), roofs = svg("g", { class: "roofs" }), dots = svg("g"), names = svg("g");
  for (const t of ticks(x_low, x_high, width / 60))
    grid.append(svg("line", { x1: x_of(t), x2: x_of(t), y1: top, y2: height - bottom }),
      svg("text", { x: x_of(t), y: height - bottom + 16, class: "tick" }, tick_text(t)));
  for (const t of ticks(y_low, y_high, height / 45))
    grid.append(svg("line", { x1: left, x2: width - right, y1: y_of(t), y2: y_of(t) }),
      svg("text", { x: left - 7, y: y_of(t) + 4, class: "tick y" }, tick_text(t)));
  grid.append(
    svg("text", { x: (left + width - right) / 2, y: height - 6, class: "axis" }, "operations for each byte"),
    svg("text", { x: 12, y: (top + height - bottom) / 2, class: "axis",
      transform: `rotate(-90 12 ${(top + height - bottom) / 2})` }, "GFLOP/s"));

  const most = Math.max(...slopes.map((s) => s.gbs), 1e-9);
  const from = slopes.length ? Math.max(x_low, peak / most) : x_low;
  roofs.append(svg("line", { x1: x_of(from), x2: width - right, y1: y_of(peak), y2: y_of(peak) }),
    svg("text", { x: width - right - 4, y: y_of(peak) - 6, class: "roof end" }, `FMA peak: ${peak.toFixed(0)} GFLOP/s`));
  slopes.forEach((s, i) => {
    const begin = Math.max(x_low, y_low / s.gbs), end = Math.min(peak / s.gbs, x_high);
    const slant = (Math.atan2(y_of(end * s.gbs) - y_of(begin * s.gbs), x_of(end) - x_of(begin)) * 180) / Math.PI;
    const at = begin * (end / begin) ** 0.08, x = x_of(at), y = y_of(at * s.gbs) + (i === 0 ? -7 : 15);
    const words = `${narrow ? "" : "copies of "}${bytes_text(s.bytes)}: ${s.gbs.toFixed(0)} GB/s`;
    for (let d = 0; d < width_of(words, kPortFont); d += 10) {
      const along_it = [x + d * Math.cos((slant * Math.PI) / 180), y - 4 + d * Math.sin((slant * Math.PI) / 180)];
      taken.push(box(along_it[0] - 5, along_it[0] + 15, along_it[1], 9));
    }
    roofs.append(svg("line", { x1: x_of(begin), y1: y_of(begin * s.gbs), x2: x_of(end), y2: y_of(end * s.gbs) }),
      svg("text", { x, y, class: "roof", transform: `rotate(${slant} ${x} ${y})` },
        words));
  });

  // Names of those that take the most, where there is room beside the dots, the lines and each other.
  const place = (p) => ({ x: x_of(p.x), y: y_of(p.y), r: 3.5 + 15 * Math.sqrt(p.share) });
  for (const p of points) {
    const { x, y, r } = place(p);
    const label = `${data.names[p.func]}: ${time_text(p.m.ns)}, ${percent_text(p.share)} of a run, ` +
      `${percent_text(of_bound(p.m))} of what its ${p.m.by} allow`;
    dots.prepend(svg("a", { href: `#f${p.func}`, "aria-label": label },
      svg("circle", { class: `dot-${p.m.by}`, cx: x, cy: y, r }), svg("title", {}, label)));
    taken.push(box(x - r, x + r, y, r));
  }
  for (const p of points.filter((q) => q.share > 0.01)) {
    const { x, y, r } = place(p), text = cut(data.names[p.func], 150, kPortFont), w = width_of(text, kPortFont);
    const below = y + r + 11, above = y - r - 11;
    const at = [[x + r + 4, y], [x - r - 4 - w, y], [x - w / 2, below], [x - w / 2, above], [x, below], [x - w, below]]
      .map(([begin, middle]) => box(begin - 2, begin + w + 2, middle, 8))
      .find((b) => b.x0 > left && b.x1 < width - 2 && b.y0 > 0 && b.y1 < height - bottom &&
        !taken.some((t) => t.x0 < b.x1 && b.x0 < t.x1 && t.y0 < b.y1 && b.y0 < t.y1));
    if (!at) continue;
    names.append(svg("text", { class: "point", x: at.x0 + 2, y: at.y1 - 4 }, text));
    taken.push(at);
  }
  return svg("svg", { class: "roofline", viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": "The roofline" }, grid, roofs, dots, names);
}

function roofline_section() {
  const frame = element("div", { class: "roofline-frame" });
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(frame.clientWidth);
    if (width > 0 && width !== drawn) frame.replaceChildren(draw_roofline((drawn = width)));
  }).observe(frame);
  const { funcs, ns } = data.profile, plain = Object.entries(funcs).filter(([, m]) => !(m.operations > 0));
  const rest = plain.reduce((sum, [, m]) => sum + m.ns, 0);
  const note = [
    "A dot is a function; its area is its part of the time. Click it to see the function; small ones have no name here.",
    plain.length ? `Without arithmetic, ${percent_text(rest / ns)} of the time: ` +
      `${plain.map(([f]) => data.names[f]).join(", ")}.` : "",
  ].filter(Boolean).join(" ");
  const key = element("div", { class: "legend" },
    element("span", {}, element("span", { class: "dot by-operations" }), "bound by operations"),
    element("span", {}, element("span", { class: "dot by-bytes" }), "bound by bytes"));
  return element("section", { class: "roofline-section" },
    element("h2", {}, "What bounds it", element("small", {}, run_text())), frame,
    element("p", { class: "note" }, note, key));
}

function run_text() {
  const { ns, peak } = data.profile;
  const flops = data.graph.calls.reduce((sum, c) => sum + flops_of(c.func), 0);
  const rate = `, ${(flops / ns).toFixed(0)} GFLOP/s: ${percent_text(flops / ns / peak)} of the FMA peak`;
  return `${time_text(ns)} a run${flops ? rate : ""}`;
}
