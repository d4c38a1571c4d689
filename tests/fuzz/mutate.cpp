// Random walks through legal schedules. Each proposal that one of the chosen requirements refuses is tried
// again on a copy without that requirement. The walk itself stays legal, so a wrong result is due to that
// step alone.
#include "tests/fuzz/mutate.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>

#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "schedules/primitive.h"
#include "tests/fuzz/campaign.h"
#include "tests/fuzz/child.h"
#include "tests/fuzz/equivalence.h"
#include "tests/fuzz/proposals.h"
#include "tests/fuzz/road_common.h"

namespace nestor {

namespace {

constexpr int64_t kWalks = 40;    // a job
constexpr int64_t kMadeEach = 8;  // of one requirement in one job, so that functions differ
constexpr int kInterpreted = 4;   // seeds
constexpr double kProofSeconds = 20;
constexpr double kSilence = 90;
constexpr double kShare = 0.95;  // of the wrong schedules of each requirement the proof alone sees

// For conflicts in loops that run in no order: steps that make such loops, and those that bring other
// accesses into them. A vectorized reduction loop is allowed one decomposed reduction, and nothing else.
const std::vector<std::string> kConcurrent = {
    "decompose_reduction", "vectorize", "rfactor", "parallel", "bind", "compute_at"};

using Wanted = std::set<RequirementName>;

class Waived {
 public:
  explicit Waived(const RequirementName& r) { schedules::waive({{r.primitive, r.number}}); }
  ~Waived() { schedules::waive({}); }
  Waived(const Waived&) = delete;
  Waived& operator=(const Waived&) = delete;
};

// In the child.
class Walker {
 public:
  Walker(uint64_t seed, const Wanted& wanted, const Report& report)
      : seed_(seed), wanted_(wanted), report_(report) {}

  void walk(int64_t number) {
    const QuietRefusals quiet;  // nobody reads what could be done instead
    rng_.seed(seed_ * 1000003 + static_cast<uint64_t>(number) * 7919);
    const int kinds = fuzz_function_count();
    const int first = rng_() % 3 ? 0 : first_dependence_function();
    function_ = make_function(first + static_cast<int>(rng_() % static_cast<uint64_t>(kinds - first)),
                              draw_sizes(rng_() % 2, rng_));
    expected_.clear();
    Schedule s(function_.func);
    const std::vector<std::string> blocks = block_names(s.func()), &all = proposed_primitives();
    const std::string focus = blocks[rng_() % blocks.size()];
    const size_t wanted = 3 + rng_() % 8;
    const std::string target =
        std::next(wanted_.begin(), static_cast<long>(rng_() % wanted_.size()))->primitive;
    for (int tries = 0; tries < 120; ++tries) {
      const std::string primitive = rng_() % 3 == 0 ? any(all) : target.empty() ? any(kConcurrent) : target;
      const std::string line = propose(s, primitive, focus, rng_() % 4 == 0, rng_);
      if (line.empty()) continue;
      Schedule next = s;
      try {
        next(line);
        // The walk stays short: most requirements are about few steps together.
        if (s.trace().steps.size() < wanted && (rng_() % 2 || primitive != target)) s = next;
      } catch (const ScheduleError& e) {
        refused(s, line, e);
      }
    }
  }

 private:
  const std::string& any(const std::vector<std::string>& of) { return of[rng_() % of.size()]; }
  void refused(const Schedule& s, const std::string& line, const ScheduleError& e) {
    const auto [primitive, number] = broken_requirement(e);
    const RequirementName r{primitive, number == "D" ? 0 : std::atoi(number.c_str())};
    if (number != "D" && r.number == 0) return;  // A, B, C and E are about what a step means
    if (!wanted_.count(r) || made_[r] >= kMadeEach) return;
    report_.line({"refused", r.primitive, std::to_string(r.number)});
    std::vector<std::string> steps;
    for (const Step& step : s.trace().steps) steps.push_back(print(step));
    steps.push_back(line);
    std::vector<std::string> at = {"at", r.primitive, std::to_string(r.number), function_.name};
    at.insert(at.end(), steps.begin(), steps.end());
    report_.line(at);
    Schedule without = s;
    try {
      const Waived waived(r);
      without(line);
    } catch (const ScheduleError&) {
      return report_.line({"elsewhere", r.primitive, std::to_string(r.number)});
    } catch (const std::exception& error) {
      return report_.line({"crash", error.what()});
    }
    ++made_[r];
    judge(r, without.func());
  }

  void judge(const RequirementName& r, const PrimFunc& after) {
    const auto say = [&](const std::string& verdict, const std::string& what) {
      report_.line({"made", r.primitive, std::to_string(r.number), verdict, what});
    };
    try {
      check_well_formed(after);
    } catch (const Error& e) {
      return say("ill-formed", e.what());
    }
    const std::string why = interpreted(after);
    const Proof p = verify_schedule(function_.func, after, {.seconds = kProofSeconds});
    const std::string proof = p.verdict == Verdict::wrong ? "wrong" : p.ok() ? "proved" : "open";
    say(why.empty() ? "same " + proof : "differs " + proof, why + "\n" + describe(p) + "\n" + print(after));
  }

  // What the interpreter finds; empty: nothing. Layouts have a meaning only after lowering.
  std::string interpreted(const PrimFunc& after) {
    for (int k = 0; k < kInterpreted; ++k) {
      const uint64_t seed = seed_ + static_cast<uint64_t>(k);
      if (static_cast<int>(expected_.size()) <= k) expected_.push_back(run_original(function_.func, seed));
      const Agreement a = compare_runs(after, expected_[static_cast<size_t>(k)], seed, function_.tolerance);
      if (!a.same) return a.why;
    }
    const bool layouts = std::any_of(after.allocs.begin(), after.allocs.end(),
                                     [](const BufferDecl& d) { return d.layout.has_value(); }) ||
                         std::any_of(after.params.begin(), after.params.end(),
                                     [](const Param& p) { return p.decl.layout.has_value(); });
    return layouts ? lowered(after) : "";
  }

  std::string lowered(const PrimFunc& after) const {
    Lowered l;
    Target target;
    try {
      if (!lower_for(target, {function_.func, function_.tolerance, seed_}, after, 0, after.name, l).taken)
        return "";
      std::vector<Tensor> args = l.args();
      interpret(l.meant, args);
      return agree(l, args, args, "lowered").what;
    } catch (const Error& e) {
      return e.what();
    }
  }

  uint64_t seed_;
  const Wanted& wanted_;
  const Report& report_;
  std::mt19937_64 rng_;
  FuzzFunction function_;
  std::vector<std::vector<Tensor>> expected_;
  std::map<RequirementName, int64_t> made_;
};

// In the parent: what one child says.
struct Listener {
  MutationResult said;
  Miss at;
  std::string threw;
  std::chrono::steady_clock::time_point heard = std::chrono::steady_clock::now();

  void hear(const std::vector<std::string>& f) {
    heard = std::chrono::steady_clock::now();
    if (f[0] == "threw") threw = f[1];
    if (f[0] == "at") at = {{f[1], std::stoi(f[2])}, "", "", f[3], {f.begin() + 4, f.end()}};
    if (f[0] == "crash") miss("crash", f[1]);
    if (f[0] == "refused") ++said.rows[{f[1], std::stoi(f[2])}].refused;
    if (f[0] == "elsewhere") ++said.rows[{f[1], std::stoi(f[2])}].elsewhere;
    if (f[0] == "made") made(said.rows[{f[1], std::stoi(f[2])}], f[3], f[4]);
  }
  void miss(const std::string& kind, const std::string& what) {
    at.kind = kind;
    at.what = what;
    said.misses.push_back(at);
  }
  void made(MutationRow& row, const std::string& verdict, const std::string& what) {
    ++row.made;
    if (verdict == "ill-formed") ++row.ill_formed;
    if (verdict == "same wrong") ++row.wrong_by_proof;
    if (verdict == "same proved" || verdict == "same open") ++row.harmless;
    if (!verdict.starts_with("differs")) return miss(verdict, what);
    ++row.wrong;
    row.caught_by_proof += verdict == "differs wrong";
    row.open += verdict == "differs open";
    row.missed += verdict == "differs proved";
    miss(verdict == "differs wrong" ? "caught" : verdict == "differs open" ? "open" : "missed", what);
  }
};

struct Running {
  std::unique_ptr<Child> child;
  Listener listener;
};

Wanted all_semantic(const std::vector<std::string>& only) {
  Wanted out;
  const auto add = [&](const RequirementName& r) {
    if (only.empty() || std::find(only.begin(), only.end(), text(r)) != only.end()) out.insert(r);
  };
  for (const schedules::Primitive& p : schedules::primitives())
    for (size_t i = 0; i < p.requirements.size(); ++i)
      if (p.requirements[i].semantic) add({p.name, static_cast<int>(i) + 1});
  add({"", 0});
  return out;
}

class Mutations {
 public:
  explicit Mutations(const MutationOptions& o) : o_(o) {
    for (const RequirementName& r : all_semantic(o.only)) all_.rows[r];
  }

  MutationResult run() {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    for (;;) {
      const Wanted wanted = still_wanted();
      const bool stop = wanted.empty() || seconds() > o_.minutes * 60;
      while (!stop && static_cast<int>(running_.size()) < o_.processes) start(wanted);
      if (running_.empty()) break;
      listen();
      if (o_.progress)
        std::cerr << "\r  " << next_ << " walks, " << wanted.size() << " requirements to go, "
                  << static_cast<int>(seconds()) << " s   ";
    }
    if (o_.progress) std::cerr << "\n";
    all_.seconds = seconds();
    all_.walks = next_;
    return std::move(all_);
  }

 private:
  Wanted still_wanted() const {
    Wanted out;
    for (const auto& [r, row] : all_.rows)
      if (row.wrong < o_.wanted) out.insert(r);
    return out;
  }

  void start(const Wanted& wanted) {
    auto r = std::make_unique<Running>();
    const int64_t first = next_;
    next_ += kWalks;
    r->child = std::make_unique<Child>([&, first](const Report& report) {
      Walker walker(o_.seed, wanted, report);
      for (int64_t i = first; i < first + kWalks; ++i) walker.walk(i);
    });
    running_.push_back(std::move(r));
  }

  void listen() {
    std::vector<pollfd> fds;
    for (const auto& r : running_) fds.push_back({r->child->fd(), POLLIN, 0});
    poll(fds.data(), fds.size(), 1000);
    for (size_t i = fds.size(); i-- > 0;) {
      Running& r = *running_[i];
      const auto silent = std::chrono::steady_clock::now() - r.listener.heard;
      const bool hung = fds[i].revents == 0 && std::chrono::duration<double>(silent).count() > kSilence;
      if (hung) r.child->kill();
      if (!hung && fds[i].revents == 0) continue;
      if (!hung && r.child->read_lines([&](const std::vector<std::string>& f) { r.listener.hear(f); }))
        continue;
      const std::string death = hung ? "silent" : r.child->death();
      if (!death.empty()) r.listener.miss("crash", death + " " + r.listener.threw);
      for (const auto& [name, row] : r.listener.said.rows) all_.rows[name].add(row);
      for (Miss& m : r.listener.said.misses)
        if (o_.keep_all || m.kind == "crash" || m.kind == "missed" || m.kind == "open")
          all_.misses.push_back(std::move(m));
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const MutationOptions& o_;
  std::vector<std::unique_ptr<Running>> running_;
  MutationResult all_;
  int64_t next_ = 0;
};

}  // namespace

std::string text(const RequirementName& r) {
  return r.primitive.empty() ? "every step D" : r.primitive + " " + std::to_string(r.number);
}

MutationResult run_mutations(const MutationOptions& options) {
  return Mutations(options).run();
}

void MutationRow::add(const MutationRow& other) {
  for (int64_t MutationRow::*field :
       {&MutationRow::refused, &MutationRow::elsewhere, &MutationRow::made, &MutationRow::wrong,
        &MutationRow::wrong_by_proof, &MutationRow::caught_by_proof, &MutationRow::open, &MutationRow::missed,
        &MutationRow::harmless, &MutationRow::ill_formed})
    this->*field += other.*field;
}

std::string print(const MutationResult& r) {
  std::ostringstream out;
  out << "refused by the requirement; without it refused elsewhere or made; of those made wrong to the\n"
         "interpreter, of which the proof says wrong, or leaves to the interpreter; missed: called right;\n"
         "not wrong to the interpreter: harmless, wrong to the proof only, or no function at all\n";
  char line[200];
  std::snprintf(line, sizeof line, "%-26s %8s %9s %6s %6s %8s %8s %7s %9s %10s %10s\n", "requirement",
                "refused", "elsewhere", "made", "wrong", "by proof", "by both", "missed", "harmless",
                "proof only", "ill-formed");
  out << line;
  MutationRow sum;
  for (const auto& [name, row] : r.rows) {
    sum.add(row);
    std::snprintf(line, sizeof line, "%-26s %8ld %9ld %6ld %6ld %8ld %8ld %7ld %9ld %10ld %10ld\n",
                  text(name).c_str(), row.refused, row.elsewhere, row.made, row.wrong, row.caught_by_proof,
                  row.caught_by_proof + row.open, row.missed, row.harmless, row.wrong_by_proof,
                  row.ill_formed);
    out << line;
  }
  const double share =
      sum.wrong ? 100.0 * static_cast<double>(sum.caught_by_proof) / static_cast<double>(sum.wrong) : 0;
  std::snprintf(line, sizeof line,
                "%zu semantic requirements, %ld wrong schedules, the proof alone catches %.1f%%, proof and "
                "interpreter %ld; %ld walks, %d s\n",
                r.rows.size(), sum.wrong, share, sum.caught_by_proof + sum.open, r.walks,
                static_cast<int>(r.seconds));
  out << line;
  return out.str();
}

std::vector<std::string> complaints(const MutationResult& r, int64_t wanted) {
  std::vector<std::string> out;
  for (const auto& [name, row] : r.rows) {
    const std::string let = text(name) + " let ";
    if (row.wrong < wanted)
      out.push_back("FEW: " + let + "only " + std::to_string(row.wrong) + " wrong schedules through");
    if (static_cast<double>(row.caught_by_proof) < kShare * static_cast<double>(row.wrong))
      out.push_back("UNSEEN: " + let + std::to_string(row.wrong) +
                    " wrong schedules through, of which the proof sees " +
                    std::to_string(row.caught_by_proof));
    if (row.missed > 0)
      out.push_back("MISSED: " + let + std::to_string(row.missed) +
                    " wrong schedules through that the proof calls right");
  }
  for (const Miss& m : r.misses)
    if (m.kind == "crash") out.push_back("CRASH: a step without " + text(m.requirement));
  return out;
}

}  // namespace nestor
