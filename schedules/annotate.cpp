// annotate: attaches a value under a key to a loop or block, which lowering reads. It changes no result.
#include <charconv>

#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

bool is_of_block(const std::string& key) {
  return key == "streaming" || key == "in_place" || key == "note";
}
bool is_of_loop(const std::string& key) {
  return key == "note" || !is_of_block(key);
}

Annotation read_value(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return text.substr(1, text.size() - 2);
  return text;
}

std::string with_value(Step s, const std::string& key, const std::string& value) {
  for (auto& [k, v] : s.options)
    if (k == key) v = value;
  return print(s);
}

void check_value(const StepContext& ctx, const std::string& key, const Annotation& value) {
  const SourceLoc at = loc_of_option(ctx.step(), key);
  const auto* number = std::get_if<int64_t>(&value);
  const bool counts = key == "chains" || key == "threads";
  if (counts && number && *number < 1)
    ctx.refuse(3, at, "`" + key + "` counts from 1", {}, with_value(ctx.step(), key, "1"));
  if (key != "in_place") return;
  const Place p = ctx.block(0);
  std::vector<std::string> read;
  for (const Buffer& b : read_buffers(p.block())) read.push_back(b->name);
  if (!number && std::count(read.begin(), read.end(), std::get<std::string>(value))) return;
  ctx.refuse(3, at, "block " + p.name() + " reads no " + *ctx.option(key), {p.stmt},
             read.empty() ? "" : with_value(ctx.step(), key, by_distance(*ctx.option(key), read)[0]));
}

PrimFunc run(StepContext& ctx) {
  Annotations added;
  const bool loop_named = ctx.names_loop(0);
  for (const auto& [key, value] : ctx.step().options) {
    if (loop_named ? !is_of_loop(key) : !is_of_block(key))
      ctx.refuse(2, loc_of_option(ctx.step(), key),
                 "`" + key + "` is for a " + (loop_named ? "block" : "loop"));
    added[key] = read_value(*ctx.option(key));
    check_value(ctx, key, added[key]);
  }
  if (added.empty())
    ctx.refuse(1, StepContext::kPrimitive, "there is no KEY=VALUE", {}, print(ctx.step()) + " note=1");
  ctx.concerns_no_loop();
  if (loop_named) {
    const LoopRef loop = ctx.loop(0);
    const For& f = as_for(loop.stmt);
    added.insert(f.annotations.begin(), f.annotations.end());
    return replace(ctx.func(), loop.stmt, make::loop(f.var, f.extent, f.body, f.kind, f.thread, added));
  }
  const Place p = ctx.block(0);
  Block copy = p.own();
  added.insert(copy.annotations.begin(), copy.annotations.end());
  copy.annotations = std::move(added);
  return replace(ctx.func(), p.stmt, make::block(std::move(copy)));
}

}  // namespace

Primitive annotate_row() {
  return {
      "annotate",
      "",
      {{ArgKind::target, "T.i | T"}},
      {{"streaming", "1|0", "of a block: non-temporal stores, where it writes whole aligned vectors"},
       {"in_place", "X",
        "of a block that reads X at the element of an output that it writes: X shares the output's memory "
        "(on a CPU)"},
       {"peel", "1|0",
        "of a loop: peels the first and last iterations, where conditions inside hold only between them"},
       {"whole", "1|0",
        "of a vectorized loop: its registers are full vectors also where the loop is partial"},
       {"chains", "INT",
        "of a vectorized reduction loop: the number of independent vectors of partial results; by default 8"},
       {"split", "static|dynamic",
        "of a parallel loop: `static` gives each thread one part, the same in every run; `dynamic` gives it "
        "whatever is left"},
       {"threads", "INT", "of a parallel loop: the largest useful number of threads"},
       {"note", "VALUE", "of a loop or a block: an integer, a word or a quoted text without effect"}},
      "Attaches a hint for lowering to a loop or block: a key and a value.",
      {"there is at least one KEY=VALUE",
       "the key is one for loops if a loop is named, or for blocks if a block is",
       "`chains` and `threads` are 1 or more, and the block reads the buffer of `in_place`"},
      {examples::kGrid, "annotate Y.i note=2"},
      run,
      true};
}

}  // namespace nestor::schedules
