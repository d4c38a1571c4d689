// The table of primitives. A new one is a file with a row function, and a line here.
#include "schedules/primitive.h"

#include <algorithm>

#include "nestor/nearest.h"
#include "nestor/unwanted.h"
#include "nestor/walk.h"
#include "schedules/independence.h"
#include "schedules/suggest.h"

namespace nestor::schedules {

Primitive split_row();
Primitive fuse_row();
Primitive reorder_row();
Primitive tile_row();
Primitive parallel_row();
Primitive vectorize_row();
Primitive unroll_row();
Primitive bind_row();
Primitive reduce_threads_row();
Primitive compute_at_row();
Primitive reverse_compute_at_row();
Primitive compute_inline_row();
Primitive reverse_compute_inline_row();
Primitive cache_read_row();
Primitive cache_write_row();
Primitive set_scope_row();
Primitive decompose_reduction_row();
Primitive rfactor_row();
Primitive fission_row();
Primitive merge_row();
Primitive annotate_row();
Primitive transform_layout_row();
Primitive sample_factors_row();
Primitive sample_choice_row();
Primitive loop_partition_row();
Primitive split_buffer_row();
Primitive add_unit_loop_row();
Primitive sample_location_row();
Primitive blockize_row();
Primitive pad_einsum_row();
Primitive storage_align_row();
Primitive reindex_row();
Primitive pack_row();
Primitive prefetch_row();
Primitive software_pipeline_row();
Primitive tensorize_row();
Primitive skip_zeros_row();

const std::vector<Primitive>& primitives() {
  // clang-format off
  static const std::vector<Primitive> table = {
      split_row(),
      fuse_row(),
      reorder_row(),
      tile_row(),
      parallel_row(),
      vectorize_row(),
      unroll_row(),
      bind_row(),
      reduce_threads_row(),
      compute_at_row(),
      reverse_compute_at_row(),
      compute_inline_row(),
      reverse_compute_inline_row(),
      cache_read_row(),
      cache_write_row(),
      set_scope_row(),
      decompose_reduction_row(),
      rfactor_row(),
      fission_row(),
      merge_row(),
      annotate_row(),
      transform_layout_row(),
      sample_factors_row(),
      sample_choice_row(),
      loop_partition_row(),
      split_buffer_row(),
      add_unit_loop_row(),
      sample_location_row(),
      blockize_row(),
      pad_einsum_row(),
      storage_align_row(),
      reindex_row(),
      pack_row(),
      prefetch_row(),
      software_pipeline_row(),
      tensorize_row(),
      skip_zeros_row(),
  };
  // clang-format on
  return table;
}

const Primitive* find_primitive(const std::string& name) {
  for (const Primitive& p : primitives())
    if (name == p.name) return &p;
  return nullptr;
}

namespace {

constexpr size_t kLongestIndex = 1000;  // operations in an iterator's binding
constexpr size_t kMostOperations = 200'000;

// What walks of a function need stack and time for, which visit each use of an expression; counting stops a
// little above the limits.
struct Size : Walker {
  size_t nesting = 0, index = 0, operations = 0;

  explicit Size(const PrimFunc& f) { stmt(f.body); }
  void expr(const Expr& e) override {
    if (++operations <= kMostOperations) children(e);
  }
  void stmt(const Stmt& s) override {
    const bool leaf = s.as<Seq>() || s.as<Store>() || s.as<Update>() || s.as<Evaluate>();
    now_ += !leaf;
    nesting = std::max(nesting, now_);
    if (const auto* b = s.as<Block>())
      for (const IterVar& i : b->iters) {
        const size_t before = operations;
        expr(i.binding);
        index = std::max(index, operations - before);
      }
    if (nesting <= kDeepestNest) children(s);
    now_ -= !leaf;
  }

 private:
  size_t now_ = 0;
};

// Requirement F; a function that was read may be beyond the limits, and stays as it is.
void check_size(const StepContext& ctx, const PrimFunc& out) {
  const Size size(out);
  const bool deep = size.nesting > kDeepestNest, long_index = size.index > kLongestIndex,
             large = size.operations > kMostOperations;
  if (!deep && !long_index && !large) return;
  const Size before(ctx.func());
  if (size.nesting <= before.nesting && size.index <= before.index && size.operations <= before.operations)
    return;
  ctx.refuse_common('F', loc_of_primitive(ctx.step()),
                    deep         ? "afterwards more are nested"
                    : long_index ? "afterwards an index has more"
                                 : "afterwards it has more in all",
                    "");
}

}  // namespace

PrimFunc apply_step(const PrimFunc& f, const Step& step, Decisions& decisions) {
  const Primitive* row = find_primitive(step.primitive);
  if (!row) {
    std::vector<std::string> names;
    for (const Primitive& p : primitives()) names.push_back(p.name);
    Diagnostic d{"there is no primitive `" + step.primitive + "`", loc_of_primitive(step), {}, ""};
    if (quiet_refusals()) throw ScheduleError(std::move(d));
    add_calls(d, step);
    std::vector<Step> candidates;
    for (const std::string& name : near_names(step.primitive, names)) {
      candidates.push_back(step);
      candidates.back().primitive = name;
    }
    d.hint = join(legal_steps(f, decisions, candidates, 1, 3), "\n");
    if (d.hint.empty()) d.hint = did_you_mean(step.primitive, names);
    if (d.hint.empty()) d.hint = "the primitives are " + join(names, ", ");
    throw ScheduleError(std::move(d));
  }
  StepContext ctx(f, step, *row, decisions);
  PrimFunc out = row->run(ctx);
  check_size(ctx, out);
  return settle_concurrency(ctx, std::move(out));
}

}  // namespace nestor::schedules

namespace nestor {

PrimFunc apply(const PrimFunc& f, const Step& step) {
  schedules::Decisions decisions;
  return schedules::apply_step(f, step, decisions);
}

PrimFunc apply(const PrimFunc& f, const Trace& trace) {
  schedules::Decisions decisions;
  PrimFunc out = f;
  for (const Step& s : trace.steps) out = schedules::apply_step(out, s, decisions);
  return out;
}

Schedule& Schedule::operator()(std::string_view line) {
  return step(parse_step(line));
}

Schedule& Schedule::step(Step s) {
  check_wanted();
  schedules::Decisions decisions = decisions_;
  if (!why_.empty()) s.why = std::exchange(why_, {});
  func_ = schedules::apply_step(func_, s, decisions);
  decisions_ = std::move(decisions);
  trace_.steps.push_back(std::move(s));
  return *this;
}

Schedule& Schedule::because(std::string why) {
  why_ = std::move(why);
  return *this;
}

bool Schedule::try_step(std::string_view line) {
  const QuietRefusals quiet;
  try {
    (*this)(line);
    return true;
  } catch (const ScheduleError&) {
    return false;
  }
}

bool Schedule::attempt(const std::string& plan, const std::function<void(Schedule&)>& steps) {
  const QuietRefusals quiet;
  Schedule tried = *this;
  try {
    steps(tried);
  } catch (const ScheduleError& e) {
    give_up(trace_.given_up, plan, e);
    return false;
  }
  *this = std::move(tried);
  return true;
}

void give_up(std::vector<std::string>& given_up, const std::string& plan, const ScheduleError& why) {
  const Diagnostic& d = why.diagnostic();
  const std::string reason =
      " was given up: " + (d.notes.empty() ? d.message : d.message + ": " + d.notes.front());
  if (given_up.empty() || !given_up.back().ends_with(reason)) given_up.push_back(plan + reason);
}

std::vector<std::string> block_names(const PrimFunc& f) {
  std::vector<std::string> names;
  for (const schedules::Place& p : schedules::places(f.body)) names.push_back(p.name());
  return names;
}

std::vector<LoopInfo> loops_of(const PrimFunc& f, const std::string& block) {
  std::vector<LoopInfo> out;
  if (const auto p = schedules::find_place(f, block))
    for (const Stmt& l : p->own_loops())
      out.push_back({schedules::loop_name(l), block, schedules::extent_of(l), schedules::as_for(l).kind});
  return out;
}

const Block* find_block(const PrimFunc& f, const std::string& name) {
  struct Finder : Walker {
    const std::string& name;
    const uint64_t bit;
    const Block* found = nullptr;
    explicit Finder(const std::string& n) : name(n), bit(Inside::bit_of(n)) {}
    void expr(const Expr&) override {}
    void stmt(const Stmt& s) override {
      if (found || !(s->inside.blocks & bit)) return;
      const auto* b = s.as<Block>();
      if (b && b->id->name == name)
        found = b;
      else
        children(s);
    }
  } finder(name);
  finder.stmt(f.body);
  return finder.found;
}

}  // namespace nestor
