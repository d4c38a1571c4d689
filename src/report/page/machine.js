// The scheduled loop nest, what lowering made of it, and the machine code, with the lines of one loop linked across.

function asm_text(line) {
  if (!line.startsWith("\t")) return line;
  const [name, ...rest] = line.slice(1).split("\t");
  return "    " + name.padEnd(14) + rest.join(" ");
}

function pane(title, note, body) {
  return element("section", { class: "pane" },
    element("h3", {}, title, element("small", {}, note)), element("div", { class: "code" }, body));
}

// Lines of lowered text or machine code, in the colour of the innermost loop they belong to.
function linked_lines(texts, loops_of_line, kinds) {
  const box = element("div", { class: "listing" });
  texts.forEach((text, i) => {
    const loops = loops_of_line(i), inner = loops.length ? ` edge-of k-${kinds[loops[loops.length - 1]]}` : "";
    const label = /^\S.*:$/.test(text) ? " label" : "";
    box.append(element("div", { class: `line${inner}${label}`, "data-at": i + 1 },
      element("span", { class: "text" }, text)));
  });
  return box;
}

// The lines of a loop in the scheduled text: its header to the brace that closes it.
function body_range(texts, line) {
  const indent = texts[line - 1].search(/\S/);
  let end = line;
  while (end < texts.length && !(texts[end].search(/\S/) === indent && texts[end].trim().startsWith("}"))) ++end;
  return [line, end + 1];
}

function machine_view(id) {
  const func = data.funcs[id], states = states_of(func), state = states[states.length - 1];
  const scheduled = state.lines.filter((l) => l.at).map((l) => ({ ...l, mark: " " }));
  if (func.refused || func.not_lowered)
    return element("section", {}, refusal(func.refused ? func.refused.message : func.not_lowered));
  const kinds = state.loops.map((l) => l.kind);
  const lowered_loops = func.links.map((l) => data.links[l]);
  const code_loops = (i) => data.links[func.code_links[i]];
  const left = listing(scheduled, state.loops);
  const middle = linked_lines(func.lowered.map(string), (i) => lowered_loops[i], kinds);
  const right = linked_lines(func.code.map(string).map(data.target.cuda ? (t) => t : asm_text), code_loops, kinds);
  const card = element("aside", { class: "card" });
  const texts = scheduled.map((l) => l.text);

  function mark(box, belongs, exact, scroll) {
    let first = null;
    [...box.children].forEach((line, i) => {
      const on = belongs(i);
      line.classList.toggle("linked", on);
      line.classList.toggle("exact", exact(i));
      if (on && !first) first = line;
      if (exact(i) && !(first && first.classList.contains("exact"))) first = line;
    });
    if (first && scroll) box.parentElement.scrollTop = first.offsetTop - box.parentElement.offsetTop - 60;
  }

  // A loop by index, or the loop of one lowered line, which is then marked by itself too.
  function choose(loop, from, line = 0) {
    const [begin, end] = loop === null ? [0, -1] : body_range(texts, state.loops[loop].line);
    mark(left, (i) => i + 1 >= begin && i + 1 <= end, () => false, from !== left);
    mark(middle, (i) => loop !== null && lowered_loops[i].includes(loop), (i) => i + 1 === line, from !== middle);
    mark(right, (i) => loop !== null && code_loops(i).includes(loop), (i) => line > 0 && func.code_lines[i] === line,
      from !== right);
    for (const e of left.querySelectorAll(".loop")) e.classList.toggle("chosen", Number(e.dataset.loop) === loop);
    show_card(card, loop === null ? null : state.loops[loop], func.flops);
  }
  on_loops(left, () => state.loops, (l) => show_card(card, l, func.flops), (l) => choose(l && l.index, left));
  const on_line = (box, loops_of_line, lowered_line) => box.addEventListener("click", (e) => {
    const at = e.target.closest(".line"), i = at ? Number(at.dataset.at) - 1 : -1;
    const loops = i < 0 ? [] : loops_of_line(i);
    choose(loops.length ? loops[loops.length - 1] : null, box, i < 0 ? 0 : lowered_line(i));
  });
  on_line(middle, (i) => lowered_loops[i], (i) => i + 1);
  on_line(right, code_loops, (i) => func.code_lines[i]);
  show_card(card, null);
  return element("section", { class: "machine" },
    element("p", { class: "note" }, "Click a loop, or a line that came of it: its lines light up in all three.", legend()),
    element("div", { class: "panes" },
      pane("Scheduled", "the loop nest after its last step", left),
      pane("Lowered", "flat loops, vectors, registers", middle),
      pane(data.target.cuda ? "CUDA" : "Assembly", data.target.name, right)),
    card);
}
