// The report's data, unpacked when a function is looked at. What is packed how: src/report/function_json.h.
const data = JSON.parse(document.getElementById("data").textContent);
const string = (i) => data.strings[i];

function loops_of(table_row) {
  return data.loops[table_row].map(([line, column, length, kind, cost, name], index) => ({
    index, line, column, length, kind, name: string(name), cost: cost_of(cost),
  }));
}

function cost_of(table_row) {
  const [extent, trips, flops, touched, footprint, registers, exact, uses] = data.costs[table_row];
  return {
    extent, trips, flops, touched, footprint, registers, exact: exact === 1,
    uses: uses.map(([name, scope, bytes]) => ({ name: string(name), scope, bytes })),
  };
}

// The loop nest as it came, then as it is after each step: lines with the mark of what the step did to them. `at` is
// the line's number in the step's text; lines that are gone have none.
function states_of(func) {
  let text = func.start.map(string);
  const first = text.map((t, i) => ({ mark: " ", text: t, at: i + 1 }));
  const states = [{ step: "", lines: first, loops: loops_of(func.loops) }];
  for (const step of func.steps) {
    const lines = [], next = [];
    let from = 0;
    const put = (mark, line) => {
      next.push(line);
      lines.push({ mark, text: line, at: next.length });
    };
    for (const edit of step.edits) {
      if (typeof edit === "number") {
        for (let n = Math.abs(edit); n > 0; --n, ++from) {
          if (edit > 0) put(" ", text[from]);
          else lines.push({ mark: "-", text: text[from], at: 0 });
        }
        continue;
      }
      for (const line of edit.slice(1)) {
        put(edit[0], string(line));
        if (edit[0] === "~") ++from;
      }
    }
    states.push({ step: string(step.text), why: step.why ? string(step.why) : "", lines, loops: loops_of(step.loops) });
    text = next;
  }
  return states;
}

// ---- Figures as people read them ---------------------------------------------------------------------------------

function amount(n, unit, base, steps) {
  let i = 0;
  while (n >= base && i + 1 < steps.length) {
    n /= base;
    ++i;
  }
  const digits = i === 0 || n >= 100 ? 0 : n >= 10 ? 1 : 2;
  return `${n.toFixed(digits)} ${steps[i]}${unit}`.trim();
}
const bytes_text = (n) => amount(n, "B", 1024, ["", "Ki", "Mi", "Gi"]);
const flops_text = (n) => amount(n, "flop", 1000, ["", "k", "M", "G", "T"]);
const time_text = (ns) => (ns < 1e3 ? `${ns.toFixed(0)} ns` : ns < 1e6 ? `${(ns / 1e3).toPrecision(3)} µs` :
  ns < 1e9 ? `${(ns / 1e6).toPrecision(3)} ms` : `${(ns / 1e9).toPrecision(3)} s`);
const percent_text = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;
const count_text = (n) => n.toLocaleString("en");

// What was measured of all calls of a function in a run; undefined where nothing was.
const measured = (func) => (data.profile ? data.profile.funcs[func] : undefined);
const of_bound = (m) => m.bound_ns / m.ns;

const steps_text = (func) => `${func.steps.length} step${func.steps.length === 1 ? "" : "s"}`;

// ---- Elements ----------------------------------------------------------------------------------------------------

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) e.setAttribute(name, value);
  }
  e.append(...children);
  return e;
}
