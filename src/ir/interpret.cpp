// The interpreter's control flow: jumps, unordered loops, threads and their barriers.
#include "nestor/interpret.h"

#include <algorithm>
#include <numeric>

#include "nestor/error.h"
#include "src/ir/interpret_machine.h"

namespace nestor {

namespace interpreter {

Stop Machine::run(Context& c) try {
  if (!c.children.empty() && run_threads(c) == Stop::barrier) return Stop::barrier;
  Word* r = c.frame.data();
  for (;; ++c.pc) {
    const Instruction& i = code_.code[c.pc];
    const auto jump = [&] { c.pc = static_cast<size_t>(i.target) - 1; };
    switch (i.op) {
      case Op::compute:
        i.fn(r, i);
        break;
      case Op::jump:
        jump();
        break;
      case Op::jump_if_not:
        if (!r[i.a]) jump();
        break;
      case Op::jump_if:
        if (r[i.a]) jump();
        break;
      case Op::jump_outside:
        if (r[i.a] < 0 || r[i.a] >= r[i.b]) jump();
        break;
      case Op::loop_begin:
        r[i.dst] = 0;
        if (r[i.a] <= 0) jump();
        break;
      case Op::loop_next:
        count_step();
        if (++r[i.dst] < r[i.a]) jump();
        break;
      case Op::any_begin:
        if (r[i.a] > 0)
          begin_any(c, i);
        else
          jump();
        break;
      case Op::any_next:
        count_step();
        if (next_any(c, i)) jump();
        break;
      case Op::fork: {
        if (r[i.a] <= 0) {
          jump();
          break;
        }
        if (options_.check_races) races_.enter_loop(c.path, i.extra);
        Context child = c;
        child.is_thread = true;
        ++child.pc;
        c.children.assign(static_cast<size_t>(r[i.a]), child);
        c.phase = 0;
        for (size_t t = 0; t < c.children.size(); ++t) {
          c.children[t].frame[static_cast<size_t>(i.dst)] = static_cast<Word>(t);
          if (options_.check_races) races_.enter_iteration(c.children[t].path, static_cast<int64_t>(t));
        }
        if (run_threads(c) == Stop::barrier) return Stop::barrier;
        --c.pc;  // run_threads went past the loop
        break;
      }
      case Op::fork_end:
        return Stop::done;
      case Op::barrier:
        if (!c.is_thread) break;  // outside of all threads there is nothing to wait for
        c.barrier = c.pc++;
        return Stop::barrier;
      case Op::index:
        if (i.lanes == 1 && i.d < 0 && static_cast<uint64_t>(r[i.b]) < static_cast<uint64_t>(r[i.c]))
          r[i.dst] = i.a < 0 ? r[i.b] : r[i.a] * r[i.c] + r[i.b];
        else
          index(c, i);
        break;
      case Op::load:
        load(c, i);
        break;
      case Op::store:
        store(c, i);
        break;
      case Op::alloc:
        alloc(c, i);
        break;
      case Op::release:
        free_[static_cast<size_t>(i.buffer)].push_back(
            &memory_at(r, code_.buffers[static_cast<size_t>(i.buffer)].place));
        break;
      case Op::halt:
        return Stop::done;
    }
  }
} catch (const Fault& fault) {
  fail(c, fault.message);
}

// Runs the threads from barrier to barrier. Where this context is itself a thread, its own siblings must
// reach the barrier too, so it is passed upward.
Stop Machine::run_threads(Context& c) {
  const Instruction& fork = code_.code[c.pc];
  std::vector<size_t> order(c.children.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (options_.order == LoopOrder::reverse) std::reverse(order.begin(), order.end());
  for (;;) {
    if (options_.order == LoopOrder::random)
      for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random_() % k]);
    const Context* waiting = nullptr;
    const Context* finished = nullptr;
    const Context* stray = nullptr;  // waits elsewhere than another
    for (size_t t : order) {
      Context& child = c.children[t];
      child.done = run(child) == Stop::done;
      if (!child.done && waiting && !stray && waiting->barrier != child.barrier) stray = &child;
      const Context*& example = child.done ? finished : waiting;
      if (!example) example = &child;
    }
    if (!waiting) {
      c.children.clear();
      c.pc = static_cast<size_t>(fork.target);
      if (options_.check_races) c.path.pop_back();
      return Stop::done;
    }
    if (finished || stray) {
      const auto thread = [&](const Context* t) {
        return "thread " + code_.loops[static_cast<size_t>(fork.extra)].name + "=" +
               std::to_string(t->frame[static_cast<size_t>(fork.dst)]);
      };
      const Context* other = finished ? finished : stray;
      const auto site = [&](const Context* t) {
        return code_.sites[static_cast<size_t>(code_.site_of[t->barrier])].stmt;
      };
      fail(c,
           "a barrier is reached by " + thread(waiting) + ", but " + thread(other) +
               (finished ? " ends without it" : " waits at another"),
           {site(waiting), finished ? nullptr : site(other)});
    }
    c.barrier = waiting->barrier;
    if (c.is_thread) return Stop::barrier;
    release_barrier(c);
  }
}

void Machine::release_barrier(Context& c) {
  ++c.phase;
  if (!options_.check_races) return;
  std::vector<std::pair<uint32_t, uint32_t>> renewed;
  const size_t base = c.path.size();
  const auto renew = [&](auto&& self, Context& thread) -> void {
    races_.pass_barrier(thread.path, base, c.phase, renewed);
    for (Context& child : thread.children) self(self, child);
  };
  for (Context& child : c.children) renew(renew, child);
}

// Iteration k of n runs as number (start + k * step) mod n: forward, reverse, or a random permutation that
// needs no memory (step and n coprime).
void Machine::begin_any(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  const Word n = r[i.a];
  Word step = 1, start = 0;
  if (!i.vector_loop && options_.order == LoopOrder::reverse) {
    step = n - 1;
    start = n - 1;
  } else if (!i.vector_loop && options_.order == LoopOrder::random) {
    start = static_cast<Word>(random_() % static_cast<uint64_t>(n));
    do step = 1 + static_cast<Word>(random_() % static_cast<uint64_t>(n));
    while (std::gcd(step, n) != 1);
  }
  r[i.b] = 0;
  r[i.b + 1] = step;
  r[i.dst] = start;
  if (!options_.check_races) return;
  races_.enter_loop(c.path, i.extra);
  races_.enter_iteration(c.path, start);
}

bool Machine::next_any(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  const Word n = r[i.a];
  if (options_.check_races) c.path.pop_back();
  if (++r[i.b] >= n) {
    if (options_.check_races) c.path.pop_back();
    return false;
  }
  r[i.dst] = (r[i.dst] + r[i.b + 1]) % n;
  if (options_.check_races) races_.enter_iteration(c.path, r[i.dst]);
  return true;
}

}  // namespace interpreter

void interpret(const PrimFunc& f, std::vector<Tensor>& args, const InterpretOptions& options) {
  if (args.size() != f.params.size())
    throw UserError(f.name + " takes " + std::to_string(f.params.size()) + " tensors, " +
                    std::to_string(args.size()) + " were given");
  if (options.dims.size() != f.dims.size())
    throw UserError(f.name + " has " + std::to_string(f.dims.size()) + " symbolic dimensions, " +
                    std::to_string(options.dims.size()) + " values were given");
  interpreter::Machine(f, args, options).run();
}

}  // namespace nestor
