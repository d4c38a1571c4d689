// Loop nests as text: loops in the colour of their kind, and a thin line of that colour down each loop's body.

const kWords = new RegExp("\\b(func|block|init|alloc|let|if|else|then|where|mask|in|out|const|layout|local|shared|for|" +
  "parallel|vectorized|unrolled)\\b", "g");

function painted(text) {
  const pieces = [];
  let from = 0;
  for (const m of text.matchAll(kWords)) {
    if (m.index > from) pieces.push(text.slice(from, m.index));
    pieces.push(element("b", {}, m[0]));
    from = m.index + m[0].length;
  }
  if (from < text.length) pieces.push(text.slice(from));
  return pieces;
}

function by_line(loops) {
  const lines = new Map();
  for (const l of loops) lines.set(l.line, [...(lines.get(l.line) || []), l]);
  return lines;
}

// The line's text after its indentation, each loop in an element of its own.
function with_loops(text, indent, loops) {
  const pieces = [];
  let from = indent;
  for (const l of loops) {
    pieces.push(...painted(text.slice(from, l.column - 1)));
    from = l.column - 1 + l.length;
    pieces.push(element("span", { class: `loop k-${l.kind}`, "data-loop": l.index, tabindex: 0 },
      ...painted(text.slice(l.column - 1, from))));
  }
  pieces.push(...painted(text.slice(from)));
  return pieces;
}

const kMarks = { "+": "add", "-": "gone", "~": "moved", " ": "same" };

function listing(lines, loops) {
  const box = element("div", { class: "listing", role: "group" });
  const at_line = by_line(loops);
  const guides = [];  // of the blocks around a line: the kind of loop, or ""
  for (const line of lines) {
    const indent = line.text.length - line.text.trimStart().length, depth = indent / 2;
    const here = at_line.get(line.at) || [];
    const text = element("span", { class: "text" });
    for (let d = 0; d < depth; ++d) {
      const kind = line.at && guides[d];
      text.append(element("i", { class: kind ? `guide k-${kind}` : "guide" }, "  "));
    }
    text.append(...with_loops(line.text, indent, here));
    box.append(element("div", { class: `line ${kMarks[line.mark]}`, "data-at": line.at },
      element("span", { class: "mark", "aria-hidden": "true" }, line.mark), text));
    if (line.at && line.text.endsWith("{")) guides[depth] = here.length ? here[here.length - 1].kind : "";
  }
  return box;
}

// The compiler's message: what is wrong stands out, the reasons are plain.
function refusal(message) {
  const [first, ...rest] = message.split("\n");
  return element("pre", { class: "refusal" }, element("strong", {}, first), "\n" + rest.join("\n"));
}

// Calls `show` with the loop under the pointer or the focus, `choose` with one that is clicked, or null beside them.
function on_loops(box, loops, show, choose) {
  const loop_at = (event) => {
    const e = event.target.closest("[data-loop]");
    return e && box.contains(e) ? loops()[Number(e.dataset.loop)] : null;
  };
  const point = (e) => {
    const loop = loop_at(e);
    if (loop) show(loop);
  };
  box.addEventListener("pointerover", point);
  box.addEventListener("focusin", point);
  box.addEventListener("click", (e) => choose(loop_at(e)));
  box.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && loop_at(e)) choose(loop_at(e));
  });
}
