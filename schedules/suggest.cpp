// The rules for what is legal exist only in the primitives. So an alternative is found by changing one word
// of the step and trying it. There are few candidates and primitives are fast: this takes a millisecond, and
// only if somebody reads the error (QuietRefusals).
#include "schedules/suggest.h"

#include <algorithm>
#include <map>

#include "nestor/nearest.h"
#include "schedules/access.h"

namespace nestor::schedules {

namespace {

using Words = std::vector<std::string>;

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
      {"compute_inline", {"compute_at", "reverse_compute_inline", "reverse_compute_at", "cache_read"}},
      {"reverse_compute_at", {"reverse_compute_inline", "compute_at"}},
      {"reverse_compute_inline", {"reverse_compute_at", "compute_inline", "cache_read"}},
      {"parallel", {"unroll", "split"}},
      {"vectorize", {"unroll", "split"}},
      {"bind", {"unroll", "split"}},
      {"unroll", {"split"}},
      {"rfactor", {"decompose_reduction", "split"}},
      {"decompose_reduction", {"rfactor", "split"}},
      {"cache_read", {"cache_write"}},
      {"cache_write", {"cache_read"}},
      {"reindex", {"cache_read", "cache_write"}},
      {"pack", {"cache_read"}},
      {"reorder", {"fission", "split"}},
      {"fuse", {"fission", "split"}},
      {"tile", {"split"}},
      {"loop_partition", {"split"}},
      {"fission", {"loop_partition", "split"}},
      {"merge", {"fuse", "split"}},
      {"blockize", {"split", "reorder"}},
      {"tensorize", {"blockize", "vectorize"}},
      {"pad_einsum", {"split", "cache_read"}},
      {"software_pipeline", {"prefetch", "unroll"}},
      {"prefetch", {"cache_read"}},
      {"storage_align", {"set_scope"}},
      {"sample_factors", {"split"}},
      {"annotate", {"split"}},
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

}  // namespace

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
// fewer names for what is made, then other primitives to the same end, and at last to leave a block where it
// is.
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
  for (size_t i = 0; i < slots_.size() && found.empty(); ++i) {
    if (row_.args[i].kind != ArgKind::location) continue;
    Step stay = step_;  // where it is already
    stay.results.clear();
    stay.args[slots_[i].first] = "root";
    try_all({stay});
  }
  return found;
}

}  // namespace nestor::schedules
