// Plausible words for one argument of a step, for hints, the most similar to what was written first. Whether
// one is legal is found by trying (suggest.cpp).
#include <algorithm>
#include <charconv>

#include "nestor/nearest.h"
#include "schedules/access.h"
#include "schedules/suggest.h"

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
  const std::vector<std::string> blocks = by_distance(arg.now[0], block_names(f));
  if (blocks.empty()) return out;
  const std::string wanted = find_place(f, arg.now[0]) ? arg.now[0] : blocks[0];
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
  const int64_t most = extent > 1 && now.empty() ? extent / 2 + extent % 2 : asked;
  std::vector<int64_t> sizes{asked == 1 ? 16 : std::min(asked, most)};
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

// Maps of the first buffer that the step names: its last dimension taken apart, then others.
std::vector<Words> maps(const PrimFunc& f, const Step& step) {
  const auto decls = declarations(f);
  const BufferDecl* decl = nullptr;
  for (const std::string& word : step.args)
    for (const auto& [buffer, d] : decls)
      if (!decl && buffer->name == word) decl = &d;
  if (!decl) return {};
  Words vars;
  for (size_t d = 0; d < decl->shape.size(); ++d) vars.push_back("i" + std::to_string(d));
  const auto map = [&](const Words& places) {
    return Words{"(" + join(vars, ", ") + ")", "->", "(" + join(places, ", ") + ")"};
  };
  std::vector<Words> out;
  for (size_t d = vars.size(); d-- > 0;)
    for (const char* size : {"16", "4", "2"}) {
      if (as_int(decl->shape[d]).value_or(0) % to_int(size)) continue;
      Words places = vars;
      places[d] += std::string("/") + size;
      places.push_back(vars[d] + "%" + size);
      out.push_back(map(places));
    }
  if (vars.size() > 1) out.push_back(map({vars.rbegin(), vars.rend()}));
  return out;
}

}  // namespace

namespace {

// Memory can hold anything. `shared` is for functions with thread loops, and `local` for what is computed
// under unrolled loops: they are offered where one of them seems to have been meant.
std::vector<std::string> scopes(const PrimFunc& f, const std::string& now) {
  bool threads = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    threads = threads || (s.as<For>() && as_for(s).kind == ForKind::thread);
  });
  std::vector<std::string> out{"global"};
  for (const std::string scope : {"shared", "local"})
    if (edit_distance(now, scope) <= 2 || (threads && scope == "shared")) out.push_back(scope);
  return by_distance(now, out);
}

// What a block reads is the likelier wish than what it writes.
bool read_by(const PrimFunc& f, const Step& step, const std::string& buffer) {
  for (const Place& p : places(f.body))
    if (step.args[0].starts_with(p.name() + "."))
      for (const Buffer& b : read_buffers(p.block()))
        if (b->name == buffer) return true;
  return false;
}

}  // namespace

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
    case ArgKind::buffers: {
      std::vector<std::string> all = by_distance(now, buffer_names(f));
      if (step.primitive == "prefetch")
        std::erase_if(all, [&](const std::string& b) { return !read_by(f, step, b); });
      return one_by_one(std::move(all));
    }
    case ArgKind::ints:
      return int_lists(f, step, arg);
    case ArgKind::word:
      if (std::string(arg.spec->name) == "global|shared|local") return one_by_one(scopes(f, now));
      return one_by_one(by_distance(now, words_of_spec(arg.spec->name)));
    case ArgKind::integer:
      return {{"4"}, {"8"}, {"16"}, {"2"}, {"1"}, {"32"}};
    case ArgKind::map:
      return maps(f, step);
    case ArgKind::words:
    case ArgKind::decision:
      return {};
  }
  return {};
}

}  // namespace nestor::schedules
