// What the interpreter runs: the IR compiled once to instructions over a frame of 64-bit words.
//
// A tree walk would spend its time in hash maps and variants; here every variable, constant and intermediate
// value has a fixed place in the frame (a vector one word per lane), so a scalar operation costs a few
// nanoseconds. And since the machine keeps no state on the C++ stack, a thread of a CUDA block is just a
// frame and a program counter: waiting at a barrier needs no fibers.
//
// Words hold integers sign-extended (unsigned ones and bool zero-extended), f64 as its bits, f32 as its bits in the low
// half, and f16 and bf16 as the f32 of the same value.
#pragma once

#include <bit>
#include <string>
#include <vector>

#include "nestor/interpret.h"
#include "nestor/ir.h"

namespace nestor::interpreter {

using Word = int64_t;

template <class T>
T get(Word w) {
  if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(w);
  else if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(w));
  else
    return static_cast<T>(w);
}
template <class T>
Word put(T v) {
  if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<Word>(v);
  else if constexpr (std::is_same_v<T, float>)
    return static_cast<Word>(std::bit_cast<uint32_t>(v));
  else
    return static_cast<Word>(v);
}

enum class Op : uint8_t {
  compute,       // fn(frame, instruction)
  jump,          // to target
  jump_if_not,   // a is 0
  jump_if,       // a is not 0
  jump_outside,  // unless 0 <= a < b
  loop_begin,    // dst = 0; to target if a <= 0
  loop_next,     // dst += 1; to target if dst < a
  any_begin,     // the same for loops whose iterations have no order; b: two words of state
  any_next,
  fork,  // one context per iteration of a thread loop that has barriers inside; dst variable, a extent
  fork_end,
  barrier,
  index,    // dst = a * c + b, checked 0 <= b < c; a may be absent (-1); d: mask or -1
  load,     // dst = memory b at a; d: mask or -1
  store,    // memory b at a = c; d: mask or -1
  alloc,    // binds `buffer`: its parameter, or fresh memory
  release,  // end of the buffer's life
  halt,
};

struct Instruction;
using Handler = void (*)(Word* frame, const Instruction& i);

struct Instruction {
  Op op = Op::halt;
  bool vector_loop = false;  // any_*: a vectorized loop, always run forward
  DType dtype = DType::i64;  // reduce
  uint16_t lanes = 1;
  int32_t dst = -1, a = -1, b = -1, c = -1, d = -1;  // places in the frame
  int32_t target = -1;                               // jumps
  int32_t buffer = -1;                               // index, load, store, alloc, release
  int32_t extra = -1;  // index: the dimension; loops: the loop; reduce: the operation; load: of Code::wanted
  Handler fn = nullptr;
};

// Where an instruction comes from, for messages.
struct Site {
  const StmtNode* stmt = nullptr;
  int loop = -1;  // innermost enclosing loop
};
struct LoopSite {
  std::string name;
  const StmtNode* stmt = nullptr;
  int var = -1;     // place of its variable
  int parent = -1;  // enclosing loop
};

struct BufferSlot {
  Buffer buffer;
  Role role = Role::in;
  int param = -1;              // which parameter; -1 for temporaries
  std::vector<int32_t> shape;  // places of the extents
  int32_t place = -1;          // of the Memory*
};

struct Code {
  std::vector<Instruction> code;
  std::vector<int32_t> site_of;  // by instruction
  std::vector<Site> sites;
  std::vector<LoopSite> loops;
  std::vector<BufferSlot> buffers;
  std::vector<std::pair<int32_t, Word>> constants;
  std::vector<int32_t> dims;  // places of the symbolic dimensions
  // Lanes that a shuffle takes of what it loads. The others must lie in the buffer, but may hold anything.
  std::vector<std::vector<bool>> wanted;
  int32_t frame_size = 0;
};

Code compile(const PrimFunc& f, const InterpretOptions& options);

// A run-time error before it is known where it happened.
struct Fault {
  std::string message;
};

// The arithmetic, by type. nullptr where an operation doesn't exist for a type.
Handler binary_handler(BinaryOp op, DType t);
Handler unary_handler(UnaryOp op, DType t);
Handler call_handler(Intrinsic fn, DType t);
Handler cast_handler(DType from, DType to);
Handler bitcast_handler(DType from, DType to);
Handler reduce_handler();  // by ReduceOp `extra`; b: n words of scratch
Handler select_handler();  // by lane: dst = c ? a : b
Handler move_handler();
Handler lookup_handler();  // of the c values (of dst's lanes) at b, the one that the bits of a number
Handler broadcast_handler();
Handler ramp_handler();         // dst = a + lane * b
Handler wrap_handler(DType t);  // to the width of t; nullptr where a result can't need it

Word read_element(DType t, const uint8_t* data, int64_t i);
void write_element(DType t, uint8_t* data, int64_t i, Word w);

}  // namespace nestor::interpreter
