// The model's graph: a box for each call of a function with the operators fused in it, edges with the shapes that pass. In
// a large graph boxes are low, and calls that repeat are drawn once.

function svg(tag, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// A large graph has more calls than kLarge. An edge over more layers than kFarLayers is drawn as a name at its end. A graph
// that is too wide for the window gets smaller, down to kLeastScale, and is moved sideways then.
const kBoxWidth = data.profile ? 268 : 236, kLarge = 30, kFarLayers = 8, kLeastScale = 0.62;
const value_name = (v) => string(data.graph.values[v][0]);
const value_type = (v) => string(data.graph.values[v][1]);
const is_large = () => data.graph.calls.length > kLarge;

const pen = document.createElement("canvas").getContext("2d");
function width_of(text, font) {
  pen.font = font.replace("SANS", getComputedStyle(document.documentElement).getPropertyValue("--sans"));
  return pen.measureText(text).width;
}
const kNameFont = "600 13px SANS", kOpFont = "11px SANS", kPortFont = "12px SANS";

function cut(text, width, font) {
  if (width_of(text, font) <= width) return text;
  let n = text.length;
  while (n > 1 && width_of(`${text.slice(0, n)}…`, font) > width) --n;
  return `${text.slice(0, n)}…`;
}

// Rows of operators that fit the box's width.
function chip_rows(ops) {
  if (!ops.length) return [];
  const rows = [[]];
  let x = 0;
  for (const op of ops) {
    const width = Math.min(width_of(op, kOpFont) + 15, kBoxWidth - 24);
    if (x + width > kBoxWidth - 24 && x > 0) {
      rows.push([]);
      x = 0;
    }
    rows[rows.length - 1].push({ op, x, width });
    x += width + 5;
  }
  return rows;
}

// The part of the whole model: of its time, or of its arithmetic where no time is known.
function shares() {
  const weights = data.graph.calls.map((c, i) => (data.profile ? data.profile.calls[i] : flops_of(c.func)));
  const total = weights.reduce((a, b) => a + b, 0);
  return weights.map((w) => (total ? w / total : 0));
}

function call_node(call, i, share) {
  const rows = is_large() ? [] : chip_rows(call.ops.map(string));
  return {
    call, rows, share, time: data.profile ? time_text(data.profile.calls[i]) : "",
    width: kBoxWidth, height: is_large() ? 33 : 38 + rows.length * 23, out: call.out, needs: call.in,
  };
}

function draw_call(n) {
  const { call } = n, func = data.funcs[call.func], name = data.names[call.func];
  const room = n.width - 24 - (n.time ? width_of(n.time, kPortFont) + 10 : 0);
  const box = svg("g", { transform: `translate(${n.x - n.width / 2},${n.y})`, class: "call" },
    svg("rect", { class: "box", width: n.width, height: n.height, rx: 9 }),
    svg("text", { class: "name", x: 12, y: 21 }, cut(name, room, kNameFont)));
  if (n.time) box.append(svg("text", { class: "time", x: n.width - 12, y: 21 }, n.time));
  n.rows.forEach((row, r) => {
    for (const chip of row)
      box.append(
        svg("rect", { class: "chip", x: 12 + chip.x, y: 31 + 23 * r, width: chip.width, height: 18, rx: 4 }),
        svg("text", { class: "op", x: 12 + chip.x + chip.width / 2, y: 44 + 23 * r },
          cut(chip.op, kBoxWidth - 34, kOpFont)));
  });
  const bar = Math.max(2, n.share * (n.width - 18));
  if (n.share > 0.002)
    box.append(svg("rect", { class: "share", x: 9, y: n.height - 2.5, width: bar, height: 2.5 }));
  box.append(svg("title", {}, `${name}: ${call.ops.map(string).join(" + ")}` +
    (call.weights ? `, ${call.weights} weights` : "") +
    `, ${percent_text(n.share)} of the ${data.profile ? "time" : "arithmetic"}` +
    (call.why || []).map((w) => `\nbecause ${string(w)}`).join("")));
  return func ? svg("a", { href: `#f${call.func}` }, box) : box;
}

// An input, an output, or a value that comes from far away.
function port(label, out, needs, kind = "port") {
  return { label, kind, width: Math.max(70, Math.min(200, width_of(label, kPortFont) + 28)), height: 28, out, needs };
}

function draw_port(n) {
  return svg("g", { transform: `translate(${n.x - n.width / 2},${n.y})`, class: n.kind },
    svg("rect", { class: "box", width: n.width, height: n.height, rx: n.height / 2 }),
    svg("text", { x: n.width / 2, y: 19 }, cut(n.label, 176, kPortFont)),
    svg("title", {}, n.kind === "far" ? `${n.label}, which is made above` : n.label));
}

function edge_path(points) {
  let d = `M${points[0]}`;
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], middle = (y0 + y1) / 2;
    d += ` C${x0},${middle} ${x1},${middle} ${x1},${y1}`;
  }
  return d;
}

// ---- Calls that repeat -------------------------------------------------------------------------------------------

const unfolded = new Set();  // where such a row begins, of those that were clicked

// The longest row of calls that repeats: {begin, period, times}, all of its calls in [begin, begin + period * times).
function longest_repeat(calls, begin, end) {
  let best = null;
  for (let period = 1; period <= (end - begin) / 3; ++period) {
    let run = 0;
    for (let i = begin; i + period <= end; ++i) {
      if (i + period < end && calls[i].func === calls[i + period].func) {
        ++run;
        continue;
      }
      const times = Math.floor(run / period) + 1, saved = period * (times - 1);
      if (times >= 3 && saved >= 6 && (!best || saved > best.period * (best.times - 1)))
        best = { begin: i - run, period, times };
      run = 0;
    }
  }
  return best;
}

function repeats(calls, begin, end) {
  const best = longest_repeat(calls, begin, end);
  if (!best) return [];
  const after = best.begin + best.period * best.times;
  return [...repeats(calls, begin, best.begin), best, ...repeats(calls, after, end)];
}

function fold_node(repeat, calls, share) {
  const first = repeat.begin + repeat.period, last = repeat.begin + repeat.period * repeat.times;
  const inside = calls.slice(first, last), made = new Set(inside.flatMap((c) => c.out));
  const kernels = repeat.period === 1 ? "kernel" : `${repeat.period} kernels`;
  return {
    fold: repeat.begin, share: share.slice(first, last).reduce((a, b) => a + b, 0),
    label: `the same ${kernels}, ${repeat.times - 1} times more`, width: 300, height: 33,
    out: [...made], needs: [...new Set(inside.flatMap((c) => c.in))].filter((v) => !made.has(v)),
  };
}

function draw_fold(n, redraw) {
  const open = () => {
    unfolded.add(n.fold);
    redraw();
  };
  const box = svg("g", { transform: `translate(${n.x - n.width / 2},${n.y})`, class: "fold", role: "button", tabindex: 0 },
    svg("rect", { class: "under", x: 5, y: 4, width: n.width, height: n.height, rx: 9 }),
    svg("rect", { class: "box", width: n.width, height: n.height, rx: 9 }),
    svg("text", { x: n.width / 2, y: 21 }, n.label),
    svg("title", {}, `${percent_text(n.share)} of the ${data.profile ? "time" : "arithmetic"}; a click shows them all`));
  box.addEventListener("click", open);
  box.addEventListener("keydown", (e) => { if (e.key === "Enter") open(); });
  return box;
}

// ---- The drawing -------------------------------------------------------------------------------------------------

function call_nodes() {
  const { calls } = data.graph, share = shares(), nodes = [];
  const folds = is_large() ? repeats(calls, 0, calls.length).filter((r) => !unfolded.has(r.begin)) : [];
  for (let i = 0; i < calls.length; ++i) {
    const fold = folds.find((r) => i === r.begin + r.period);
    if (fold) {
      nodes.push(fold_node(fold, calls, share));
      i += fold.period * (fold.times - 1) - 1;
    } else {
      nodes.push(call_node(calls[i], i, share[i]));
    }
  }
  return nodes;
}

function link(nodes) {
  const producer = new Map();
  nodes.forEach((n, i) => n.out.forEach((v) => producer.set(v, i)));
  for (const n of nodes) n.after = [...new Set(n.needs.filter((v) => producer.has(v)).map((v) => producer.get(v)))];
}

// An input that is read in several places, and a value that is read far below, is named again where it is read.
function name_far_values(nodes) {
  const level = [], again = [];
  nodes.forEach((n, i) => { level[i] = n.after.length ? 1 + Math.max(...n.after.map((a) => level[a])) : 0; });
  nodes.forEach((source, s) => {
    const readers = nodes.map((n, i) => i).filter((i) => nodes[i].after.includes(s));
    const first = Math.min(...readers.map((i) => level[i]));
    if (!source.after.length) level[s] = first - 1;  // where lay_out puts it
    for (const i of readers) {
      const far = source.kind === "port" ? level[i] > first + 1 : level[i] > level[s] + kFarLayers;
      if (!far) continue;
      const passed = source.out.filter((v) => nodes[i].needs.includes(v));
      nodes[i].after = nodes[i].after.filter((a) => a !== s);
      const kind = source.kind === "port" ? "port" : "far";
      passed.forEach((v) => again.push({ node: port(value_name(v), [v], [], kind), reader: i }));
    }
  });
  const moved = again.length;
  for (const n of nodes) n.after = n.after.map((a) => a + moved);
  again.forEach(({ node, reader }, i) => {
    node.after = [];
    nodes[reader].after.push(i);
  });
  return [...again.map((a) => a.node), ...nodes];
}

function graph_nodes() {
  const g = data.graph;
  const nodes = [
    ...g.inputs.map((v) => port(value_name(v), [v], [])),
    ...call_nodes(),
    ...g.outputs.map((v) => port(value_name(v), [], [v])),
  ];
  link(nodes);
  return name_far_values(nodes);
}

function draw_nodes(nodes, redraw) {
  const { width, height, edges } = lay_out(nodes, 28, is_large() ? 34 : 46);
  const lines = svg("g"), boxes = svg("g"), labels = svg("g"), labelled = new Set();
  let right = 0;  // how far the last column's shapes stand out
  for (const e of edges) {
    lines.append(svg("path", { class: "edge", d: edge_path(e.points) }));
    for (const v of nodes[e.from].out) {
      const key = `${e.from} ${v}`;
      if (labelled.has(key) || !nodes[e.to].needs.includes(v)) continue;
      labelled.add(key);
      right = Math.max(right, e.points[0][0] + 12 + value_type(v).length * 6.8 - width);
      labels.append(svg("text", { class: "shape", x: e.points[0][0] + 7, y: e.points[0][1] + 15 }, value_type(v)));
    }
  }
  for (const n of nodes)
    boxes.append(n.call ? draw_call(n) : n.fold !== undefined ? draw_fold(n, redraw) : draw_port(n));
  const pad = 6, w = Math.ceil(width + 2 * pad + right), h = Math.ceil(height + 2 * pad + 8);
  return svg("svg", {
    class: "graph", viewBox: `${-pad} ${-pad} ${w} ${h}`, width: w, role: "img", "aria-label": "The graph",
    style: `max-width:max(100%,${Math.round(w * kLeastScale)}px)`,
  }, lines, labels, boxes);
}

function draw_graph() {
  const frame = element("div", { class: "graph-frame" });
  const redraw = () => {
    const nodes = graph_nodes();
    frame.replaceChildren(nodes.length ? draw_nodes(nodes, redraw) :
      element("p", { class: "quiet" }, "No graph: the model is loop nests as text."));
  };
  redraw();
  requestAnimationFrame(() => {  // a wide graph begins at its input
    const start = frame.querySelector(".port, .call"), at = start && start.getBoundingClientRect();
    if (at) frame.scrollLeft = (at.left + at.right - frame.clientWidth) / 2 - frame.getBoundingClientRect().left;
  });
  return frame;
}

const flops_of = (func) => (data.funcs[func] ? data.funcs[func].flops : 0);

// The functions, each once however often it is called: those that take the most time first, or the most arithmetic.
function function_table() {
  const calls = data.names.map(() => 0);
  for (const c of data.graph.calls) ++calls[c.func];
  const rows = data.names
    .map((name, func) => {
      const m = measured(func), flops = flops_of(func) * Math.max(1, calls[func]);
      return { name, func, m, calls: calls[func], flops, weight: data.profile ? (m ? m.ns : 0) : flops };
    })
    .filter((r) => data.funcs[r.func])
    .sort((a, b) => b.weight - a.weight || a.func - b.func);
  const most = Math.max(1, ...rows.map((r) => r.weight));
  const list = element("div", { class: "functions" });
  for (const r of rows) {
    const f = data.funcs[r.func], bad = f.refused || f.not_lowered;
    const state = f.refused ? "refused" : bad ? "not lowered" :
      r.m ? `${percent_text(of_bound(r.m))} of what its ${r.m.by} allow` : `${steps_text(f)}, ${f.origin}`;
    const width = `width:${((100 * r.weight) / most).toFixed(2)}%`;
    const figure = data.profile ? (r.m ? time_text(r.m.ns) : "–") : r.flops ? flops_text(r.flops) : "–";
    list.append(element("a", { href: `#f${r.func}`, class: bad ? "function bad" : "function" },
      element("span", { class: "name" }, r.name),
      element("span", { class: "times" }, r.calls > 1 ? `× ${r.calls}` : ""),
      element("span", { class: "quiet" }, state),
      element("span", { class: "figure" }, figure),
      element("span", { class: "bar-track" }, element("span", { style: width }))));
  }
  return list;
}
