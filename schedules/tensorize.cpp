// tensorize: a tile becomes one hardware instruction. The instruction is described as a loop nest
// (instruction.h), and the tile must be the same nest except for names and strides. The step only adds an
// annotation. The block keeps its body, which the interpreter and the proof use; lowering replaces it by the
// instruction.
//
// The named loop and all inside of it become a block first (blockize), unless they are one already.
#include <algorithm>
#include <filesystem>

#include "nestor/instruction.h"
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/schedule_folder.h"
#include "schedules/suggest.h"

namespace nestor::schedules {

namespace {

const Instruction& read_instruction(const StepContext& ctx) {
  if (const auto file = ctx.option("from")) {
    const bool quoted = file->size() > 1 && file->front() == '"';
    const std::string name = quoted ? file->substr(1, file->size() - 2) : *file;
    const SourceLoc at = loc_of_option(ctx.step(), "from");
    const std::string folder = std::filesystem::path(ctx.step().loc.file).parent_path().string();
    const NamedFile found = find_in_folder(folder, folder, name, ".nest");
    if (found.path.empty()) ctx.refuse(1, at, found.why, {}, found.hint);
    try {
      read_instructions(found.path);
    } catch (const UserError& e) {
      ctx.refuse(1, at, e.diagnostic().loc.line ? e.what() : e.diagnostic().message);
    }
  }
  const Instruction* i = find_instruction(ctx.word(1));
  if (!i)
    ctx.refuse(1, 1, "there is no instruction `" + ctx.word(1) + "`", {},
               "there are " + nearest(ctx.word(1), instruction_names()));
  return *i;
}

// The block whose body the loop is; none where it isn't one's.
Stmt block_of(const LoopRef& loop) {
  if (loop.depth == 0) return {};
  const Stmt& around = loop.place.path[loop.depth - 1];
  return around.as<Block>() ? around : Stmt();
}

// Instructions that the tile is.
std::string legal_instructions(const StepContext& ctx, const Block& tile) {
  std::vector<std::string> lines;
  for (const std::string& name : instruction_names())
    if (match_instruction(tile, *find_instruction(name)).difference.empty()) {
      Step s = ctx.step();
      s.args[1] = name;
      s.options.clear();
      lines.push_back(print(s));
    }
  if (!lines.empty()) return join(lines, "\n");
  // Perhaps only the init is in the way.
  const LoopRef loop = ctx.loop(0);
  std::vector<Step> candidates;
  for (const Stmt& l : loop.place.own_loops()) {
    Step s;
    s.primitive = "decompose_reduction";
    s.args = {loop.place.name() + "." + loop_name(l)};
    candidates.push_back(s);
  }
  if (!loop.place.own().init) candidates.clear();
  return join(legal_steps(ctx.func(), Decisions{}, candidates), "\n");
}

PrimFunc run(StepContext& ctx) {
  const Instruction& instruction = read_instruction(ctx);
  const LoopRef loop = ctx.loop(0);
  ctx.expect_results(1);
  for (size_t i = 0; i < loop.depth; ++i)
    if (const auto* l = loop.place.path[i].as<For>(); l && l->kind == ForKind::vectorized)
      ctx.refuse(2, 0, "it is inside the vectorized loop " + l->var->name, {loop.place.path[i], loop.stmt});
  PrimFunc f = ctx.func();
  Stmt tile = block_of(loop);
  if (!tile) {
    Step blockize;
    blockize.primitive = "blockize";
    blockize.results = ctx.step().results;
    blockize.args = {loop.text()};
    Decisions none;
    try {
      f = apply_step(f, blockize, none);
    } catch (const ScheduleError& e) {
      std::string why = e.diagnostic().message;
      for (const std::string& note : e.diagnostic().notes) why += "\n" + note;
      ctx.refuse(2, 0, why, {}, e.diagnostic().hint);
    }
    const Place inner = *find_place(f, loop.place.name());
    tile = inner.path[inner.inside() - 1];
  } else if (!ctx.step().results.empty()) {
    ctx.refuse_common('A', loc_of_result(ctx.step(), 0),
                      "the block is there already: " + tile.as<Block>()->id->name, "leave the name out");
  }
  for (const Place& p : places(f.body))
    if (p.own().annotations.count("tensorize") && (p.under(tile) || contains(p.stmt, tile)))
      ctx.refuse(4, 0, "block " + p.name() + " is tensorized already");
  const InstructionMatch match = match_instruction(*tile.as<Block>(), instruction);
  if (!match.difference.empty())
    ctx.refuse(3, 1, match.difference, {loop.stmt}, legal_instructions(ctx, *tile.as<Block>()));
  Block marked = *tile.as<Block>();
  marked.annotations["tensorize"] = instruction.name;
  return replace(f, tile, make::block(std::move(marked)));
}

}  // namespace

Primitive tensorize_row() {
  return {"tensorize",
          "T_o",
          {{ArgKind::loop, "T.i"}, {ArgKind::word, "INSTRUCTION"}},
          {{"from", "FILE",
            "a .nest file in the schedule's folder that describes the instruction; not needed for built-in "
            "ones"}},
          "Replaces a loop and all inside of it, a tile, by a hardware instruction.",
          {"the instruction is known: built in, or in the file `from=FILE`",
           "the named loop and all inside of it is a block made by blockize, or can become one, and isn't "
           "inside of a vectorized loop",
           "what they compute is what the instruction computes", "no part of it is tensorized already"},
          {examples::kDot,
           "j0 j1 = split C.j [_, 16]\nk0 k1 = split C.k [_, 4]\nreorder C (i j0 k0 j1 k1)\n"
           "decompose_reduction C.k0\ntensorize C.j1 vpdpbusd"},
          run,
          true};
}

}  // namespace nestor::schedules
