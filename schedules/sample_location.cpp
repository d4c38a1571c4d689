// sample_location: names the place where a block is computed, which a search may choose: under one of the
// loops to which compute_at (or reverse_compute_at) could move it, in its readers (`inline`), or where it is
// (`root`). Those primitives themselves decide what is legal at this point of the trace.
#include <algorithm>

#include "nestor/error.h"
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

bool accepted(const PrimFunc& f, const Step& step) {
  const QuietRefusals quiet;
  Decisions decisions;
  try {
    apply_step(f, step, decisions);
    return true;
  } catch (const ScheduleError&) {
    return false;
  }
}

std::string inline_primitive(const std::string& mover) {
  return mover == "compute_at" ? "compute_inline" : "reverse_compute_inline";
}

}  // namespace

Step step_at_location(const std::string& mover, const std::string& block, const std::string& location) {
  Step s;
  s.primitive = location == "inline" ? inline_primitive(mover) : mover;
  s.args = {block};
  if (location != "inline") s.args.push_back(location);
  return s;
}

std::optional<PrimFunc> moved_as_decided(StepContext& ctx) {
  const std::string at = ctx.location(1);
  if (at.empty()) return std::nullopt;
  const Place p = ctx.block(0);
  if (at == "root") return ctx.func();
  Step step = step_at_location(ctx.step().primitive, p.name(), at);
  if (at != "inline") {
    step.results = ctx.step().results;
    step.options = ctx.step().options;
  }
  return apply_step(ctx.func(), step, ctx.decisions());
}

std::vector<std::string> legal_locations(const PrimFunc& f, const Place& p, const std::string& mover) {
  std::vector<std::string> out{"root"};
  if (accepted(f, step_at_location(mover, p.name(), "inline"))) out.emplace_back("inline");
  std::vector<Stmt> seen;
  const bool forward = mover == "compute_at";
  for (const Place& q : places(f.body)) {
    bool partner = false;
    for (const BlockAccess& a : accesses_of(forward ? p.block() : q.block()))
      partner = partner || (a.write && reads(forward ? q.block() : p.block(), a.buffer));
    if (!partner || q.stmt.same_as(p.stmt)) continue;
    for (const Stmt& l : q.loops()) {
      if (std::any_of(seen.begin(), seen.end(), [&](const Stmt& s) { return s.same_as(l); })) continue;
      seen.push_back(l);
      const std::string at = q.name() + "." + loop_name(l);
      if (accepted(f, step_at_location(mover, p.name(), at))) out.push_back(at);
    }
  }
  return out;
}

namespace {

PrimFunc run(StepContext& ctx) {
  const Place p = ctx.block(0);
  const std::string mover = ctx.choice("by");
  const std::vector<std::string> decided = ctx.decision(1);
  ctx.expect_results(1);
  const auto legal = [&] {
    Step s = ctx.step();
    std::string lines;
    for (const std::string& at : legal_locations(ctx.func(), p, mover)) {
      s.args = {s.args[0], "->", at};
      lines += (lines.empty() ? "" : "\n") + print(s);
    }
    return lines;
  };
  if (decided.empty()) ctx.refuse(1, 0, "nothing has been decided", {p.stmt}, legal());
  const bool fits =
      decided.size() == 1 &&
      (decided[0] == "root" || decided[0] == "inline" || decided[0].find('.') != std::string::npos) &&
      accepted(ctx.func(), step_at_location(mover, p.name(), decided[0]));
  if (!fits)
    ctx.refuse(2, 1, mover + " can't bring " + p.name() + " to `" + join(decided, ", ") + "`", {p.stmt},
               legal());
  if (!ctx.step().results.empty() && ctx.step().results[0] != "_")
    ctx.decisions()[ctx.step().results[0]] = decided[0];
  return ctx.func();
}

}  // namespace

Primitive sample_location_row() {
  return {"sample_location",
          "l",
          {{ArgKind::block, "P"}, {ArgKind::decision, "-> T.i"}},
          {{"by", "compute_at|reverse_compute_at", "the step that will use the place"}},
          "Names the place where a block is computed, as a decision that the tuner may change.",
          {"there is a decision after `->`",
           "the decision is `root`, or `inline` or a loop for which the step of `by=` is accepted now"},
          {examples::kWindow, "l = sample_location P -> Y.x\ncompute_at P l"},
          run};
}

}  // namespace nestor::schedules
