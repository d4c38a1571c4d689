// The table of instructions: the built-in ones, and those of users' files. Entries are never removed, so
// pointers to them stay valid, and several threads may look things up while another replays a schedule.
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "nestor/embedded.h"
#include "nestor/instruction.h"
#include "nestor/nearest.h"
#include "nestor/print.h"
#include "nestor/read_text.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

struct Table {
  std::mutex mutex;
  std::deque<Instruction> rows;
};

// What is called has one text, whoever calls it.
void check_texts(const Table& table, const Instruction& i) {
  std::map<std::pair<TargetKind, std::string>, const std::string*> texts;
  const auto look = [&](const Instruction& one) {
    for (const InstructionLowering& l : one.lowerings) {
      const auto [at, made] = texts.emplace(std::pair{l.kind, l.callee}, &l.text);
      if (!made && *at->second != l.text)
        throw UserError(Diagnostic{"`" + l.callee + "` has a text already, and another one",
                                   l.loc,
                                   {},
                                   "give the function another name"});
    }
  };
  for (const Instruction& old : table.rows) look(old);
  look(i);
}

void add(Table& table, Instruction i) {
  for (const Instruction& old : table.rows) {
    if (old.name != i.name) continue;
    bool same = structural_equal(old.meaning, i.meaning, true) && old.lowerings.size() == i.lowerings.size();
    for (size_t k = 0; same && k < i.lowerings.size(); ++k)
      same = old.lowerings[k].callee == i.lowerings[k].callee &&
             old.lowerings[k].text == i.lowerings[k].text && old.lowerings[k].needs == i.lowerings[k].needs &&
             old.lowerings[k].operands == i.lowerings[k].operands &&
             old.lowerings[k].registers == i.lowerings[k].registers;
    if (same) return;
    throw UserError(
        Diagnostic{"the instruction `" + i.name + "` of " + i.file + " is another than that of " + old.file,
                   {},
                   {},
                   "give it a name of its own"});
  }
  check_texts(table, i);
  table.rows.push_back(std::move(i));
}

Table& table() {
  static Table* t = [] {
    auto* made = new Table;
    for (const EmbeddedFile& file : instruction_files())
      for (Instruction& i : parse_instructions(file.text, "schedules/instructions/" + std::string(file.name)))
        add(*made, std::move(i));
    return made;
  }();
  return *t;
}

bool has_feature(const Target& target, const std::string& need) {
  if (target.kind == TargetKind::cuda) {
    const auto number = [](const std::string& sm) {
      return sm.starts_with("sm_") ? std::atoi(sm.c_str() + 3) : 0;
    };
    return number(need) > 0 && number(target.sm) >= number(need);
  }
  const std::string all = "," + target.features + ",";
  return all.find(",+" + need + ",") != std::string::npos;
}

}  // namespace

const Block& Instruction::block() const {
  return *loops().back().as<For>()->body.as<Block>();
}

std::vector<Stmt> Instruction::loops() const {
  std::vector<Stmt> out;
  for (Stmt s = meaning.body; s.as<For>(); s = s.as<For>()->body) out.push_back(s);
  return out;
}

size_t Instruction::out() const {
  for (size_t p = 0; p < meaning.params.size(); ++p)
    if (meaning.params[p].role == Role::out) return p;
  throw InternalError("an instruction without an output");
}

void read_instructions(const std::string& path) {
  std::vector<Instruction> read = parse_instructions(read_text(path), path);
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  for (Instruction& i : read) add(t, std::move(i));
}

const Instruction* find_instruction(const std::string& name) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  for (const Instruction& i : t.rows)
    if (i.name == name) return &i;
  return nullptr;
}

std::vector<std::string> instruction_names() {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  std::vector<std::string> names;
  for (const Instruction& i : t.rows) names.push_back(i.name);
  std::sort(names.begin(), names.end());
  return names;
}

bool meets(const Target& target, const InstructionLowering& lowering) {
  return lowering.kind == target.kind &&
         std::all_of(lowering.needs.begin(), lowering.needs.end(),
                     [&](const std::string& n) { return has_feature(target, n); });
}

const InstructionLowering* lowering_for(const Instruction& instruction, const Target& target) {
  for (const InstructionLowering& l : instruction.lowerings)
    if (meets(target, l)) return &l;
  if (instruction.lowerings.empty()) return nullptr;
  std::string lacking, legal;
  for (const InstructionLowering& l : instruction.lowerings) {
    if (l.kind != target.kind) continue;
    for (const std::string& n : l.needs)
      if (!has_feature(target, n)) lacking += (lacking.empty() ? "" : ", ") + n;
  }
  for (const std::string& name : instruction_names()) {
    const Instruction& other = *find_instruction(name);
    const bool can = other.lowerings.empty() || std::any_of(other.lowerings.begin(), other.lowerings.end(),
                                                            [&](const auto& l) { return meets(target, l); });
    if (can) legal += (legal.empty() ? "" : ", ") + name;
  }
  const std::string why =
      lacking.empty() ? std::string(target.kind == TargetKind::cuda ? "it is a CPU's" : "it is a GPU's")
                      : "it needs " + lacking;
  throw ScheduleError(
      Diagnostic{"the instruction `" + instruction.name + "` can't be used for " + target.name + ": " + why,
                 {},
                 {},
                 legal.empty() ? "leave the `tensorize` step out: the block's loops are its meaning"
                               : "instructions for " + target.name + ": " + legal});
}

std::string text_of(const std::string& callee, TargetKind kind) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  for (const Instruction& i : t.rows)
    for (const InstructionLowering& l : i.lowerings)
      if (l.kind == kind && l.callee == callee) return l.text;
  return "";
}

namespace {

struct ByMeaning : Rewriter {
  bool tile = false;
  Stmt stmt(const Stmt& s) override {
    const bool before = tile;
    const auto* b = s.as<Block>();
    if (b && b->annotations.count("tensorize")) tile = true;
    Stmt out = children(s);
    if (const auto* l = out.as<For>(); l && tile && l->kind == ForKind::serial)
      out = make::loop(l->var, l->extent, l->body, ForKind::unrolled, l->thread, l->annotations);
    if (b && tile && !before) {
      Block plain = *out.as<Block>();
      plain.annotations.erase("tensorize");
      out = make::block(std::move(plain));
    }
    tile = before;
    return out;
  }
};

}  // namespace

PrimFunc without_instructions(const PrimFunc& f) {
  PrimFunc out = f;
  out.body = ByMeaning().stmt(f.body);
  return out;
}

}  // namespace nestor
