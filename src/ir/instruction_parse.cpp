// Files of instructions (instruction.h says what is in them). A file is cut into functions and lowerings by
// its lines; functions are read by the parser of the text form, lowerings here, line by line. What a lowering
// says of registers is checked by enumeration: tiles are small.
#include <algorithm>
#include <cctype>
#include <set>

#include "nestor/check.h"
#include "nestor/instruction.h"
#include "nestor/nearest.h"
#include "nestor/parse.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

struct Line {
  std::string text;
  int number = 0;
};

// Words of a line, and symbols one by one; "..." is one word with its quotes.
class Reader {
 public:
  Reader(const Line& line, const std::string& file) : line_(line), file_(file) { skip(); }
  bool done() const { return at_ >= line_.text.size() || line_.text[at_] == '#'; }
  std::string peek() const { return line_.text.substr(at_, length()); }
  std::string take() {
    std::string word = peek();
    at_ += word.size();
    skip();
    return word;
  }
  bool take_if(const std::string& word) {
    if (peek() != word) return false;
    take();
    return true;
  }
  void expect(const std::string& word, const std::string& where) {
    if (!take_if(word)) fail("expected `" + word + "` " + where);
  }
  int64_t integer(const std::string& what) {
    const std::string word = peek();
    if (word.empty() || !std::isdigit(static_cast<unsigned char>(word[0]))) fail("expected " + what);
    constexpr size_t kMostDigits = 9;
    if (word.size() > kMostDigits) fail("too large for " + what);
    take();
    return std::stoll(word);
  }
  std::string rest() const { return line_.text.substr(at_); }
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const {
    const int n = static_cast<int>(std::max<size_t>(length(), 1));
    throw UserError(
        Diagnostic{message, {file_, line_.number, static_cast<int>(at_) + 1, n, line_.text}, {}, hint});
  }
  SourceLoc loc() const { return {file_, line_.number, 1, static_cast<int>(line_.text.size()), line_.text}; }

 private:
  size_t length() const {
    const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    if (at_ >= line_.text.size()) return 0;
    size_t end = at_ + 1;
    if (line_.text[at_] == '"') {
      while (end < line_.text.size() && line_.text[end] != '"') ++end;
      return std::min(end + 1, line_.text.size()) - at_;
    }
    if (line_.text.compare(at_, 2, "->") == 0) return 2;
    if (line_.text.compare(at_, 3, "{{{") == 0) return 3;
    while (word(line_.text[at_]) && end < line_.text.size() && word(line_.text[end])) ++end;
    return end - at_;
  }
  void skip() {
    while (at_ < line_.text.size() && std::isspace(static_cast<unsigned char>(line_.text[at_]))) ++at_;
  }
  const Line& line_;
  const std::string& file_;
  size_t at_ = 0;
};

[[noreturn]] void fail_meaning(const PrimFunc& f, const std::string& file, const std::string& why) {
  throw UserError(
      Diagnostic{file + ": `" + f.name + "` isn't an instruction: " + why,
                 {},
                 {},
                 "one nest of loops around one block, an iterator for each loop, and one store or update "
                 "of the one `out` parameter at distinct iterators"});
}

// The places where a parameter is touched must be distinct plain iterators over its whole shape.
void check_access(const Instruction& i, const Buffer& b, const std::vector<Expr>& indices) {
  const auto fail = [&](const std::string& why) { fail_meaning(i.meaning, i.file, why); };
  const Param* param = find_param(i.meaning, b);
  if (!param) fail(b->name + " isn't a parameter");
  std::set<const VarNode*> used;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (is_const_int(indices[d], 0) && is_const_int(param->decl.shape[d], 1)) continue;
    const auto* v = indices[d].as<VarRef>();
    if (!v || !used.insert(v->var.get()).second)
      fail(b->name + " is accessed at something other than distinct iterators");
    for (const IterVar& iter : i.block().iters)
      if (iter.var == v->var && as_int(iter.extent) != as_int(param->decl.shape[d]))
        fail("an index of " + b->name + " doesn't run over the whole dimension");
  }
}

void check_meaning(const Instruction& i) {
  const auto fail = [&](const std::string& why) { fail_meaning(i.meaning, i.file, why); };
  size_t outs = 0;
  for (const Param& p : i.meaning.params) outs += p.role == Role::out;
  if (outs != 1) fail("it has " + std::to_string(outs) + " `out` parameters");
  if (!i.meaning.allocs.empty() || !i.meaning.dims.empty()) fail("it has temporaries or dimensions");
  const std::vector<Stmt> loops = i.loops();
  if (loops.empty() || !loops.back().as<For>()->body.as<Block>())
    fail("its body isn't a nest of loops around a block");
  const Block& b = i.block();
  if (b.init || b.where) fail("its block has an init or a `where`");
  if (b.iters.size() != loops.size()) fail("it hasn't an iterator for each loop");
  for (size_t k = 0; k < loops.size(); ++k) {
    const auto* v = b.iters[k].binding.as<VarRef>();
    const For& l = *loops[k].as<For>();
    if (!v || v->var != l.var || !as_int(l.extent) || as_int(l.extent) != as_int(b.iters[k].extent))
      fail("iterator " + b.iters[k].var->name + " isn't bound to loop " + l.var->name +
           " over its constant extent");
    if (l.kind == ForKind::thread || l.kind == ForKind::parallel) fail("loop " + l.var->name + " is bound");
  }
  const auto* store = b.body.as<Store>();
  const auto* update = b.body.as<Update>();
  if (!store && !update) fail("its block is more than one store or update");
  const Buffer& out = store ? store->buffer : update->buffer;
  if (out != i.meaning.params[i.out()].decl.buffer)
    fail("it writes something other than its `out` parameter");
  check_access(i, out, store ? store->indices : update->indices);
  std::set<const BufferNode*> used{out.get()};
  for_each_expr(b.body, [&](const Expr& e) {
    const auto* l = e.as<Load>();
    if (!l) return;
    check_access(i, l->buffer, l->indices);
    used.insert(l->buffer.get());
  });
  for (const Param& p : i.meaning.params)
    if (!used.count(p.decl.buffer.get())) fail("nothing reads its parameter " + p.decl.buffer->name);
}

std::vector<std::string> param_names(const Instruction& i) {
  std::vector<std::string> names;
  for (const Param& p : i.meaning.params) names.push_back(p.decl.buffer->name);
  return names;
}

size_t read_param(Reader& r, const Instruction& i) {
  const std::vector<std::string> names = param_names(i);
  const auto at = std::find(names.begin(), names.end(), r.peek());
  if (at == names.end()) {
    r.fail("`" + r.peek() + "` isn't a parameter of " + i.name, did_you_mean(r.peek(), names));
  }
  r.take();
  return static_cast<size_t>(at - names.begin());
}

// The tile's indices at one place of one thread.
std::vector<int64_t> place(const Fragment& f, int64_t thread, int64_t r) {
  VarMap at{{f.map.vars.back(), Expr(r)}};
  if (f.map.vars.size() == 2) at[f.map.vars[0]] = Expr(thread);
  std::vector<int64_t> out;
  for (const Expr& e : f.map.exprs) out.push_back(as_int(simplify(substitute(e, at))).value_or(-1));
  return out;
}

// Every element of the tile is somewhere, and of what is written nowhere else.
void check_fragment(const Reader& r, const Instruction& i, const Fragment& f, int64_t threads) {
  const BufferDecl& decl = i.meaning.params[f.param].decl;
  std::set<std::vector<int64_t>> seen;
  int64_t elements = 1;
  for (const Expr& e : decl.shape) elements *= *as_int(e);
  for (int64_t t = 0; t < threads; ++t)
    for (int64_t p = 0; p < f.places; ++p) {
      const std::vector<int64_t> at = place(f, t, p);
      for (size_t d = 0; d < at.size(); ++d)
        if (at[d] < 0 || at[d] >= *as_int(decl.shape[d]))
          r.fail("place " + std::to_string(p) + (threads > 1 ? " of thread " + std::to_string(t) : "") +
                 " is outside of " + decl.buffer->name + ": index " + std::to_string(at[d]) +
                 " in dimension " + std::to_string(d));
      if (!seen.insert(at).second && f.param == i.out())
        r.fail("an element of " + decl.buffer->name + " is in two places, and both are written");
    }
  if (static_cast<int64_t>(seen.size()) != elements)
    r.fail(std::to_string(seen.size()) + " of the " + std::to_string(elements) + " elements of " +
           decl.buffer->name + " are in a register");
}

// `A[8] = (t, r) -> (t/4, r)`
void read_fragment(Reader& r, const Instruction& i, InstructionLowering& l, const std::string& file) {
  Fragment f;
  const Reader whole = r;
  f.param = read_param(r, i);
  for (const Fragment& other : l.fragments)
    if (other.param == f.param) whole.fail("`" + param_names(i)[f.param] + "` occurs twice");
  r.expect("[", "and the number of places");
  f.places = r.integer("the number of places in a register");
  r.expect("]", "after the number of places");
  r.expect("=", "and a map, such as (r) -> (r/4, r%4)");
  r.expect("(", "and the variables");
  while (!r.take_if(")")) {
    f.map.vars.push_back(make_var(r.take()));
    r.take_if(",");
    if (r.done()) r.fail("expected `)`");
  }
  const size_t wanted = l.threads > 1 ? 2 : 1;
  if (f.map.vars.size() != wanted)
    whole.fail(wanted == 2 ? "the places of several threads are (t, r) -> ..."
                           : "the places of one thread are (r) -> ...");
  r.expect("->", "and the tile's indices");
  const Reader before = r;
  std::string list = r.rest().substr(0, r.rest().find('#'));
  while (!list.empty() && std::isspace(static_cast<unsigned char>(list.back()))) list.pop_back();
  if (list.size() < 2 || list.front() != '(' || list.back() != ')')
    before.fail("expected the tile's indices: (r/4, r%4)");
  int depth = 0;
  std::string item;
  const auto finish = [&] {
    try {
      f.map.exprs.push_back(parse_expr(item, f.map.vars, file));
    } catch (const UserError& e) {
      before.fail("`" + item + "`: " + e.diagnostic().message);
    }
    item.clear();
  };
  for (const char c : list.substr(1, list.size() - 2)) {
    depth += (c == '(') - (c == ')');
    if (c == ',' && depth == 0)
      finish();
    else
      item += c;
  }
  finish();
  const size_t rank = i.meaning.params[f.param].decl.shape.size();
  if (f.map.exprs.size() != rank)
    before.fail(param_names(i)[f.param] + " has " + std::to_string(rank) + " dimensions, here are " +
                std::to_string(f.map.exprs.size()) + " indices");
  check_fragment(whole, i, f, l.threads);
  l.fragments.push_back(std::move(f));
}

void read_call(Reader& r, const Instruction& i, InstructionLowering& l) {
  const std::string name = r.peek();
  if (name.size() < 3 || name[0] != '"') r.fail("expected a name in quotes");
  r.take();
  l.callee = name.substr(1, name.size() - 2);
  r.expect("(", "and the operands");
  while (!r.take_if(")")) {
    if (!r.peek().empty() && std::isdigit(static_cast<unsigned char>(r.peek()[0])))
      l.operands.emplace_back(r.integer("an integer"));
    else
      l.operands.emplace_back(read_param(r, i));
    r.take_if(",");
    if (r.done()) r.fail("expected `)`");
  }
}

// The header: lower NAME for llvm|cuda needs a, b {
InstructionLowering read_header(Reader& r, std::vector<Instruction>& all, Instruction*& owner) {
  InstructionLowering l;
  l.loc = r.loc();
  r.take();
  std::vector<std::string> names;
  for (Instruction& i : all) {
    names.push_back(i.name);
    if (i.name == r.peek()) owner = &i;
  }
  if (!owner) r.fail("no function `" + r.peek() + "` precedes its lowering", did_you_mean(r.peek(), names));
  r.take();
  r.expect("for", "and llvm or cuda");
  if (r.peek() != "llvm" && r.peek() != "cuda") r.fail("expected llvm or cuda");
  l.kind = r.take() == "cuda" ? TargetKind::cuda : TargetKind::cpu;
  if (r.take_if("needs")) do {
      if (r.peek() == "{" || r.done()) r.fail("expected a feature");
      l.needs.push_back(r.take());
    } while (r.take_if(","));
  r.expect("{", "at the end of the line");
  return l;
}

// From `lines[at]` on; gives the line behind it.
size_t read_lowering(const std::vector<Line>& lines, size_t at, const std::string& file,
                     std::vector<Instruction>& all) {
  Instruction* owner = nullptr;
  Reader header(lines[at], file);
  InstructionLowering l = read_header(header, all, owner);
  for (++at; at < lines.size() && lines[at].text != "}"; ++at) {
    Reader r(lines[at], file);
    if (r.done()) continue;
    if (r.take_if("threads")) {
      l.threads = r.integer("a number of threads");
      if (l.kind != TargetKind::cuda || l.threads != 32)
        r.fail("`threads 32`, a warp, for cuda is what there is");
    } else if (r.take_if("registers")) {
      l.registers = r.integer("a number of registers");
      if (l.kind != TargetKind::cpu || l.registers < 1)
        r.fail("`registers` of an operand, for llvm, is 1 or more");
    } else if (r.take_if("call")) {
      read_call(r, *owner, l);
    } else if (r.take_if("text")) {
      r.expect("{{{", "and the text up to a line `}}}`");
      for (++at; at < lines.size() && lines[at].text != "}}}"; ++at) l.text += lines[at].text + "\n";
      if (at == lines.size()) header.fail("its text has no end: a line `}}}`");
    } else {
      read_fragment(r, *owner, l, file);
    }
  }
  const Reader end(lines[std::min(at, lines.size() - 1)], file);
  if (at == lines.size()) end.fail("a lowering has no end: a line `}`");
  if (l.callee.empty()) end.fail("the lowering of " + owner->name + " has no `call`");
  if (l.kind == TargetKind::cpu && !l.text.empty() && l.callee.starts_with("llvm."))
    end.fail("`" + l.callee + "` is LLVM's own; a function that a text defines has another name");
  if (l.kind == TargetKind::cuda && l.text.empty())
    end.fail("a lowering for cuda needs `text {{{`: what is called");
  for (size_t p = 0; p < owner->meaning.params.size(); ++p)
    if (std::none_of(l.fragments.begin(), l.fragments.end(), [&](const Fragment& f) { return f.param == p; }))
      end.fail("nothing says where " + param_names(*owner)[p] + " lies",
               param_names(*owner)[p] + "[N] = (r) -> (...)");
  std::sort(l.fragments.begin(), l.fragments.end(),
            [](const auto& a, const auto& b) { return a.param < b.param; });
  owner->lowerings.push_back(std::move(l));
  return at + 1;
}

}  // namespace

std::vector<Instruction> parse_instructions(std::string_view text, const std::string& file) {
  std::vector<Line> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back({std::string(text.substr(at, end - at)), static_cast<int>(lines.size()) + 1});
    at = end + 1;
  }
  std::vector<Instruction> all;
  for (size_t at = 0; at < lines.size();) {
    const Reader r(lines[at], file);
    if (r.done()) {
      ++at;
    } else if (r.peek() == "lower") {
      at = read_lowering(lines, at, file, all);
    } else if (r.peek() == "func") {
      std::string body(at, '\n');  // so that errors have the file's lines
      for (; at < lines.size(); ++at) {
        body += lines[at].text + "\n";
        if (lines[at].text == "}") break;
      }
      Instruction i;
      i.meaning = parse_func(body, file);
      check_well_formed(i.meaning);
      i.name = i.meaning.name;
      i.file = file;
      for (const Instruction& other : all)
        if (other.name == i.name) r.fail("`" + i.name + "` occurs twice");
      if (!i.meaning.body.as<For>())
        fail_meaning(i.meaning, file, "its body isn't a nest of loops around a block");
      check_meaning(i);
      all.push_back(std::move(i));
      ++at;
    } else {
      r.fail("expected `func` or `lower`");
    }
  }
  return all;
}

}  // namespace nestor
