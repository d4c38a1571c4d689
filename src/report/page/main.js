// Where the reader is, said by the address: "" the model, or its function where it has only one; #graph the model, #f3 a
// function, #f3/7 after its step 7, #f3/code its machine code.

const main = document.getElementById("main");

function home() {
  document.title = `${data.title} · Nestor`;
  const calls = data.graph.calls, total = calls.reduce((sum, c) => sum + flops_of(c.func), 0);
  const kernels = calls.length === 1 ? "one kernel" : `${calls.length} kernels, each a group of fused operators`;
  return element("section", { class: "home" },
    element("div", { class: "home-graph" },
      ...(data.profile ? [roofline_section()] : []),
      element("h2", {}, "Graph", element("small", {}, kernels)),
      draw_graph()),
    element("div", { class: "home-functions" },
      element("h2", {}, "Functions", element("small", {}, `${data.names.length} different, ${flops_text(total)} in all`)),
      function_table()));
}

function facts(id) {
  const f = data.funcs[id], calls = data.graph.calls.filter((c) => c.func === Number(id)), m = measured(id);
  const ops = calls.length ? calls[0].ops.map(string).join(" + ") : "";
  const items = [
    ops,
    calls.length > 1 ? `called ${calls.length} times` : "",
    `${steps_text(f)} (${f.origin} schedule)`,
    f.flops ? flops_text(f.flops) : "",
    m ? `${time_text(m.ns)} a run, ${percent_text(of_bound(m))} of what its ${m.by} allow` : "",
  ];
  return element("p", { class: "facts quiet" }, items.filter(Boolean).join(" · "));
}

function function_page(id, where) {
  document.title = `${data.names[id]} · ${data.title}`;
  const tab = (name, href, on) =>
    element("a", { href, class: on ? "on" : "", "aria-current": on ? "page" : null }, name);
  const code = where === "code", say_step = (step) => history.replaceState(null, "", `#f${id}/${step}`);
  const view = code ? machine_view(id) : steps_view(id, Number(where) || 0, say_step);
  main.keys = view.keys || {};
  return element("div", { class: "function-page" },
    element("div", { class: "function-head" }, element("h1", {}, data.names[id]), facts(id),
      element("div", { class: "tabs" }, tab("Steps", `#f${id}/0`, !code), tab("Machine code", `#f${id}/code`, code))),
    view);
}

const kOnlyOne = data.names.length === 1 && data.graph.calls.length < 2 && data.funcs[0];  // its graph says little

function show() {
  let [, id, where] = location.hash.match(/^#f(\d+)(?:\/(\w+))?$/) || [];
  if (kOnlyOne && location.hash.length < 2) [id, where] = ["0", data.funcs[0].steps.length + (data.funcs[0].refused ? 1 : 0)];
  const here = id !== undefined && data.funcs[id];
  const crumbs = document.getElementById("crumbs");
  crumbs.replaceChildren(element("a", { href: kOnlyOne ? "#graph" : "#" }, data.title));
  if (here) crumbs.append(element("span", { class: "quiet" }, " / "), data.names[id]);
  main.keys = {};
  main.replaceChildren(here ? function_page(id, where) : home());
  scrollTo(0, 0);
}

function dark_now() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.getElementById("target").textContent = data.target.cuda ? data.target.name :
  `${data.target.name} · ${data.target.vector_bits}-bit vectors · ${data.threads} thread${data.threads === 1 ? "" : "s"}`;
document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = dark_now() ? "light" : "dark";
});
addEventListener("hashchange", show);
addEventListener("keydown", (e) => {
  const key = main.keys && main.keys[e.key];
  if (!key || e.altKey || e.ctrlKey || e.metaKey || e.target.tagName === "INPUT") return;
  e.preventDefault();
  key();
});
show();
performance.mark("nestor-interactive");
