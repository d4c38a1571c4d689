// A rule for what is legal exists once, in the primitives; so an alternative is found by changing one word of
// the step and trying. Candidates are few and primitives cheap: the work of a millisecond, done only where
// somebody reads the error (QuietRefusals).
#include "schedules/suggest.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "nestor/nearest.h"
#include "schedules/access.h"

namespace nestor::schedules {

namespace {

using Words = std::vector<std::string>;

std::vector<std::string> buffer_names(const PrimFunc& f) {
  std::vector<std::string> names;
  for (const Param& p : f.params) names.push_back(p.decl.buffer->name);
  for (const BufferDecl& d : f.allocs) names.push_back(d.buffer->name);
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>()) names.push_back(a->decl.buffer->name);
  });
  return names;
}

// "T.i" for each loop of each block: first those of the block that is named, if there is one.
std::vector<std::string> loop_texts(const PrimFunc& f, const std::string& now, bool with_units) {
  const std::string block = now.substr(0, now.find('.'));
  std::vector<std::string> own, others;
  for (const Place& p : places(f.body))
    for (const Stmt& l : p.loops())
      if (with_units || extent_of(l) != 1)
        (p.name() == block ? own : others).push_back(p.name() + "." + loop_name(l));
  const bool known = std::find(own.begin(), own.end(), now) != own.end();
  own.insert(own.end(), others.begin(), others.end());
  return known ? own : by_distance(now, own);
}

// Runs of loops that stand directly inside each other around a block.
std::vector<std::vector<std::string>> runs_of(const Place& p) {
  std::vector<std::vector<std::string>> runs(1);
  for (const Stmt& s : p.path)
    if (s.as<For>())
      runs.back().push_back(loop_name(s));
    else if (!runs.back().empty())
      runs.emplace_back();
  std::erase_if(runs, [](const auto& r) { return r.size() < 2; });
  return runs;
}

// Orders of the run's loops, first as few moves away from the order asked for as the run allows.
void add_orders(const Words& run, const Words& asked, std::vector<Words>& out) {
  Words wanted;
  for (const std::string& a : asked)
    if (std::count(run.begin(), run.end(), a)) wanted.push_back(a);
  if (wanted.size() >= 2) out.push_back(wanted);
  for (size_t i = 0; i + 1 < run.size(); ++i) out.push_back({run[i + 1], run[i]});
  if (run.size() > 2) out.emplace_back(run.rbegin(), run.rend());
}

// Parts of the run in its own order, the longest that hold what was asked for first.
void add_parts(const Words& run, const Words& asked, std::vector<Words>& out) {
  std::vector<std::pair<int, Words>> parts;
  for (size_t i = 0; i < run.size(); ++i)
    for (size_t j = i + 2; j <= run.size(); ++j) {
      Words part(run.begin() + static_cast<std::ptrdiff_t>(i), run.begin() + static_cast<std::ptrdiff_t>(j));
      int common = 0;
      for (const std::string& name : part) common += std::count(asked.begin(), asked.end(), name) ? 2 : -1;
      parts.emplace_back(-common, std::move(part));
    }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [cost, part] : parts) out.push_back(std::move(part));
}

// The loops are in this order already, so a reorder would change nothing.
bool stands_so(const Place& p, const Words& order) {
  Words now;
  for (const Stmt& l : p.loops())
    if (std::count(order.begin(), order.end(), loop_name(l))) now.push_back(loop_name(l));
  return now == order;
}

// For `T (i j)`: lists of T's loops; the nearest block where there is no T.
std::vector<Words> loop_lists(const PrimFunc& f, const Step& step, const ArgInPlace& arg) {
  std::vector<Words> out;
  if (arg.now.empty()) return out;
  if (arg.now[0].find('.') != std::string::npos) {
    for (std::string& text : loop_texts(f, arg.now[0], false)) out.push_back({std::move(text)});
    return out;
  }
  const std::string wanted =
      find_place(f, arg.now[0]) ? arg.now[0] : by_distance(arg.now[0], block_names(f))[0];
  const auto p = find_place(f, wanted);
  const Words asked = arg.now.size() > 1 ? list_items(arg.now[1]) : Words{};
  std::vector<Words> lists;
  Words meant;  // what was asked for, names that aren't there being the nearest that are
  Words names;
  for (const Stmt& l : p->loops()) names.push_back(loop_name(l));
  for (const std::string& a : asked) {
    Words rest = names;
    std::erase_if(rest, [&](const std::string& n) { return std::count(meant.begin(), meant.end(), n) > 0; });
    const bool known = std::count(rest.begin(), rest.end(), a) > 0;
    if (!rest.empty()) meant.push_back(known ? a : by_distance(a, rest)[0]);
  }
  if (!meant.empty()) lists.push_back(meant);
  for (const Words& run : runs_of(*p))
    if (step.primitive == "reorder")
      add_orders(run, meant, lists);
    else
      add_parts(run, meant, lists);
  if (step.primitive == "reorder")
    std::erase_if(lists, [&](const Words& order) { return stands_so(*p, order); });
  if (step.primitive != "reorder" && step.primitive != "fuse" && step.primitive != "tile")  // one by one
    for (const std::string& a : meant) out.push_back({wanted + "." + a});
  std::vector<Words> pairs;
  for (const Words& l : lists) pairs.push_back({wanted, "(" + join(l, " ") + ")"});
  pairs.insert(pairs.end(), out.begin(), out.end());
  return pairs;
}

// The loop that was named before all others, where a loop is asked for.
std::vector<Words> with_first(const std::string& named, const ArgSpec& a, std::vector<Words> words) {
  const bool loop = a.kind == ArgKind::loop || a.kind == ArgKind::loops || a.kind == ArgKind::location;
  if (loop && named.find('.') != std::string::npos) words.insert(words.begin(), {named});
  return words;
}

// Other primitives that serve the same end, with the block that was named first.
std::vector<Step> related_steps(const PrimFunc& f, const Step& step) {
  static const std::map<std::string, std::vector<std::string>> relatives = {
      {"compute_at", {"compute_inline", "reverse_compute_at"}},
      {"compute_inline", {"compute_at", "reverse_compute_inline", "reverse_compute_at"}},
      {"reverse_compute_at", {"reverse_compute_inline", "compute_at"}},
      {"reverse_compute_inline", {"reverse_compute_at", "compute_inline"}},
      {"parallel", {"unroll"}},
      {"vectorize", {"unroll"}},
      {"bind", {"unroll"}},
      {"rfactor", {"decompose_reduction"}},
      {"cache_read", {"cache_write"}},
      {"cache_write", {"cache_read"}},
      {"reorder", {"fission"}},
      {"fuse", {"fission"}},
  };
  std::vector<Step> out;
  const auto it = relatives.find(step.primitive);
  if (it == relatives.end() || step.args.empty()) return out;
  const std::string named = step.args[0].substr(0, step.args[0].find('.'));
  for (const std::string& primitive : it->second) {
    const Primitive* row = find_primitive(primitive);
    std::vector<Step> partial(1);
    partial[0].primitive = primitive;
    for (const ArgSpec& a : row->args) {
      std::vector<Step> longer;
      for (const Step& s : partial)
        for (const Words& words : with_first(step.args[0], a, other_words(f, s, {&a, {named}}))) {
          longer.push_back(s);
          longer.back().args.insert(longer.back().args.end(), words.begin(), words.end());
        }
      partial = std::move(longer);
    }
    out.insert(out.end(), partial.begin(), partial.end());
  }
  return out;
}

int64_t to_int(const std::string& s) {
  int64_t v = 0;
  std::from_chars(s.data(), s.data() + s.size(), v);
  return v;
}

// Lists of integers that a loop of this extent could be cut by.
std::vector<Words> int_lists(const PrimFunc& f, const Step& step, const ArgInPlace& arg) {
  const Words now = arg.now.empty() ? Words{} : list_items(arg.now[0]);
  int64_t extent = -1;
  size_t loops = 0;
  const std::string first = step.args.empty() ? "" : step.args[0];
  if (const size_t dot = first.find('.'); dot != std::string::npos)
    for (const LoopInfo& l : loops_of(f, first.substr(0, dot)))
      if (l.name == first.substr(dot + 1)) extent = l.extent;
  if (step.args.size() > 1 && step.args[1].starts_with("(")) loops = list_items(step.args[1]).size();
  std::vector<Words> lists;
  if (loops) {
    Words sizes = now;
    for (std::string& s : sizes)
      if (to_int(s) < 1) s = "16";
    sizes.resize(loops, "16");
    lists.push_back(sizes);
  }
  if (now.size() > 1) {
    Words open = now;
    open[0] = "_";
    for (size_t i = 1; i < open.size(); ++i)
      if (to_int(open[i]) < 1) open[i] = "16";
    lists.push_back(open);
  }
  const int64_t asked = now.empty() ? 16 : std::max<int64_t>(to_int(now.back()), 1);
  std::vector<int64_t> sizes{asked == 1 ? 16 : asked};
  std::vector<int64_t> divisors;
  for (int64_t d = 2; d < extent && d <= 256; ++d)
    if (extent % d == 0) divisors.push_back(d);
  std::stable_sort(divisors.begin(), divisors.end(),
                   [&](int64_t a, int64_t b) { return std::abs(a - sizes[0]) < std::abs(b - sizes[0]); });
  sizes.insert(sizes.end(), divisors.begin(), divisors.end());
  for (int64_t s : sizes) lists.push_back({"_", std::to_string(s)});
  if (extent > 1) lists.push_back({std::to_string(extent / 2)});
  std::vector<Words> out;
  for (const Words& l : lists) out.push_back({"[" + join(l, ", ") + "]"});
  return out;
}

std::vector<Words> one_by_one(std::vector<std::string> words) {
  std::vector<Words> out;
  for (std::string& w : words) out.push_back({std::move(w)});
  return out;
}

// The words that a row allows: "global|shared|local".
std::vector<std::string> words_of_spec(const std::string& name) {
  if (name == "threadIdx.x")
    return {"threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.y", "blockIdx.z", "vthread"};
  std::vector<std::string> out{""};
  for (char c : name)
    if (c == '|')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

}  // namespace

std::vector<std::vector<std::string>> other_words(const PrimFunc& f, const Step& step,
                                                  const ArgInPlace& arg) {
  const std::string now = arg.now.empty() ? "" : arg.now[0];
  switch (arg.spec->kind) {
    case ArgKind::loop:
      return one_by_one(loop_texts(f, now, false));
    case ArgKind::location: {
      std::vector<std::string> all = loop_texts(f, now, true);
      all.emplace_back("inline");
      return one_by_one(std::move(all));
    }
    case ArgKind::loops:
      return loop_lists(f, step, arg);
    case ArgKind::block:
      return one_by_one(by_distance(now, block_names(f)));
    case ArgKind::target: {
      std::vector<std::string> all = block_names(f);
      for (std::string& text : loop_texts(f, now, true)) all.push_back(std::move(text));
      return one_by_one(by_distance(now, all));
    }
    case ArgKind::buffer:
    case ArgKind::buffers:
      return one_by_one(by_distance(now, buffer_names(f)));
    case ArgKind::ints:
      return int_lists(f, step, arg);
    case ArgKind::word:
      return one_by_one(by_distance(now, words_of_spec(arg.spec->name)));
    case ArgKind::integer:
      return {{"4"}, {"8"}, {"16"}, {"2"}, {"1"}, {"32"}};
    case ArgKind::words:
    case ArgKind::map:
    case ArgKind::decision:
      return {};
  }
  return {};
}

std::vector<std::string> by_distance(const std::string& name, std::vector<std::string> candidates) {
  if (!name.empty())
    std::stable_sort(candidates.begin(), candidates.end(), [&](const std::string& a, const std::string& b) {
      return edit_distance(name, a) < edit_distance(name, b);
    });
  return candidates;
}

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  std::vector<std::string> names = by_distance(name, candidates);
  if (names.size() > 8) names.resize(8);
  return join(names, ", ");
}

std::vector<std::string> legal_steps(const PrimFunc& f, const Decisions& decisions,
                                     const std::vector<Step>& candidates, size_t most, size_t tries) {
  const QuietRefusals quiet;
  std::vector<std::string> out;
  for (size_t i = 0; i < candidates.size() && i < tries && out.size() < most; ++i) {
    const std::string text = print(candidates[i]);
    if (std::count(out.begin(), out.end(), text)) continue;
    try {
      Decisions copy = decisions;
      const PrimFunc after = apply_step(f, candidates[i], copy);
      out.push_back(text);
    } catch (const UserError&) {
    }
  }
  return out;
}

namespace {

// The step with its words [first, first + count) replaced by each that could stand there.
void add_with_words(const PrimFunc& f, const Step& step, const ArgInPlace& arg, size_t first, size_t count,
                    std::vector<Step>& out) {
  for (const Words& words : other_words(f, step, arg)) {
    Step s = step;
    s.loc = SourceLoc();
    const auto at = s.args.begin() + static_cast<std::ptrdiff_t>(first);
    s.args.insert(s.args.erase(at, at + static_cast<std::ptrdiff_t>(count)), words.begin(), words.end());
    if (s.args != step.args) out.push_back(std::move(s));
  }
}

// An argument that couldn't be read: it may have been left out (its words belong to the next one), or be
// written wrongly, such as `T i j` for `T (i j)`.
std::vector<Step> read_otherwise(const PrimFunc& f, const Step& step, const ArgSpec& spec, size_t first) {
  ArgInPlace arg{&spec, {step.args.begin() + static_cast<std::ptrdiff_t>(first), step.args.end()}};
  const size_t rest = arg.now.size();
  if (spec.kind == ArgKind::loops && rest > 1 && arg.now[1][0] != '(')
    arg.now = {arg.now[0], "(" + join({arg.now.begin() + 1, arg.now.end()}, " ") + ")"};
  std::vector<Step> out;
  for (size_t replaced = rest + 1; replaced-- > 0;) add_with_words(f, step, arg, first, replaced, out);
  return out;
}

// The step with another value for an option, or without one, or without the words behind the last argument.
std::vector<Step> with_other_options(const Step& step, const Primitive& row, size_t words) {
  std::vector<Step> out;
  Step bare = step;
  bare.loc = SourceLoc();
  for (size_t i = 0; i < step.options.size(); ++i) {
    Step s = bare;
    for (const OptionSpec& o : row.options)
      if (s.options[i].first == o.key)
        for (const std::string& value : by_distance(s.options[i].second, words_of_spec(o.values))) {
          s.options[i].second = value;
          out.push_back(s);
        }
    s.options.erase(s.options.begin() + static_cast<std::ptrdiff_t>(i));
    out.push_back(std::move(s));
  }
  if (words < bare.args.size()) {
    bare.args.resize(words);
    out.push_back(std::move(bare));
  }
  return out;
}

}  // namespace

// First the argument that is at fault is changed, and others only where that helps nothing; then options,
// fewer names for what is made, and at last other primitives to the same end.
std::vector<std::string> StepContext::alternatives(const SourceLoc& fault) const {
  std::vector<std::string> found;
  const auto try_all = [&](const std::vector<Step>& candidates) {
    if (found.empty()) found = legal_steps(func_, decisions_, candidates);
  };
  const size_t read = slots_.empty() ? 0 : slots_.back().first + slots_.back().count;  // words
  if (slots_.size() < row_.args.size()) try_all(read_otherwise(func_, step_, row_.args[slots_.size()], read));
  std::vector<size_t> order;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool here = loc_of_row_arg(i).column == fault.column ||
                      (slots_[i].count > 1 && loc_of_arg(step_, slots_[i].first + 1).column == fault.column);
    order.insert(here ? order.begin() : order.end(), i);
  }
  for (size_t i : order) {
    const auto from = step_.args.begin() + static_cast<std::ptrdiff_t>(slots_[i].first);
    const ArgInPlace arg{&row_.args[i], {from, from + static_cast<std::ptrdiff_t>(slots_[i].count)}};
    std::vector<Step> candidates;
    if (found.empty()) add_with_words(func_, step_, arg, slots_[i].first, slots_[i].count, candidates);
    try_all(candidates);
  }
  try_all(with_other_options(step_, row_, slots_.size() == row_.args.size() ? read : step_.args.size()));
  Step fewer = step_;
  fewer.loc = SourceLoc();
  while (found.empty() && !fewer.results.empty()) {
    fewer.results.pop_back();
    try_all({fewer});
  }
  if (found.empty()) try_all(related_steps(func_, step_));
  return found;
}

}  // namespace nestor::schedules
