// Machine instructions as users describe them: what one computes, as a loop nest over a small tile, and how
// it is called. `tensorize` looks for the nest in a schedule's function; lowering then calls the instruction.
//
// A file (schedules/instructions/*.nest is built in) holds functions and, behind each, how to lower it:
//
//   func dot4(in A: u8[4], in B: i8[16,4], out C: i32[16]) {
//     for j in 16, k in 4 {
//       block C(vj: S 16 = j, vk: R 4 = k) {
//         C[vj] += i32(A[vk]) * i32(B[vj,vk])
//       }
//     }
//   }
//   lower dot4 for llvm needs avx512vnni {
//     call "llvm.x86.avx512.vpdpbusd.512" (C, A, B)
//     A[4] = (r) -> (r)
//     B[64] = (r) -> (r/4, r%4)
//     C[16] = (r) -> (r)
//   }
//
// The function: one nest of loops of constant extents around one block, an iterator per loop, one store or
// update of its one `out` parameter, no init. Parameters are tiles: the buffers they stand for may have any
// strides.
//
// `lower NAME for llvm|cuda`: `needs` names features, all of which the target must have (LLVM's names, or
// sm_80 for that and newer). A line per parameter says which element of the tile is in which place of a
// register: `B[64] = (r) -> (r/4, r%4)` has 64 places. `call` names LLVM's intrinsic and its operands in
// order: parameters, or integers; one that is narrower than the intrinsic's operand is repeated in it. The
// result is the `out` parameter. Several lowerings may stand behind one function; the first whose needs are
// met is taken. Without any, the function's own loops are taken as they are written, unrolled and vectorized:
// an expansion.
//
// A CPU that lacks such an instruction may have a few that do the same: between `text {{{` and `}}}` stands
// LLVM's IR, which defines the function that `call` names then, by the same rules for its operands. It is
// inlined, so that what it makes of an operand is made once for a tile; `registers 2` says how many each
// operand takes so, for the tile's size. It may call what the text defines besides, and LLVM's intrinsics.
//
// For CUDA, `threads 32` threads of a warp, t, work together, each with registers r: `A[8] = (t, r) ->
// (...)`, and `text {{{ ... }}}` holds C++ that defines the function which `call` names. Its parameters are
// pointers to each thread's registers; f16 is `unsigned short`.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "nestor/error.h"
#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor {

struct Fragment {
  size_t param = 0;    // of the meaning
  int64_t places = 1;  // in one thread
  IndexMap map;        // (r) or (t, r) to the tile's indices
};

struct InstructionLowering {
  TargetKind kind = TargetKind::cpu;
  std::vector<std::string> needs;
  int64_t threads = 1;
  int64_t registers = 1;  // that an operand takes while a tile is worked at: what the callee makes of it
  std::string callee;
  std::vector<std::variant<size_t, int64_t>> operands;  // parameters, or immediates
  std::vector<Fragment> fragments;                      // one per parameter
  std::string text;                                     // the callee's definition, C++ or LLVM's IR
  SourceLoc loc;
};

struct Instruction {
  std::string name;
  PrimFunc meaning;
  std::string file;
  std::vector<InstructionLowering> lowerings;
  const Block& block() const;       // of the meaning
  std::vector<Stmt> loops() const;  // outermost first
  size_t out() const;               // its one `out` parameter
};

// All instructions of a text. UserError with file, line and caret.
std::vector<Instruction> parse_instructions(std::string_view text, const std::string& file);

// The built-in ones and those of files read so far. Reading a file again does nothing; a name that is known
// with another meaning or lowering is a UserError.
void read_instructions(const std::string& path);
const Instruction* find_instruction(const std::string& name);
std::vector<std::string> instruction_names();

bool meets(const Target& target, const InstructionLowering& lowering);
// The first lowering that the target can do; null for an expansion. UserError naming what the target lacks,
// and instructions that it has.
const InstructionLowering* lowering_for(const Instruction& instruction, const Target& target);
// The text that defines what such a lowering calls; empty where there is none.
std::string text_of(const std::string& callee, TargetKind kind);

// The body of a block of tiles against an instruction: `indices` of each parameter's buffer, over the
// iterators of the outer block and those of the instruction. A tile may hang over the end: its instances are
// those for which all of `guards` hold, conditions over the same iterators.
struct InstructionMatch {
  struct Operand {
    Buffer buffer;
    std::vector<Expr> indices;
  };
  struct Guard {
    Expr condition;
    std::vector<Var> about;  // the instruction's iterators in it
    bool reduce = false;     // those are of a reduction: zeros in the factors' places add nothing
  };
  std::vector<Operand> operands;  // per parameter of the meaning
  std::vector<Guard> guards;
  std::string difference;  // the first one; empty where it matches
};
InstructionMatch match_instruction(const Block& outer, const Instruction& instruction);

// Tensorized blocks as the loops that they mean, unrolled: for who can't run machine instructions. To be done
// before lowering.
PrimFunc without_instructions(const PrimFunc& f);

}  // namespace nestor
