// Chooses the next proposals and counts what became of them. Which primitives are combined matters more than
// the number of steps: as in swarm testing (Groce et al., ISSTA 2012) each trace prefers some primitives.
#include "tests/fuzz/random_trace.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "nestor/error.h"
#include "tests/fuzz/proposals.h"
#include "tests/fuzz/tensorize_plan.h"

namespace nestor {

namespace {

// `tries` makes up for proposals that are seldom legal. Late ones give a loop its kind, after which little
// else can be done with it.
struct Weight {
  const char* primitive;
  int tries = 1;
  bool late = false, cpu = true, gpu = true;
};
// clang-format off
constexpr Weight kPrimitives[] = {
    {"split", 4}, {"fuse", 4}, {"reorder", 4}, {"tile", 2}, {"loop_partition", 4}, {"add_unit_loop"}, {"split_buffer", 8},
    {"parallel", 3, true, true, false}, {"vectorize", 4, true, true, false}, {"unroll", 2, true},
    {"bind", 4, true, false, true}, {"reduce_threads", 3, true, false, true},
    {"compute_at", 8}, {"reverse_compute_at", 16}, {"compute_inline", 6}, {"reverse_compute_inline", 16},
    {"cache_read", 3}, {"cache_write", 3}, {"set_scope"}, {"transform_layout", 3},
    {"decompose_reduction", 4}, {"rfactor", 3}, {"fission", 4}, {"merge", 8}, {"blockize", 3}, {"pad_einsum", 6},
    {"annotate"}, {"skip_zeros", 4}, {"sample_factors"}, {"sample_choice"}, {"sample_location", 2},
    {"storage_align"}, {"reindex", 2}, {"pack", 4}, {"prefetch"}, {"software_pipeline", 12}, {"tensorize", 8}};
// clang-format on

class Chooser {
 public:
  Chooser(std::mt19937_64& rng, const TraceOptions& o) : rng_(rng) {
    for (const Weight& w : kPrimitives) {
      if (!(o.cpu && w.cpu) && !(o.gpu && w.gpu)) continue;
      allowed_.insert(allowed_.end(), static_cast<size_t>(w.tries), &w);
      if (std::count(o.prefer.begin(), o.prefer.end(), w.primitive)) preferred_.push_back(&w);
    }
    for (const Weight*& f : favourites_) f = allowed_[rng_() % allowed_.size()];
  }
  const Weight& next() {
    if (!preferred_.empty() && rng_() % 2) return *preferred_[rng_() % preferred_.size()];
    if (rng_() % 2) return *allowed_[rng_() % allowed_.size()];
    return *favourites_[rng_() % favourites_.size()];
  }

 private:
  std::mt19937_64& rng_;
  std::vector<const Weight*> allowed_, preferred_;
  std::array<const Weight*, 3> favourites_{};
};

// One line tried and counted.
class Trier {
 public:
  Trier(Schedule& s, TraceCounts& counts, const TraceOptions& options)
      : s_(s), counts_(counts), options_(options) {}
  bool operator()(const std::string& line) {
    if (line.empty()) return false;
    if (options_.on_try) options_.on_try(line);
    TraceCounts::Row& row = counts_.rows[parse_step(line).primitive];
    try {
      s_(line);
      ++row.accepted;
      return true;
    } catch (const ScheduleError& e) {
      ++row.refused[broken_requirement(e).second];
      return false;
    }
  }

 private:
  Schedule& s_;
  TraceCounts& counts_;
  const TraceOptions& options_;
};

// Gives every nest a loop over blocks and one over threads, as far as that is legal.
void bind_all(const Schedule& s, Trier& attempt) {
  for (const std::string& block : block_names(s.func())) {
    bool blocks = false, threads = false;
    for (const LoopInfo& l : loops_of(s.func(), block)) {
      if (l.kind == ForKind::thread) blocks = threads = true;  // bound by the trace: leave it to it
    }
    for (const LoopInfo& l : loops_of(s.func(), block)) {
      const char* tag = blocks ? " threadIdx.x" : " blockIdx.x";
      if (threads || !attempt("bind " + block + "." + l.name + tag)) continue;
      threads = blocks;
      blocks = true;
    }
  }
}

}  // namespace

const std::vector<std::string>& proposed_primitives() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Weight& w : kPrimitives)
      if (std::string(w.primitive) != "tensorize") out.emplace_back(w.primitive);
    return out;
  }();
  return names;
}

void TraceCounts::add(const TraceCounts& other) {
  for (const auto& [name, row] : other.rows) {
    rows[name].accepted += row.accepted;
    for (const auto& [requirement, n] : row.refused) rows[name].refused[requirement] += n;
  }
}

std::string print(const TraceCounts& counts) {
  std::string out = "primitive                 accepted   refused  by requirement\n";
  for (const auto& [name, row] : counts.rows) {
    int64_t refused = 0;
    std::string by;
    for (const auto& [requirement, n] : row.refused) {
      refused += n;
      by += "  " + requirement + ": " + std::to_string(n);
    }
    char line[96];
    std::snprintf(line, sizeof line, "%-24s %9lld %9lld", name.c_str(), static_cast<long long>(row.accepted),
                  static_cast<long long>(refused));
    out += line + by + "\n";
  }
  return out;
}

std::pair<std::string, std::string> broken_requirement(const ScheduleError& e) {
  static const std::string words = " breaks requirement ";
  const std::string& m = e.diagnostic().message;
  const size_t at = m.find(words);
  if (at == std::string::npos) return {"", "?"};
  const size_t number = at + words.size(), space = m.find(' ', number), name = m.find(' ', space + 1) + 1;
  const std::string primitive = m.substr(name, m.find(':', name) - name);
  return {primitive == "every step" ? "" : primitive, m.substr(number, space - number)};
}

Schedule random_schedule(const PrimFunc& f, std::mt19937_64& rng, TraceCounts& counts,
                         const TraceOptions& options) {
  const QuietRefusals quiet;  // nobody reads what could be done instead
  Schedule s(f);
  Trier attempt(s, counts, options);
  Chooser choose(rng, options);
  const std::vector<std::string> blocks = block_names(f);
  const std::string focus = blocks.empty() ? "" : blocks[rng() % blocks.size()];
  for (int tries = 0; tries < 12 * options.wanted; ++tries) {
    const int accepted = static_cast<int>(s.trace().steps.size());
    if (accepted >= options.wanted) break;
    const Weight& w = choose.next();
    if (w.late && 2 * accepted < options.wanted) continue;
    if (std::string(w.primitive) == "tensorize") {
      for (const std::string& line : plan_tensorize(s, focus, options.cpu, options.gpu, rng))
        if (!attempt(line)) break;
    } else {
      attempt(propose(s, w.primitive, focus, options.gpu, rng));
      // Once a padding is inlined its zeros can be skipped.
      if (std::string(w.primitive) == "skip_zeros") attempt(propose(s, w.primitive, focus, options.gpu, rng));
    }
  }
  if (!options.cpu) bind_all(s, attempt);
  return s;
}

}  // namespace nestor
