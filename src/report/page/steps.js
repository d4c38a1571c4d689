// A function's trace, walked step by step: the steps, the loop nest beside them, and what its loops cost.

// What was decided before the first step: the algorithm, and the plans that were given up.
function reasons_before(id, func) {
  const algorithms = data.graph.calls.filter((c) => c.func === Number(id)).flatMap((c) => c.why || []);
  const told = [...new Set(algorithms)].map((w) => `Because ${string(w)}.`);
  for (const plan of func.given_up || []) told.push(`Given up: ${string(plan)}`);
  return told.map((text) => element("p", { class: "note why" }, text));
}

function steps_view(id, at, on_move) {
  const func = data.funcs[id], states = states_of(func);
  const last = states.length - 1 + (func.refused ? 1 : 0);  // a refused step shows its message
  let now = Math.max(0, Math.min(at, last));

  const button = (label, title, to) =>
    element("button", { title, "aria-label": title, onclick: () => go(to()) }, label);
  const slider = element("input", {
    type: "range", min: 0, max: last, value: now, "aria-label": "Step", oninput: () => go(Number(slider.value)),
  });
  const count = element("output", { class: "count" });
  const list = element("ol", { class: "trace", start: 0 });
  const names = ["the loop nest as it came", ...states.slice(1).map((s) => s.step)];
  if (func.refused) names.push(func.refused.step);
  names.forEach((name, i) => list.append(element("li", { class: func.refused && i === last ? "bad" : "" },
    element("button", { onclick: () => go(i) }, name))));
  const title = element("h2", { class: "step-title" });
  const code = element("div", { class: "code" });
  const card = element("aside", { class: "card", "aria-live": "polite" });

  function go(to) {
    now = Math.max(0, Math.min(to, last));
    slider.value = now;
    count.textContent = now ? `step ${now} of ${last}` : "the start";
    title.textContent = names[now];
    [...list.children].forEach((li, i) => li.classList.toggle("now", i === now));
    const item = list.children[now];
    list.scrollTop = item.offsetTop - list.offsetTop - list.clientHeight / 2 + item.clientHeight / 2;
    const state = states[Math.min(now, states.length - 1)];
    const unchanged = now > 0 && state.lines.every((l) => l.mark === " ");
    if (func.refused && now === last)
      code.replaceChildren(refusal(func.refused.message));
    else
      code.replaceChildren(
        ...(state.why && now ? [element("p", { class: "note why" }, `Because ${state.why}.`)] : []),
        ...(now ? [] : reasons_before(id, func)),
        ...(unchanged ? [element("p", { class: "note" }, "This step leaves the loop nest as it is.")] : []),
        listing(state.lines, state.loops));
    show_card(card, null);
    on_move(now);
  }

  const show = (loop) => show_card(card, loop, func.flops);
  on_loops(code, () => states[Math.min(now, states.length - 1)].loops, show, show);
  const controls = element("div", { class: "controls" },
    button("«", "First", () => 0), button("‹", "Back (left arrow)", () => now - 1), slider,
    button("›", "Forward (right arrow)", () => now + 1), button("»", "Last", () => last), count);
  const view = element("section", { class: "walk" },
    element("div", { class: "steering" }, controls, list),
    element("div", { class: "stage" }, element("div", { class: "stage-head" }, title, legend()), code),
    card);
  go(now);
  view.keys = { ArrowRight: () => go(now + 1), ArrowLeft: () => go(now - 1), Home: () => go(0), End: () => go(last) };
  return view;
}
