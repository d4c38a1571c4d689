// The interpreter's machine: runs Code (interpret_code.h), watches memory, and turns what goes wrong into
// messages that say where.
#pragma once

#include <memory>
#include <random>

#include "nestor/unwanted.h"
#include "src/ir/interpret_code.h"
#include "src/ir/interpret_race.h"

namespace nestor::interpreter {

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
  size_t barrier = 0;             // the instruction at which it waits
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
    for (size_t i = 0; i < code_.dims.size(); ++i)
      c.frame[static_cast<size_t>(code_.dims[i])] = options_.dims[i];
    c.path = races_.root();
    run(c);
    if (options_.check_written) check_written();
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
  void check_written() const;
  void count_step() {
    if (steps_ % 65536 == 0) check_wanted();
    if (++steps_ > options_.max_steps)
      throw TooManySteps(func_.name + ": more than " + std::to_string(options_.max_steps) + " iterations");
  }
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

inline Memory& memory_at(Word* r, int32_t place) {
  return *reinterpret_cast<Memory*>(r[place]);
}

}  // namespace nestor::interpreter
