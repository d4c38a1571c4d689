// The proof: compares the outputs first, then checks each function alone.
#include "nestor/proof.h"

#include <chrono>
#include <functional>
#include <optional>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"
#include "src/verify/proof_checks.h"
#include "src/verify/proof_match.h"
#include "src/verify/proof_products.h"

namespace nestor {

namespace verify {

namespace {

void require_same_parameters(const PrimFunc& before, const PrimFunc& after) {
  bool same = before.params.size() == after.params.size();
  for (size_t i = 0; same && i < before.params.size(); ++i) {
    const Param &b = before.params[i], &a = after.params[i];
    same = b.role == a.role && b.decl.buffer->type == a.decl.buffer->type &&
           b.decl.shape.size() == a.decl.shape.size();
  }
  if (!same)
    throw UserError("functions " + before.name + " and " + after.name + " differ in their parameters");
}

bool has_threads(const PrimFunc& f) {
  bool found = false;
  for_each_stmt(
      f.body, [&](const Stmt& s) { found = found || (s.as<For>() && s.as<For>()->kind == ForKind::thread); });
  return found;
}

// Lowering makes temporaries as small as one iteration needs: what is accessed must lie in what is left. What
// it refuses to lower can't reach outside.
void check_lowered_bounds(Sets& home, const PrimFunc& f, std::map<std::string, V>& dims) {
  Target target;
  target.kind = has_threads(f) ? TargetKind::cuda : TargetKind::cpu;
  PrimFunc small;
  try {
    small = passes::compact(target.kind == TargetKind::cuda ? passes::merge_threads(f, target) : f, target);
  } catch (const ScheduleError&) {
    return;
  }
  const Model m(home, small, dims);
  Flow flow(m);
  check_bounds(flow, " after lowering");
}

// What leaves one part open doesn't keep another one from seeing that the function is wrong.
class Parts {
 public:
  void operator()(const std::function<void()>& part) {
    try {
      part();
    } catch (const Failure& f) {
      if (f.verdict == Verdict::wrong) throw;
      if (!open_) open_ = f;
    } catch (const Unmodelled& u) {
      if (!open_) open_ = Failure{Verdict::unproved, u.what, ""};
    }
  }
  void end() const {
    if (open_) throw *open_;
  }

 private:
  std::optional<Failure> open_;
};

void prove(Sets& home, const PrimFunc& before, const PrimFunc& after, Proof& proof) {
  std::map<std::string, V> dims;
  const Model mb(home, before, dims), ma(home, after, dims);
  Flow fb(mb), fa(ma);
  Parts part;
  part([&] {
    Matcher matcher(home, fb, fa);
    for (size_t i = 0; i < before.params.size(); ++i)
      if (before.params[i].role == Role::out)
        matcher.match_output(before.params[i].decl.buffer, after.params[i].decl.buffer);
    proof.reassociated = matcher.reassociated();
    proof.assumes_finite = matcher.assumes_finite();
  });
  part([&] { check_reads(fa); });
  part([&] { check_bounds(fa, ""); });
  part([&] { check_conflicts(fa); });
  part([&] { check_layouts(ma); });
  part([&] { check_lowered_bounds(home, after, dims); });
  part.end();
}

// Of statements, which all know each other: beyond it the proof isn't quick any more.
constexpr size_t kMostStatements = 1000;

void prove_alone(Sets& home, const PrimFunc& f, bool& depends_on_data) {
  require_known_effects(f);
  Parts part;
  part([&] { check_other_indices(f, depends_on_data); });
  part([&] {
    std::map<std::string, V> dims;
    const Model m(home, f, dims);
    if (m.statements().size() > kMostStatements)
      throw Unmodelled{"it has " + std::to_string(m.statements().size()) + " statements, more than " +
                       std::to_string(kMostStatements)};
    Flow flow(m);
    Parts inner;
    inner([&] { check_bounds(flow, ""); });
    inner([&] { check_conflicts(flow); });  // first: without races, what is read early is read too early
    inner([&] { check_reads(flow); });
    inner([&] { check_outputs(flow); });
    inner([&] { check_layouts(m); });
    inner.end();
  });
  part.end();
}

}  // namespace

}  // namespace verify

namespace {

// Runs `prove` within its time, and puts how it ended into a proof.
Proof run_proof(const ProofOptions& options, const std::function<void(verify::Sets&, Proof&)>& prove) {
  const auto start = std::chrono::steady_clock::now();
  Proof proof;
  try {
    verify::Sets home(options.seconds);
    try {
      prove(home, proof);
      proof.verdict = Verdict::proved;
    } catch (const verify::Failure& f) {
      proof.verdict = f.verdict;
      proof.reason = f.reason;
      proof.witness = f.witness;
      proof.at = f.at;
    } catch (const verify::Unmodelled& u) {
      proof.reason = u.what;
    }
  } catch (const verify::OutOfTime&) {
    std::string seconds = std::to_string(options.seconds);
    seconds.erase(seconds.find_last_not_of('0') + 1);
    if (seconds.back() == '.') seconds.pop_back();
    proof.reason = "it took longer than " + seconds + " s";
  }
  proof.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return proof;
}

}  // namespace

Proof verify_schedule(const PrimFunc& before, const PrimFunc& after, const ProofOptions& options) {
  verify::require_same_parameters(before, after);
  const auto proved = [&](const PrimFunc& one, const PrimFunc& other) {
    return run_proof(options,
                     [&](verify::Sets& home, Proof& proof) { verify::prove(home, one, other, proof); });
  };
  Proof out = proved(before, after);
  if (out.verdict != Verdict::unproved) return out;
  if (const auto sizes = verify::with_products_as_sizes(before, after)) {
    Proof of_products = proved(sizes->first, sizes->second);
    if (of_products.ok()) return of_products;
  }
  return out;
}

Proof verify_function(const PrimFunc& f, const ProofOptions& options) {
  return run_proof(options, [&](verify::Sets& home, Proof& proof) {
    verify::prove_alone(home, f, proof.depends_on_data);
  });
}

std::string describe(const Proof& p) {
  const std::string ms = std::to_string(static_cast<int64_t>(p.seconds * 1000 + 0.5)) + " ms";
  std::string out;
  switch (p.verdict) {
    case Verdict::proved:
      return "proved in " + ms + (p.reassociated ? ", up to the order of reductions" : "") +
             (p.assumes_finite ? ", where what is multiplied by 0 is finite" : "");
    case Verdict::wrong:
      out = "wrong: " + p.reason;
      break;
    case Verdict::unproved:
      out = "unproved: " + p.reason;
      break;
  }
  return out + (p.witness.empty() ? "" : "\n  " + p.witness);
}

}  // namespace nestor
