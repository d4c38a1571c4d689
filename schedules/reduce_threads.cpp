// reduce_threads: the iterations of a reduction loop become threads of a GPU block. Each reduces its own
// part; then they combine their results. The step is an rfactor over the loop: the new block's loop is bound
// to threadIdx.x, and its results are local to a thread. The old block's loop over these results gets a mark.
// Lowering for CUDA turns the marked loop into a tree of shuffles in a fixed order
// (src/passes/thread_tree.h), after which every thread has the result. Everywhere else it is an ordinary
// loop.
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

constexpr int64_t kMostThreads = 1024;

bool is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

Step step_of(const std::string& primitive, std::vector<std::string> args) {
  Step s;
  s.primitive = primitive;
  s.args = std::move(args);
  return s;
}

// The loop over the threads' results, which is the old block's only R loop, marked.
PrimFunc with_mark(const PrimFunc& f, const std::string& block, const std::string& loop) {
  for (const Stmt& l : find_place(f, block)->loops()) {
    if (loop_name(l) != loop) continue;
    const For& old = as_for(l);
    Annotations marked = old.annotations;
    marked["reduce_threads"] = std::string(name_of(ThreadTag::thread_x));
    return replace(f, l, make::loop(old.var, old.extent, old.body, old.kind, old.thread, marked));
  }
  throw InternalError("rfactor left no loop over the partial results");
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const std::string block = loop.place.name(), name = loop_name(loop.stmt);
  const int64_t threads = extent_of(loop.stmt);
  if (!is_power_of_two(threads) || threads < 2 || threads > kMostThreads)
    ctx.refuse(1, 0,
               loop.text() + " has " + (threads < 0 ? "no constant number of" : std::to_string(threads)) +
                   (threads == 1 ? " iteration" : " iterations"),
               {loop.stmt}, name + "0 " + name + "1 = split " + loop.text() + " [_, 32]");
  ctx.expect_results(1);
  std::set<std::string> names = block_and_buffer_names(ctx.func());
  const std::string partial = ctx.new_name(0, block + "_part", names);
  Decisions decisions;
  try {
    const QuietRefusals quiet;
    Step factor = step_of("rfactor", {loop.text()});
    factor.results = {partial};
    PrimFunc f = apply_step(ctx.func(), factor, decisions);
    f = apply_step(f, step_of("bind", {partial + "." + name, name_of(ThreadTag::thread_x)}), decisions);
    f = apply_step(f, step_of("set_scope", {partial, name_of(Scope::local)}), decisions);
    return with_mark(f, block, name);
  } catch (const ScheduleError& e) {
    std::string why = e.diagnostic().message;
    for (const std::string& note : e.diagnostic().notes) why += "\n" + note;
    ctx.refuse(2, 0, why, {}, e.diagnostic().hint);
  }
}

}  // namespace

Primitive reduce_threads_row() {
  return {
      "reduce_threads",
      "T_part",
      {{ArgKind::loop, "T.k"}},
      {},
      "Spreads a reduction over the threads of a GPU block. Each iteration of the loop becomes a thread that "
      "reduces its own part; then all threads combine their results by shuffles in a fixed order.",
      {"the loop has 2 to 1024 iterations, a power of two",
       "what rfactor requires of the loop, and bind of a loop that becomes threadIdx.x"},
      {examples::kSums, "k0 k1 = split Y.k [_, 32]\nreorder Y (k1 k0)\nY_part = reduce_threads Y.k1"},
      run};
}

}  // namespace nestor::schedules
