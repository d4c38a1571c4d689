// The card beside a listing that says what a loop costs, and which cache its body lives in.

function meter(label, bytes, size) {
  const share = bytes / size, fits = share <= 1, width = Math.min(100, Math.max(1, share * 100)).toFixed(1);
  return element("div", { class: fits ? "meter" : "meter over" },
    element("span", { class: "meter-name" }, label),
    element("span", { class: "meter-track" },
      element("span", { class: "meter-fill", style: `width:${width}%` })),
    element("span", { class: "meter-says" }, fits ? "fits" : `${share.toFixed(share < 10 ? 1 : 0)}× too big`));
}

function row(name, value) {
  return element("div", { class: "row" }, element("dt", {}, name), element("dd", {}, value));
}

function loop_card(loop, whole) {
  const c = loop.cost, t = data.target, at_most = c.exact ? "" : "at most ";
  const per_run = c.trips > 0 ? (c.flops * c.extent) / c.trips : 0, intensity = c.touched ? per_run / c.touched : 0;
  const share = ((100 * c.flops) / Math.max(whole, c.flops)).toFixed(0);
  const figures = element("dl", {},
    row("extent", count_text(c.extent)),
    row("iterations in all", count_text(c.trips)),
    row("arithmetic", c.flops ? `${flops_text(c.flops)} · ${share}%` : "none"),
    row("one run touches", at_most + bytes_text(c.touched)));
  if (intensity) figures.append(row("flops per byte", intensity.toFixed(intensity < 10 ? 1 : 0)));
  const uses = element("dl", {});
  for (const u of c.uses) uses.append(row(u.scope === "global" ? u.name : `${u.name} (${u.scope})`, bytes_text(u.bytes)));
  const meters = element("div", { class: "meters" });
  if (!t.cuda) {
    if (c.registers) meters.append(meter(`registers ${bytes_text(t.registers)}`, c.registers, t.registers));
    for (const level of ["l1", "l2", "l3"])
      if (t[level]) meters.append(meter(`${level.toUpperCase()} ${bytes_text(t[level])}`, c.footprint, t[level]));
  }
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
  const kinds = ["serial", data.target.cuda ? "thread" : "parallel", "vectorized", "unrolled"];
  for (const kind of kinds) box.append(element("span", {}, element("span", { class: `dot k-${kind}` }), kind));
  return box;
}
