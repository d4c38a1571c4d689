// The interpreter's machine: runs the instructions of interpret_compile.cpp, watches memory, and turns what goes wrong
// into messages that say where.
#include "nestor/interpret.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "src/ir/interpret_code.h"
#include "src/ir/interpret_race.h"
#include "nestor/error.h"
#include "nestor/print.h"

namespace nestor {

namespace interpreter {

namespace {

// A buffer while it lives. `lanes` elements of `size` words where it holds vectors.
struct Memory {
  const BufferSlot* slot = nullptr;
  DType dtype = DType::f32;
  int lanes = 1;
  int64_t size = 0;
  uint8_t* data = nullptr;
  std::vector<uint8_t> own;          // a temporary's data
  std::vector<uint8_t> initialized;  // empty where all elements are
  std::vector<Shadow> shadow;        // with check_races only
  std::vector<int64_t> shape;
};

// One flow of control: the function itself, or a thread of a CUDA block.
struct Context {
  std::vector<Word> frame;
  size_t pc = 0;
  Path path;
  bool is_thread = false;
  bool done = false;
  std::vector<Context> children;  // threads, while this context stands at their fork
  uint32_t phase = 0;             // barriers passed by the children
};

enum class Stop { done, barrier };

class Machine {
 public:
  Machine(const PrimFunc& f, std::vector<Tensor>& args, const InterpretOptions& options)
      : func_(f), args_(args), options_(options), code_(compile(f, options)), random_(options.seed) {}

  void run() {
    Context c;
    c.frame.assign(static_cast<size_t>(code_.frame_size), 0);
    for (const auto& [place, word] : code_.constants) c.frame[static_cast<size_t>(place)] = word;
    for (size_t i = 0; i < code_.dims.size(); ++i) c.frame[static_cast<size_t>(code_.dims[i])] = options_.dims[i];
    c.path = races_.root();
    run(c);
  }

 private:
  Stop run(Context& c);
  Stop run_threads(Context& c);
  void release_barrier(Context& c);

  void begin_any(Context& c, const Instruction& i);
  bool next_any(Context& c, const Instruction& i);
  void index(Context& c, const Instruction& i);
  void load(Context& c, const Instruction& i);
  void store(Context& c, const Instruction& i);
  void alloc(Context& c, const Instruction& i);
  void bind_param(Memory& m);
  void check_race(Context& c, Memory& m, int64_t element, bool write);

  [[noreturn]] void fail(const Context& c, std::string message, std::vector<const void*> marked = {});
  std::string element_name(const Memory& m, int64_t element) const;

  const PrimFunc& func_;
  std::vector<Tensor>& args_;
  const InterpretOptions& options_;
  const Code code_;
  std::mt19937_64 random_;
  RaceDetector races_;
  int64_t steps_ = 0;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<std::vector<Memory*>> free_ = std::vector<std::vector<Memory*>>(code_.buffers.size());
};

Memory& memory_at(Word* r, int32_t place) { return *reinterpret_cast<Memory*>(r[place]); }

// ---- Control ---------------------------------------------------------------------------------------------------

Stop Machine::run(Context& c) try {
  if (!c.children.empty() && run_threads(c) == Stop::barrier) return Stop::barrier;
  Word* r = c.frame.data();
  for (;; ++c.pc) {
    const Instruction& i = code_.code[c.pc];
    const auto jump = [&] { c.pc = static_cast<size_t>(i.target) - 1; };
    switch (i.op) {
      case Op::compute: i.fn(r, i); break;
      case Op::jump: jump(); break;
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
        if (++steps_ > options_.max_steps) fail(c, "more than " + std::to_string(options_.max_steps) + " steps");
        if (++r[i.dst] < r[i.a]) jump();
        break;
      case Op::any_begin:
        if (r[i.a] > 0)
          begin_any(c, i);
        else
          jump();
        break;
      case Op::any_next:
        if (++steps_ > options_.max_steps) fail(c, "more than " + std::to_string(options_.max_steps) + " steps");
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
      case Op::fork_end: return Stop::done;
      case Op::barrier:
        if (!c.is_thread) break;  // outside of all threads there is nothing to wait for
        ++c.pc;
        return Stop::barrier;
      case Op::index: index(c, i); break;
      case Op::load: load(c, i); break;
      case Op::store: store(c, i); break;
      case Op::alloc: alloc(c, i); break;
      case Op::release:
        free_[static_cast<size_t>(i.buffer)].push_back(
            &memory_at(r, code_.buffers[static_cast<size_t>(i.buffer)].place));
        break;
      case Op::halt: return Stop::done;
    }
  }
} catch (const Fault& fault) {
  fail(c, fault.message);
}

// Runs the threads from barrier to barrier. Where this context is itself a thread, its own siblings must reach the
// barrier too, so it is passed upward.
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
    for (size_t t : order) {
      Context& child = c.children[t];
      child.done = run(child) == Stop::done;
      (child.done ? finished : waiting) = &child;
    }
    if (!waiting) {
      c.children.clear();
      c.pc = static_cast<size_t>(fork.target);
      if (options_.check_races) c.path.pop_back();
      return Stop::done;
    }
    if (finished) {
      const auto at = [&](const Context* t) {
        return std::to_string(t->frame[static_cast<size_t>(fork.dst)]);
      };
      const std::string name = code_.loops[static_cast<size_t>(fork.extra)].name;
      fail(c, "a barrier is reached by thread " + name + "=" + at(waiting) + ", but thread " + name + "=" +
                  at(finished) + " ends without it");
    }
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

// Iteration k of n runs as number (start + k * step) mod n: forward, reverse, or a random permutation that needs no
// memory (step and n coprime).
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

// ---- Memory ----------------------------------------------------------------------------------------------------

void Machine::index(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  const Word extent = r[i.c];
  for (int l = 0; l < i.lanes; ++l) {
    if (i.d >= 0 && !r[i.d + l]) {
      r[i.dst + l] = -1;
      continue;
    }
    const Word at = r[i.b + l];
    if (at < 0 || at >= extent) {
      const BufferSlot& slot = code_.buffers[static_cast<size_t>(i.buffer)];
      std::string shape;
      for (int32_t place : slot.shape) shape += (shape.empty() ? "" : ",") + std::to_string(r[place]);
      throw Fault{"index " + std::to_string(at) + " in dimension " + std::to_string(i.extra) + " is outside of " +
                  slot.buffer->name + "[" + shape + "]"};
    }
    r[i.dst + l] = i.a < 0 ? at : r[i.a + l] * extent + at;
  }
}

void Machine::load(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  Memory& m = memory_at(r, i.b);
  for (int l = 0; l < i.lanes; ++l) {
    if (i.d >= 0 && !r[i.d + l]) {
      r[i.dst + l] = 0;
      continue;
    }
    const int64_t at = m.lanes == 1 ? r[i.a + l] : r[i.a] * m.lanes + l;
    if (!m.initialized.empty() && !m.initialized[static_cast<size_t>(at)])
      throw Fault{element_name(m, at) + " is read before anything was stored there"};
    if (options_.check_races) check_race(c, m, at, false);
    r[i.dst + l] = read_element(m.dtype, m.data, at);
  }
}

void Machine::store(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  Memory& m = memory_at(r, i.b);
  if (m.slot->param >= 0 && m.slot->role != Role::out)
    throw Fault{"parameter " + m.slot->buffer->name + " is written, but it is not an `out`"};
  for (int l = 0; l < i.lanes; ++l) {
    if (i.d >= 0 && !r[i.d + l]) continue;
    const int64_t at = m.lanes == 1 ? r[i.a + l] : r[i.a] * m.lanes + l;
    if (options_.check_races) {
      check_race(c, m, at, true);
      for (int k = 0; k < l && m.lanes == 1; ++k)
        if (r[i.a + k] == at && (i.d < 0 || r[i.d + k]))
          throw Fault{"lanes " + std::to_string(k) + " and " + std::to_string(l) + " of one store both write " +
                      element_name(m, at)};
    }
    if (!m.initialized.empty()) m.initialized[static_cast<size_t>(at)] = 1;
    write_element(m.dtype, m.data, at, r[i.c + l]);
  }
}

void Machine::alloc(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  const BufferSlot& slot = code_.buffers[static_cast<size_t>(i.buffer)];
  std::vector<Memory*>& free_list = free_[static_cast<size_t>(i.buffer)];
  if (free_list.empty()) {
    memories_.push_back(std::make_unique<Memory>());
    free_list.push_back(memories_.back().get());
  }
  Memory& m = *free_list.back();
  free_list.pop_back();
  m.slot = &slot;
  m.dtype = slot.buffer->type.dtype;
  m.lanes = slot.buffer->type.lanes;
  m.shape.clear();
  for (int32_t place : slot.shape) m.shape.push_back(r[place]);
  m.size = product(m.shape) * m.lanes;
  if (slot.param >= 0) {
    bind_param(m);
  } else {
    m.own.resize(static_cast<size_t>(m.size * bytes_of(m.dtype)));
    m.data = m.own.data();
  }
  if (slot.param < 0 || slot.role == Role::out) m.initialized.assign(static_cast<size_t>(m.size), 0);
  if (options_.check_races) m.shadow.assign(static_cast<size_t>(m.size), {});
  r[i.dst] = reinterpret_cast<Word>(&m);
}

void Machine::bind_param(Memory& m) {
  Tensor& t = args_[static_cast<size_t>(m.slot->param)];
  const std::string wanted = to_string(m.dtype, m.shape), given = to_string(t.dtype(), t.shape());
  // A flat parameter of a lowered function takes any tensor of as many elements.
  const bool fits = t.shape() == m.shape || (m.shape.size() == 1 && t.size() == m.size);
  if (!t.defined() || t.dtype() != m.dtype || !fits)
    throw UserError(func_.name + ": parameter " + m.slot->buffer->name + " is " + wanted + ", but " +
                    (t.defined() ? given : "no tensor") + " was given");
  m.data = static_cast<uint8_t*>(t.data());
}

// ---- Errors ----------------------------------------------------------------------------------------------------

std::string Machine::element_name(const Memory& m, int64_t element) const {
  std::string lane = m.lanes == 1 ? "" : " lane " + std::to_string(element % m.lanes);
  element /= m.lanes;
  std::vector<int64_t> index(m.shape.size());
  for (size_t d = m.shape.size(); d-- > 0;) {
    index[d] = element % m.shape[d];
    element /= m.shape[d];
  }
  std::string out = m.slot->buffer->name + "[";
  for (size_t d = 0; d < index.size(); ++d) out += (d ? "," : "") + std::to_string(index[d]);
  return out + "]" + lane;
}

void Machine::check_race(Context& c, Memory& m, int64_t element, bool write) {
  Shadow& s = m.shadow[static_cast<size_t>(element)];
  const int32_t site = code_.site_of[c.pc];
  const std::optional<Clash> clash = write ? races_.write(s, c.path, site) : races_.read(s, c.path, site);
  if (!clash) return;
  const LoopSite& loop = code_.loops[static_cast<size_t>(clash->loop)];
  const auto iteration = [&](int64_t v) { return loop.name + "=" + std::to_string(v); };
  fail(c,
       "iterations " + iteration(clash->earlier) + " and " + iteration(clash->current) + " of loop `" + loop.name +
           "` have no order, but " + iteration(clash->earlier) + (clash->with_write ? " writes " : " reads ") +
           element_name(m, element) + " and " + iteration(clash->current) + (write ? " writes" : " reads") + " it",
       {code_.sites[static_cast<size_t>(clash->with.site)].stmt, loop.stmt});
}

void Machine::fail(const Context& c, std::string message, std::vector<const void*> marked) {
  const Site& site = code_.sites[static_cast<size_t>(code_.site_of[c.pc])];
  Diagnostic d;
  d.message = func_.name + ": " + std::move(message);
  std::string where;
  for (int l = site.loop; l >= 0; l = code_.loops[static_cast<size_t>(l)].parent) {
    const LoopSite& loop = code_.loops[static_cast<size_t>(l)];
    where = loop.name + "=" + std::to_string(c.frame[static_cast<size_t>(loop.var)]) + (where.empty() ? "" : " ") + where;
  }
  if (!where.empty()) d.notes.push_back("in iteration " + where);
  marked.insert(marked.begin(), site.stmt);
  marked.erase(std::remove(marked.begin(), marked.end(), nullptr), marked.end());
  if (!marked.empty()) d.notes.push_back(print_marked(func_, marked));
  throw UserError(std::move(d));
}

}  // namespace

}  // namespace interpreter

void interpret(const PrimFunc& f, std::vector<Tensor>& args, const InterpretOptions& options) {
  if (args.size() != f.params.size())
    throw UserError(f.name + " takes " + std::to_string(f.params.size()) + " tensors, " + std::to_string(args.size()) +
                    " were given");
  if (options.dims.size() != f.dims.size())
    throw UserError(f.name + " has " + std::to_string(f.dims.size()) + " symbolic dimensions, " +
                    std::to_string(options.dims.size()) + " values were given");
  interpreter::Machine(f, args, options).run();
}

}  // namespace nestor
