// The card beside a listing that says what a loop costs, and which cache its body lives in.

function meter(label, bytes, size) {
  const share = bytes / size, fits = share <= 1;
  return element("div", { class: fits ? "meter" : "meter over" },
    element("span", { class: "meter-name" }, label),
    element("span", { class: "meter-track" },
      element("span", { class: "meter-fill", style: `width:${Math.min(100, Math.max(1, share * 100)).toFixed(1)}%` })),
    element("span", { class: "meter-says" }, fits ? "fits" : `${share.toFixed(share < 10 ? 1 : 0)}× too big`));
}

function row(name, value) {
  return element("div", { class: "row" }, element("dt", {}, name), element("dd", {}, value));
}

function loop_card(loop, whole) {
  const c = loop.cost, at_most = c.exact ? "" : "at most ";
  const runs = c.extent > 0 ? c.trips / c.extent : 0;
  const per_run = runs > 0 ? c.flops / runs : 0;
  const figures = element("dl", {},
    row("extent", count_text(c.extent)),
    row("iterations in all", count_text(c.trips)),
    row("arithmetic", c.flops ? `${flops_text(c.flops)} · ${((100 * c.flops) / Math.max(whole, c.flops)).toFixed(0)}%` : "none"),
    row("one run touches", at_most + bytes_text(c.touched)));
  if (per_run && c.touched) figures.append(row("flops per byte", (per_run / c.touched).toFixed(per_run / c.touched < 10 ? 1 : 0)));
  const uses = element("dl", {});
  for (const u of c.uses) uses.append(row(u.scope === "global" ? u.name : `${u.name} (${u.scope})`, bytes_text(u.bytes)));
  const t = data.target;
  const meters = element("div", { class: "meters" });
  if (c.registers && !t.cuda) meters.append(meter(`registers ${bytes_text(t.registers)}`, c.registers, t.registers));
  if (!t.cuda) for (const level of ["l1", "l2", "l3"]) if (t[level]) meters.append(meter(`${level.toUpperCase()} ${bytes_text(t[level])}`, c.footprint, t[level]));
  return element("div", { class: "card-body" },
    element("h3", {}, element("span", { class: `dot k-${loop.kind}` }), loop.name, element("small", {}, loop.kind)),
    figures,
    element("h4", {}, `One iteration of its body: ${at_most}${bytes_text(c.footprint)}`),
    uses, meters);
}

const kEmptyCard = "Point at a loop, or tap it, to see what it costs.";

function show_card(card, loop, whole) {
  card.replaceChildren(loop ? loop_card(loop, whole) : element("p", { class: "quiet" }, kEmptyCard));
  card.classList.toggle("filled", !!loop);
}

function legend() {
  const box = element("div", { class: "legend", "aria-label": "Colours of loops" });
  const kinds = data.target.cuda ? ["serial", "thread", "unrolled", "vectorized"] : ["serial", "parallel", "vectorized", "unrolled"];
  for (const kind of kinds) box.append(element("span", {}, element("span", { class: `dot k-${kind}` }), kind));
  return box;
}
