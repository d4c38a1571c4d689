#include "schedules/plans/when.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "nestor/walk.h"

namespace nestor::plans {

namespace {

using library::Access;
using library::BlockInfo;
using library::Iter;
using schedules::Word;

constexpr const char* kForm = "when block C reduction k >= 64, spatial i j, reads A B";

// The words of a line one by one; a comma behind a word ends a clause.
class Line {
 public:
  Line(const std::vector<Word>& words, const SourceLoc& loc) : words_(words), loc_(loc) {}

  bool ends() const { return at_ == words_.size(); }
  const std::string& word() const { return text_; }
  bool ends_clause() const { return comma_ || ends(); }
  const std::string& next(const char* what) {
    if (ends()) fail_here(fmt::format("{} is missing", what));
    text_ = words_[at_++].text;
    comma_ = text_.size() > 1 && text_.ends_with(',');
    if (comma_) text_.pop_back();
    return text_;
  }
  std::string peek() const {
    std::string w = ends_clause() ? "" : words_[at_].text;
    if (w.size() > 1 && w.ends_with(',')) w.pop_back();
    return w;
  }
  std::string name(const char* what) {
    if (!schedules::is_identifier(next(what))) fail_here(fmt::format("`{}` isn't a name", text_));
    return text_;
  }
  [[noreturn]] void fail_here(const std::string& why, const std::string& hint = kForm) const {
    const Word& w = words_[at_ > 0 ? at_ - 1 : 0];
    schedules::fail(loc_, w.column, w.length, why, hint);
  }

 private:
  const std::vector<Word>& words_;
  const SourceLoc& loc_;
  size_t at_ = 1;  // behind `when`
  std::string text_;
  bool comma_ = false;
};

bool is_clause(const std::string& w) {
  constexpr const char* kClauses[] = {"spatial", "reduction", "reads", "constant", "writes", "type", "op"};
  return std::find(std::begin(kClauses), std::end(kClauses), w) != std::end(kClauses);
}

bool is_comparison(const std::string& w) {
  return w == "<" || w == "<=" || w == "=" || w == ">=" || w == ">" || w == "%";
}

Named read_named(Line& line, const char* what) {
  Named n{line.name(what), {}};
  if (is_clause(n.name)) line.fail_here("a comma is missing before `" + n.name + "`");
  while (is_comparison(line.peek())) {
    const std::string comparison = line.next("a comparison");
    if (line.ends_clause()) line.fail_here("a number is missing after `" + comparison + "`");
    const std::string number = line.next("a number");
    int64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || value < 1)
      line.fail_here("`" + number + "` isn't a number of at least 1");
    n.tests.push_back({comparison, value});
  }
  return n;
}

NamedList read_list(Line& line, const char* what) {
  NamedList list;
  if (line.ends_clause()) line.fail_here(fmt::format("{} is missing after `{}`", what, line.word()));
  do {
    if (line.peek() == "...") {
      line.next(what);
      list.more = true;
      if (!line.ends_clause()) line.fail_here("`...` must be last");
      break;
    }
    list.names.push_back(read_named(line, what));
  } while (!line.ends_clause());
  return list;
}

std::vector<std::string> plain_names(const NamedList& list, const Line& line) {
  std::vector<std::string> out;
  for (const Named& n : list.names) {
    if (!n.tests.empty()) line.fail_here("`" + n.name + "` isn't a loop, so it has no extent to compare");
    out.push_back(n.name);
  }
  return out;
}

// The names that a pattern gives to loops.
std::vector<std::string> loop_names(const BlockPattern& b) {
  std::vector<std::string> out;
  for (const auto* list : {&b.spatial, &b.reduction})
    if (*list)
      for (const Named& n : (*list)->names) out.push_back(n.name);
  return out;
}

BlockPattern read_block(Line& line) {
  BlockPattern b;
  b.name = line.name("the block's name");
  if (line.ends_clause() && !line.ends()) line.fail_here("clauses follow the block's name without a comma");
  while (!line.ends()) {
    const std::string clause = line.next("a clause");
    if (clause == "spatial")
      b.spatial = read_list(line, "a loop");
    else if (clause == "reduction")
      b.reduction = read_list(line, "a loop");
    else if (clause == "reads")
      plain_names(*(b.reads = read_list(line, "a buffer")), line);
    else if (clause == "constant")
      b.constants = plain_names(read_list(line, "a buffer"), line);
    else if (clause == "writes")
      b.writes = line.name("a buffer");
    else if (clause == "type")
      b.type = line.next("a type");
    else if (clause == "op")
      b.op = line.next("an operation");
    else
      line.fail_here("`" + clause + "` isn't a clause",
                     "spatial, reduction, reads, constant, writes, type, op; a comma between two");
    if (!line.ends_clause()) line.fail_here("a comma is missing after `" + line.word() + "`");
  }
  return b;
}

bool holds(int64_t value, const Named::Test& t) {
  return t.comparison == "<"    ? value < t.number
         : t.comparison == "<=" ? value <= t.number
         : t.comparison == "="  ? value == t.number
         : t.comparison == ">=" ? value >= t.number
         : t.comparison == ">"  ? value > t.number
                                : value % t.number == 0;
}

// Empty, or which test doesn't hold.
std::string untrue(const Named& n, int64_t value) {
  for (const Named::Test& t : n.tests)
    if (!holds(value, t)) return fmt::format("{} is {}, not {} {}", n.name, value, t.comparison, t.number);
  return "";
}

std::optional<int64_t> property(const Target& t, const std::string& name) {
  if (name == "lanes") return t.kind == TargetKind::cpu ? t.lanes(4) : 1;
  if (name == "registers") return t.vector_registers;
  if (name == "cores") return t.cores;
  if (name == "l1") return t.l1_bytes;
  if (name == "l2") return t.l2_bytes;
  return std::nullopt;
}

const char* word_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::add:
      return "add";
    case ReduceOp::mul:
      return "mul";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "";
}

// Binds patterns to the function's blocks, in program order.
class Binder {
 public:
  Binder(const When& when, const PrimFunc& f) : when_(when), func_(f), blocks_(block_names(f)) {}

  std::optional<Bindings> run(std::string* why_not) {
    if (!when_.others && blocks_.size() != when_.blocks.size())
      why_ = fmt::format("it has {} blocks, the template {}", blocks_.size(), when_.blocks.size());
    else if (const auto found = bind_from(0, 0, {}))
      return found;
    if (why_not) *why_not = why_.empty() ? "it has too few blocks" : why_;
    return std::nullopt;
  }

 private:
  std::optional<Bindings> bind_from(size_t pattern, size_t block, const Bindings& so_far) {
    if (pattern == when_.blocks.size()) return so_far;
    for (size_t b = block; b < blocks_.size(); ++b) {
      Bindings bound = so_far;
      const std::string why = take(when_.blocks[pattern], blocks_[b], bound);
      if (why.empty())
        if (auto all = bind_from(pattern + 1, b + 1, bound)) return all;
      if (!why.empty() && pattern >= furthest_) {
        furthest_ = pattern;
        why_ = fmt::format("block {} as {}: {}", blocks_[b], when_.blocks[pattern].name, why);
      }
      if (!when_.others) break;
    }
    return std::nullopt;
  }

  // Empty where the block is what the pattern says.
  std::string take(const BlockPattern& p, const std::string& block, Bindings& bound) {
    const BlockInfo b = library::analyze(func_, block);
    if (!b.output) return "it writes several buffers";
    bound[p.name] = block;
    if (!p.reduction && b.reduction) return "it is a reduction";
    if (p.reduction && !b.reduction) return "it isn't a reduction";
    for (const bool reduce : {false, true})
      if (const auto& list = reduce ? p.reduction : p.spatial)
        if (std::string why = take_loops(*list, b, reduce, bound); !why.empty()) return why;
    if (!p.type.empty() && p.type != name_of(b.output->type.dtype))
      return fmt::format("its results are {}", name_of(b.output->type.dtype));
    if (!p.op.empty())
      if (std::string why = take_op(p.op, block); !why.empty()) return why;
    if (p.reads)
      if (std::string why = take_reads(*p.reads, b, bound); !why.empty()) return why;
    if (!p.writes.empty() && !take_name(p.writes, b.output->name, bound))
      return fmt::format("{} is another buffer than {}", p.writes, b.output->name);
    outputs_[p.name] = b.output->name;
    for (const std::string& c : p.constants) {
      const auto it = bound.find(c);
      const bool constant = std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
        return a.constant && it != bound.end() && a.buffer->name == it->second;
      });
      if (!constant) return fmt::format("{} isn't a constant that it reads", c);
    }
    return "";
  }

  static std::string take_loops(const NamedList& list, const BlockInfo& b, bool reduce, Bindings& bound) {
    std::vector<const Iter*> loops;
    for (const Iter& i : b.iters) {
      if (i.reduce != reduce) continue;
      if (i.loop.empty()) return fmt::format("iterator {} has no loop of its own", i.var->name);
      loops.push_back(&i);
    }
    const char* kind = reduce ? "reduction" : "spatial";
    if (list.more ? loops.size() < list.names.size() : loops.size() != list.names.size())
      return fmt::format("it has {} {} loops", loops.size(), kind);
    for (size_t i = 0; i < list.names.size(); ++i) {
      if (std::string why = untrue(list.names[i], loops[i]->extent); !why.empty()) return why;
      bound[list.names[i].name] = loops[i]->loop;
    }
    return "";
  }

  std::string take_reads(const NamedList& list, const BlockInfo& b, Bindings& bound) const {
    std::vector<std::string> read;
    for (const Access& a : b.accesses)
      if (a.read && a.buffer != b.output && !std::count(read.begin(), read.end(), a.buffer->name))
        read.push_back(a.buffer->name);
    if (list.more ? read.size() < list.names.size() : read.size() != list.names.size())
      return fmt::format("it reads {} buffers", read.size());
    for (size_t i = 0; i < list.names.size(); ++i) {
      const auto block = outputs_.find(list.names[i].name);
      const bool same =
          block != outputs_.end() ? block->second == read[i] : take_name(list.names[i].name, read[i], bound);
      if (!same) return fmt::format("it reads {}, which isn't {}", read[i], list.names[i].name);
    }
    return "";
  }

  std::string take_op(const std::string& op, const std::string& block) const {
    std::string found = "no";
    for_each_stmt(find_block(func_, block)->body, [&](const Stmt& s) {
      if (const auto* u = s.as<Update>()) found = word_of(u->op);
    });
    return found == op ? "" : fmt::format("its operation is {}", found);
  }

  // A name means one buffer.
  static bool take_name(const std::string& name, const std::string& buffer, Bindings& bound) {
    return bound.emplace(name, buffer).first->second == buffer;
  }

  const When& when_;
  const PrimFunc& func_;
  std::vector<std::string> blocks_;
  std::map<std::string, std::string> outputs_;  // by the pattern's name
  size_t furthest_ = 0;
  std::string why_;
};

}  // namespace

void read_when(const std::vector<Word>& words, const SourceLoc& loc, When& when) {
  Line line(words, loc);
  const std::string kind = line.next("what the function must look like");
  if (kind == "others") {
    when.others = true;
    if (!line.ends()) line.fail_here("nothing follows `when others`");
  } else if (kind == "target") {
    do {
      when.target.push_back(read_named(line, "a property of the target"));
      if (!property(Target{}, when.target.back().name))
        line.fail_here("a target has no `" + when.target.back().name + "`",
                       "lanes (of f32), registers, cores, l1, l2 (bytes)");
      if (!line.ends_clause()) line.fail_here("a comma is missing after `" + line.word() + "`");
    } while (!line.ends());
  } else if (kind == "block") {
    BlockPattern b = read_block(line);
    std::set<std::string> taken;
    for (const BlockPattern& before : when.blocks) {
      taken.insert(before.name);
      for (const std::string& l : loop_names(before)) taken.insert(l);
    }
    for (const std::string& l : loop_names(b))
      if (l == b.name || !taken.insert(l).second)
        line.fail_here("`" + l + "` names two things", "a name for each loop of each block");
    if (!taken.insert(b.name).second) line.fail_here("two blocks are named `" + b.name + "`");
    when.blocks.push_back(std::move(b));
  } else {
    line.fail_here("`when` is followed by `block`, `target` or `others`, not `" + kind + "`");
  }
}

std::optional<Bindings> bind(const When& when, const PrimFunc& f, const Target& target,
                             std::string* why_not) {
  for (const Named& n : when.target)
    if (const std::string why = untrue(n, *property(target, n.name)); !why.empty()) {
      if (why_not) *why_not = "the target's " + why;
      return std::nullopt;
    }
  return Binder(when, f).run(why_not);
}

}  // namespace nestor::plans
