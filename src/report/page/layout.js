// A layered drawing: each node a layer below the last one it needs, edges over several layers through points of their
// own, neighbours ordered by where theirs are (Sugiyama's method, in the small).

// nodes: [{width, height, after: [indices]}], in an order where each comes after what it needs. Sets x, y (middle, top)
// and layer; gives {width, height, edges: [{from, to, points}]}.
function lay_out(nodes, gap_x = 28, gap_y = 46) {
  const layers = [];  // none is empty: each layer but the first has a node that needs one of the layer above
  const put = (item, layer) => {
    item.layer = layer;
    (layers[layer] = layers[layer] || []).push(item);
  };
  const level = [];
  nodes.forEach((n, i) => { level[i] = n.after.length ? 1 + Math.max(...n.after.map((a) => level[a])) : 0; });
  const first_reader = nodes.map(() => Infinity);
  nodes.forEach((n, i) => n.after.forEach((a) => { first_reader[a] = Math.min(first_reader[a], level[i]); }));
  // What needs nothing stands just above the first that needs it.
  nodes.forEach((n, i) => {
    const alone = !n.after.length && first_reader[i] < Infinity;
    put(Object.assign(n, { up: [], down: [] }), alone ? first_reader[i] - 1 : level[i]);
  });
  const edges = [];
  nodes.forEach((n, to) => {
    for (const from of n.after) {
      const chain = [nodes[from]];
      for (let layer = nodes[from].layer + 1; layer < n.layer; ++layer) {
        const bend = { width: 6, height: 0, up: [], down: [], bend: true };
        put(bend, layer);
        chain.push(bend);
      }
      chain.push(n);
      for (let i = 1; i < chain.length; ++i) {
        chain[i - 1].down.push(chain[i]);
        chain[i].up.push(chain[i - 1]);
      }
      edges.push({ from, to, chain });
    }
  });
  order(layers);
  place(layers, gap_x);
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((n) => n.height));
    for (const n of layer) {
      if (n.bend) n.height = height;  // the edge passes the whole layer straight
      n.y = y + (height - n.height) / 2;
    }
    y += height + gap_y;
  }
  for (const e of edges)  // out of the first at its foot, into the last at its head
    e.points = e.chain.flatMap((n) => [[n.x, n.y], [n.x, n.y + n.height]]).slice(1, -1);
  const all = layers.flat(), left = Math.min(...all.map((n) => n.x - n.width / 2));
  for (const n of all) n.x -= left;
  for (const e of edges) for (const p of e.points) p[0] -= left;
  return { width: Math.max(...all.map((n) => n.x + n.width / 2)), height: y - gap_y, edges };
}

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

function order(layers) {
  const number = (layer) => layer.forEach((n, i) => { n.rank = i; });
  layers.forEach(number);
  for (let sweep = 0; sweep < 6; ++sweep) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const wish = new Map(layer.map((n) => {
        const near = down ? n.up : n.down;
        return [n, near.length ? mean(near.map((m) => m.rank)) : n.rank];
      }));
      layer.sort((a, b) => wish.get(a) - wish.get(b) || a.rank - b.rank);
      number(layer);
    }
  }
}

// Each node to the middle of its neighbours, as far as those beside it leave room; nodes come before bends.
function place(layers, gap) {
  for (const layer of layers) {
    let x = 0;
    for (const n of layer) {
      n.x = x + n.width / 2;
      x += n.width + gap;
    }
    for (const n of layer) n.x -= (x - gap) / 2;
  }
  for (let sweep = 0; sweep < 8; ++sweep) {
    for (const layer of sweep % 2 === 0 ? layers : [...layers].reverse()) {
      const near = (n) => (sweep % 2 === 0 ? n.up : n.down);
      for (const n of [...layer].sort((a, b) => (a.bend ? 1 : 0) - (b.bend ? 1 : 0))) {
        if (!near(n).length) continue;
        const i = layer.indexOf(n), before = layer[i - 1], after = layer[i + 1];
        const low = before ? before.x + (before.width + n.width) / 2 + gap : -Infinity;
        const high = after ? after.x - (after.width + n.width) / 2 - gap : Infinity;
        n.x = Math.min(Math.max(mean(near(n).map((m) => m.x)), low), Math.max(low, high));
      }
    }
  }
}
