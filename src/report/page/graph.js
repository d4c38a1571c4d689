// The model's graph: a box for each call of a function with the operators fused in it, edges with the shapes that pass.

function svg(tag, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

const kBoxWidth = 236, kChar = 6.4;
const cut = (text, chars) => (text.length > chars ? text.slice(0, chars - 1) + "…" : text);
const value_name = (v) => string(data.graph.values[v][0]);
const value_type = (v) => string(data.graph.values[v][1]);

// Rows of operators that fit the box's width.
function chip_rows(ops) {
  if (!ops.length) return [];
  const rows = [[]];
  let x = 0;
  for (const op of ops) {
    const width = Math.min(op.length * 7.4 + 13, kBoxWidth - 24);
    if (x + width > kBoxWidth - 24 && x > 0) {
      rows.push([]);
      x = 0;
    }
    rows[rows.length - 1].push({ op, x, width });
    x += width + 5;
  }
  return rows;
}

function call_node(call) {
  const rows = chip_rows(call.ops.map(string));
  return { call, rows, width: kBoxWidth, height: 38 + rows.length * 23, out: call.out, needs: call.in };
}

function draw_call(n, share) {
  const { call } = n, func = data.funcs[call.func];
  const box = svg("g", { transform: `translate(${n.x - n.width / 2},${n.y})`, class: "call" },
    svg("rect", { class: "box", width: n.width, height: n.height, rx: 9 }),
    svg("text", { class: "name", x: 12, y: 21 }, cut(data.names[call.func], 30)));
  n.rows.forEach((row, r) => {
    for (const chip of row)
      box.append(
        svg("rect", { class: "chip", x: 12 + chip.x, y: 31 + 23 * r, width: chip.width, height: 18, rx: 4 }),
        svg("text", { class: "op", x: 12 + chip.x + chip.width / 2, y: 44 + 23 * r }, cut(chip.op, 30)));
  });
  const bar = Math.max(2, share * (n.width - 18));
  if (share > 0.002) box.append(svg("rect", { class: "share", x: 9, y: n.height - 2.5, width: bar, height: 2.5 }));
  box.append(svg("title", {}, `${data.names[call.func]}: ${call.ops.map(string).join(" + ")}` +
    (call.weights ? `, ${call.weights} weights` : "") + `, ${(100 * share).toFixed(1)}% of the arithmetic`));
  return func ? svg("a", { href: `#f${call.func}` }, box) : box;
}

function draw_port(n) {
  return svg("g", { transform: `translate(${n.x - n.width / 2},${n.y})`, class: "port" },
    svg("rect", { class: "box", width: n.width, height: n.height, rx: n.height / 2 }),
    svg("text", { x: n.width / 2, y: 19 }, cut(n.label, 28)));
}

function edge_path(points) {
  let d = `M${points[0]}`;
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], middle = (y0 + y1) / 2;
    d += ` C${x0},${middle} ${x1},${middle} ${x1},${y1}`;
  }
  return d;
}

function graph_nodes() {
  const g = data.graph;
  const port_width = (label) => Math.max(70, label.length * kChar + 26);
  const port = (label, out, needs) => ({ label, width: port_width(label), height: 28, out, needs });
  const nodes = [
    ...g.inputs.map((v) => port(value_name(v), [v], [])),
    ...g.calls.map(call_node),
    ...g.outputs.map((v) => port(value_name(v), [], [v])),
  ];
  const producer = new Map();
  nodes.forEach((n, i) => n.out.forEach((v) => producer.set(v, i)));
  for (const n of nodes) n.after = [...new Set(n.needs.filter((v) => producer.has(v)).map((v) => producer.get(v)))];
  return nodes;
}

function draw_graph() {
  const nodes = graph_nodes();
  if (!nodes.length) return element("p", { class: "quiet" }, "No graph: the model is loop nests as text.");
  const { width, height, edges } = lay_out(nodes);
  const total = data.graph.calls.reduce((sum, c) => sum + flops_of(c.func), 0);
  const lines = svg("g"), boxes = svg("g"), labels = svg("g"), labelled = new Set();
  let right = 0;  // how far the last column's shapes stand out
  for (const e of edges) {
    lines.append(svg("path", { class: "edge", d: edge_path(e.points) }));
    for (const v of nodes[e.from].out) {
      if (labelled.has(v) || !nodes[e.to].needs.includes(v)) continue;
      labelled.add(v);
      right = Math.max(right, e.points[0][0] + 12 + value_type(v).length * 6.8 - width);
      labels.append(svg("text", { class: "shape", x: e.points[0][0] + 7, y: e.points[0][1] + 15 }, value_type(v)));
    }
  }
  for (const n of nodes) boxes.append(n.call ? draw_call(n, total ? flops_of(n.call.func) / total : 0) : draw_port(n));
  const pad = 6, w = Math.ceil(width + 2 * pad + right), h = Math.ceil(height + 2 * pad + 8);
  return svg("svg", {
    class: w > 1500 ? "graph wide" : "graph", viewBox: `${-pad} ${-pad} ${w} ${h}`, width: w, height: h,
    role: "img", "aria-label": "The graph",
  }, lines, labels, boxes);
}

const flops_of = (func) => (data.funcs[func] ? data.funcs[func].flops : 0);

// The functions, each once however often it is called, the most arithmetic first.
function function_table() {
  const calls = data.names.map(() => 0);
  for (const c of data.graph.calls) ++calls[c.func];
  const rows = data.names
    .map((name, func) => ({ name, func, calls: calls[func], flops: flops_of(func) * Math.max(1, calls[func]) }))
    .filter((r) => data.funcs[r.func])
    .sort((a, b) => b.flops - a.flops || a.func - b.func);
  const most = Math.max(1, ...rows.map((r) => r.flops));
  const list = element("div", { class: "functions" });
  for (const r of rows) {
    const f = data.funcs[r.func], bad = f.refused || f.not_lowered;
    const state = f.refused ? "refused" : bad ? "not lowered" : `${steps_text(f)}, ${f.origin}`;
    const width = `width:${((100 * r.flops) / most).toFixed(2)}%`;
    list.append(element("a", { href: `#f${r.func}`, class: bad ? "function bad" : "function" },
      element("span", { class: "name" }, r.name),
      element("span", { class: "times" }, r.calls > 1 ? `× ${r.calls}` : ""),
      element("span", { class: "quiet" }, state),
      element("span", { class: "figure" }, r.flops ? flops_text(r.flops) : "–"),
      element("span", { class: "bar-track" }, element("span", { style: width }))));
  }
  return list;
}
