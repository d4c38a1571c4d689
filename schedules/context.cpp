// Reads a step's words by its table row, and refuses: what all primitives share, so that each primitive
// consists of its requirements and its edit.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "nestor/nearest.h"
#include "nestor/print.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

std::vector<std::string> split_at(const std::string& s, char c) {
  std::vector<std::string> parts{""};
  for (char x : s)
    if (x == c)
      parts.emplace_back();
    else
      parts.back() += x;
  return parts;
}

bool is_list(const std::string& s, char open) {
  return !s.empty() && s[0] == open;
}

std::optional<int64_t> parse_int(const std::string& s) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return value;
}

std::vector<std::string> loop_names(const Place& p) {
  std::vector<std::string> names;
  for (const Stmt& l : p.own_loops()) names.push_back(p.name() + "." + loop_name(l));
  return names;
}

// `T.i[_, 4]`: a bracket that opens inside of a word begins another one.
size_t glued_at(const std::string& word) {
  const size_t open = word.find_first_of("[(");
  return open == 0 ? std::string::npos : open;
}
bool has_glued_words(const Step& s) {
  return std::any_of(s.args.begin(), s.args.end(),
                     [](const std::string& w) { return glued_at(w) != std::string::npos; });
}
Step with_words_apart(Step s) {
  std::vector<std::string> words;
  for (const std::string& w : s.args) {
    const size_t open = glued_at(w);
    words.push_back(w.substr(0, open));
    if (open != std::string::npos) words.push_back(w.substr(open));
  }
  s.args = std::move(words);
  return s;
}

std::string with_result(Step s, size_t i, const std::string& name) {
  s.results[i] = name;
  return print(s);
}

// The step with the option's name as it was probably meant.
std::string nearest_option(Step s, const Primitive& row, const std::string& key) {
  std::vector<std::string> known;
  for (const OptionSpec& o : row.options) known.emplace_back(o.key);
  const std::string near = nearest_name(key, known);
  for (auto& [k, v] : s.options)
    if (k == key) k = near;
  return near.empty() ? usage(row) : print(s);
}

}  // namespace

std::string usage(const Primitive& p) {
  std::string out = *p.results ? std::string(p.results) + " = " : "";
  out += p.name;
  for (const ArgSpec& a : p.args)
    if (a.kind != ArgKind::decision) out += std::string(" ") + a.name;
  for (const OptionSpec& o : p.options) out += std::string(" ") + o.key + "=" + o.values;
  for (const ArgSpec& a : p.args)
    if (a.kind == ArgKind::decision) out += std::string(" ") + a.name;
  return out;
}

StepContext::StepContext(const PrimFunc& f, const Step& step, const Primitive& row, Decisions& decisions)
    : func_(f), step_(step), row_(row), decisions_(decisions) {
  read_slots();
  check_options();
}

// Gives each argument of the row its words.
void StepContext::read_slots() {
  const std::vector<std::string>& words = step_.args;
  size_t at = 0;
  const auto bad = [&](const ArgSpec& a) {
    const std::string got = at < words.size() ? "`" + words[at] + "`" : "the end of the step";
    refuse_common('A', loc_of_arg(step_, at), std::string("expected ") + a.name + ", found " + got,
                  has_glued_words(step_) ? print(with_words_apart(step_)) : usage(row_));
  };
  for (const ArgSpec& a : row_.args) {
    Slot slot{at, 1};
    const auto word_at = [&](size_t i) { return i < words.size() ? words[i] : std::string(); };
    const std::string w = word_at(at);
    const bool dotted = w.find('.') != std::string::npos;
    const bool plain = !w.empty() && w[0] != '[' && w[0] != '(' && w != "->";
    switch (a.kind) {
      case ArgKind::loop:
        if (!plain || !dotted) bad(a);
        break;
      case ArgKind::location:
        if (!plain ||
            (resolved(w).find('.') == std::string::npos && resolved(w) != "root" && resolved(w) != "inline"))
          bad(a);
        break;
      case ArgKind::loops:
        if (!plain) bad(a);
        if (!dotted) {
          slot.count = 2;
          if (!is_list(word_at(at + 1), '(')) {
            ++at;
            bad(a);
          }
        }
        break;
      case ArgKind::block:
      case ArgKind::buffer:
        if (!is_identifier(w)) bad(a);
        break;
      case ArgKind::target:
      case ArgKind::word:
        if (!plain) bad(a);
        break;
      case ArgKind::buffers:
        slot.count = 0;
        while (is_identifier(word_at(at + slot.count))) ++slot.count;
        if (slot.count == 0) bad(a);
        break;
      case ArgKind::integer:
        if (!parse_int(resolved(w))) bad(a);
        break;
      case ArgKind::ints:
      case ArgKind::words:
        if (!is_list(w, '[')) bad(a);
        break;
      case ArgKind::map:
        slot.count = 3;
        for (size_t i = 0; i < 3; ++i, ++at)
          if (i == 1 ? word_at(at) != "->" : !is_list(word_at(at), '(')) bad(a);
        at = slot.first;
        break;
      case ArgKind::decision:
        slot.count = at < words.size() ? 2 : 0;
        if (slot.count && (w != "->" || at + 1 == words.size())) bad(a);
        break;
    }
    at += slot.count;
    slots_.push_back(slot);
  }
  if (at < words.size())
    refuse_common('A', loc_of_arg(step_, at), "`" + words[at] + "` is one word too many", usage(row_));
  if (!*row_.results && !step_.results.empty())
    refuse_common('A', loc_of_result(step_, 0),
                  std::string("`") + row_.name + "` makes nothing that has a name", usage(row_));
}

void StepContext::check_options() const {
  for (const auto& [key, value] : step_.options) {
    const OptionSpec* spec = nullptr;
    for (const OptionSpec& o : row_.options)
      if (key == o.key) spec = &o;
    if (!spec)
      refuse_common('A', loc_of_option(step_, key),
                    std::string("`") + row_.name + "` has no option `" + key + "`",
                    nearest_option(step_, row_, key));
    const std::vector<std::string> allowed = split_at(spec->values, '|');
    if (allowed.size() > 1 && std::find(allowed.begin(), allowed.end(), resolved(value)) == allowed.end())
      refuse_common('A', loc_of_option(step_, key), "`" + value + "` isn't a value of `" + key + "`",
                    key + "=" + spec->values);
    if (std::string(spec->values) == "INT" && !parse_int(resolved(value)))
      refuse_common('A', loc_of_option(step_, key), "`" + value + "` isn't an integer", key + "=INT");
  }
}

std::string StepContext::resolved(const std::string& word) const {
  const auto it = decisions_.find(word);
  return it == decisions_.end() ? word : it->second;
}

// A sampled name in an expression: o/w, where w is 32. The expression's own variables hide it.
std::string StepContext::with_decided(const std::string& expr, const std::vector<std::string>& vars) const {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string out;
  for (size_t at = 0; at < expr.size();) {
    size_t end = at;
    while (end < expr.size() && in_word(expr[end])) ++end;
    if (end == at) {
      out += expr[at++];
      continue;
    }
    const std::string word = expr.substr(at, end - at);
    out += std::find(vars.begin(), vars.end(), word) == vars.end() ? resolved(word) : word;
    at = end;
  }
  return out;
}

SourceLoc StepContext::loc_of_row_arg(size_t arg) const {
  return loc_of_arg(step_, slots_[arg].first);
}

Place StepContext::find_block(const std::string& name, const SourceLoc& at) const {
  if (auto p = find_place(func_, name)) {
    if (p->enclosed() && !row_.inside_blocks)
      refuse_common('E', at,
                    "block " + name + " is inside of block " + p->path[p->inside() - 1].as<Block>()->id->name,
                    "take this step before blockize", {p->stmt});
    return *p;
  }
  refuse_common('B', at, "there is no block `" + name + "`",
                block_names(func_).empty() ? "the function has no blocks"
                                           : "the blocks are " + nearest(name, block_names(func_)));
}

LoopRef StepContext::find_loop(const std::string& block, const std::string& loop, const SourceLoc& at) const {
  LoopRef ref;
  ref.place = find_block(block, at);
  for (size_t i = ref.place.inside(); i < ref.place.path.size(); ++i)
    if (ref.place.path[i].as<For>() && loop_name(ref.place.path[i]) == loop) {
      ref.stmt = ref.place.path[i];
      ref.depth = i;
      return ref;
    }
  refuse_common('B', at, "there is no loop `" + loop + "` around block " + block,
                "the loops are " + nearest(block + "." + loop, loop_names(ref.place)), {ref.place.stmt});
}

Buffer StepContext::buffer(const std::string& name, const SourceLoc& at) const {
  std::vector<std::string> names;
  Buffer found;
  const auto consider = [&](const BufferDecl& d) {
    names.push_back(d.buffer->name);
    if (d.buffer->name == name) found = d.buffer;
  };
  for (const Param& p : func_.params) consider(p.decl);
  for (const BufferDecl& d : func_.allocs) consider(d);
  for_each_stmt(func_.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>()) consider(a->decl);
  });
  if (found) return found;
  refuse_common('B', at, "there is no buffer `" + name + "`", "the buffers are " + nearest(name, names));
}

LoopRef StepContext::loop(size_t arg) const {
  const std::string w = resolved(step_.args[slots_[arg].first]);
  const size_t dot = w.find('.');
  return find_loop(w.substr(0, dot), w.substr(dot + 1), loc_of_row_arg(arg));
}

std::string StepContext::location(size_t arg) const {
  const std::string w = word(arg);
  return w == "root" || w == "inline" ? w : "";
}

std::vector<LoopRef> StepContext::loops(size_t arg) const {
  if (slots_[arg].count == 1) return {loop(arg)};
  const SourceLoc at = loc_of_arg(step_, slots_[arg].first + 1);
  std::vector<LoopRef> out;
  for (const std::string& name : list_items(step_.args[slots_[arg].first + 1])) {
    out.push_back(find_loop(step_.args[slots_[arg].first], name, at));
    for (size_t i = 0; i + 1 < out.size(); ++i)
      if (out[i].stmt.same_as(out.back().stmt))
        refuse_common('A', at, "`" + name + "` occurs twice", usage(row_));
  }
  if (out.empty()) refuse_common('A', at, "no loop is named", usage(row_));
  return out;
}

Place StepContext::block(size_t arg) const {
  return find_block(step_.args[slots_[arg].first], loc_of_row_arg(arg));
}
bool StepContext::names_loop(size_t arg) const {
  return step_.args[slots_[arg].first].find('.') != std::string::npos;
}
Buffer StepContext::buffer(size_t arg) const {
  return buffer(step_.args[slots_[arg].first], loc_of_row_arg(arg));
}
std::vector<Buffer> StepContext::buffers(size_t arg) const {
  std::vector<Buffer> out;
  for (size_t i = 0; i < slots_[arg].count; ++i)
    out.push_back(buffer(step_.args[slots_[arg].first + i], loc_of_arg(step_, slots_[arg].first + i)));
  return out;
}

std::vector<std::string> StepContext::items(size_t arg) const {
  std::vector<std::string> out = list_items(step_.args[slots_[arg].first]);
  for (std::string& item : out) item = resolved(item);
  return out;
}

std::vector<std::optional<int64_t>> StepContext::ints(size_t arg) const {
  std::vector<std::optional<int64_t>> out;
  for (const std::string& item : items(arg)) {
    const auto value = parse_int(item);
    if (!value && item != "_")
      refuse_common('A', loc_of_row_arg(arg), "`" + item + "` is neither an integer, `_`, nor a sampled name",
                    usage(row_));
    out.push_back(value);
  }
  return out;
}

int64_t StepContext::integer(size_t arg) const {
  return *parse_int(word(arg));
}

IndexMapText StepContext::map(size_t arg) const {
  const size_t first = slots_[arg].first;
  IndexMapText out{list_items(step_.args[first]), list_items(step_.args[first + 2])};
  if (std::max(out.vars.size(), out.exprs.size()) > kMostParts)
    refuse_common('A', loc_of_row_arg(arg), "a map has at most " + std::to_string(kMostParts) + " dimensions",
                  usage(row_));
  for (std::string& text : out.exprs) text = with_decided(text, out.vars);
  return out;
}
std::string StepContext::word(size_t arg) const {
  return resolved(step_.args[slots_[arg].first]);
}

std::vector<std::string> StepContext::decision(size_t arg) const {
  if (slots_[arg].count == 0) return {};
  const std::string& w = step_.args[slots_[arg].first + 1];
  return is_list(w, '[') ? list_items(w) : std::vector<std::string>{w};
}

std::optional<std::string> StepContext::option(const std::string& key) const {
  for (const auto& [k, v] : step_.options)
    if (k == key) return resolved(v);
  return std::nullopt;
}
std::optional<int64_t> StepContext::int_option(const std::string& key) const {
  const auto value = option(key);
  return value ? parse_int(*value) : std::nullopt;
}
std::string StepContext::choice(const std::string& key) const {
  for (const OptionSpec& o : row_.options)
    if (key == o.key) return option(key).value_or(split_at(o.values, '|')[0]);
  throw InternalError("no such option in the row: " + key);
}

std::string StepContext::new_name(size_t i, const std::string& base, std::set<std::string>& taken) const {
  const bool given = i < step_.results.size() && step_.results[i] != "_" && !step_.results[i].empty();
  const std::string name = given ? step_.results[i] : unique_name(base, taken);
  if (taken.count(name))
    refuse_common('C', loc_of_result(step_, i),
                  "the name `" + name + "` is taken here" +
                      (step_.calls.empty() ? "" : "; the definition must choose another one"),
                  with_result(step_, i, unique_name(name, taken)));
  taken.insert(name);
  return name;
}

std::string StepContext::instead(size_t arg, const std::string& words) const {
  Step s = step_;
  const auto first = s.args.begin() + static_cast<std::ptrdiff_t>(slots_[arg].first);
  s.args.erase(first, first + static_cast<std::ptrdiff_t>(slots_[arg].count));
  s.args.insert(s.args.begin() + static_cast<std::ptrdiff_t>(slots_[arg].first), words);
  return print(s);
}

void StepContext::expect_results(size_t most) const {
  if (step_.results.size() > most)
    refuse_common('A', loc_of_result(step_, most),
                  std::to_string(step_.results.size()) + (step_.results.size() == 1 ? " name" : " names") +
                      " for " + std::to_string(most) + " thing" + (most == 1 ? "" : "s"),
                  usage(row_));
}

}  // namespace nestor::schedules
