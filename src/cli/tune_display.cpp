#include "src/cli/tune_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/cli/common.h"
#include "src/cli/db_records.h"
#include "src/cli/timing.h"

namespace nestor::cli {

namespace {

std::string time_of(double ns) {
  return ns > 0 ? time_text(ns / 1e6) : "-";
}

std::string gain_of(double default_ns, double best_ns) {
  return default_ns > 0 && best_ns > 0 ? fmt::format("{:.2f}x", default_ns / best_ns) : "-";
}

// Of what no schedule can be faster than; 0 where one of the two isn't known.
double share_of_bound(const TunedFunction& f, double ns) {
  return f.bound.ns() > 0 && ns > 0 ? f.bound.ns() / ns : 0;
}
std::string percent_of_bound(const TunedFunction& f, double ns) {
  const double share = share_of_bound(f, ns);
  return share > 0 ? fmt::format("{:.0f} %", 100 * share) : "-";
}

int64_t failures(const std::vector<int64_t>& outcomes) {
  int64_t sum = 0;
  for (size_t i = 0; i < outcomes.size(); ++i)
    if (static_cast<Outcome>(i) != Outcome::ok) sum += outcomes[i];
  return sum;
}

// "31 failed (29 illegal, 2 timeout)"; empty where none did.
std::string failed_text(std::vector<int64_t> outcomes) {
  const int64_t failed = failures(outcomes);
  if (failed == 0) return "";
  outcomes[static_cast<size_t>(Outcome::ok)] = 0;
  return fmt::format("{} failed ({})", failed, causes(outcomes));
}

nlohmann::json counts_of(const std::vector<int64_t>& outcomes) {
  nlohmann::json counts;
  for (size_t i = 0; i < outcomes.size(); ++i) counts[name_of(static_cast<Outcome>(i))] = outcomes[i];
  return counts;
}

struct Size {
  size_t columns = 80, lines = 24;
};
Size size_of_terminal() {
  winsize w{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0 || w.ws_row == 0) return {};
  return {w.ws_col, w.ws_row};
}

}  // namespace

std::string causes(const std::vector<int64_t>& outcomes) {
  std::string out;
  for (size_t i = 0; i < outcomes.size(); ++i)
    if (outcomes[i] > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", outcomes[i], name_of(static_cast<Outcome>(i)));
  return out;
}

std::string verdict(const TuneResult& r) {
  if (r.best_ns <= 0) return r.measured > 0 ? "no candidate could be measured" : "not measured";
  if (r.default_ns <= 0) return "there is no time of the default to compare with";
  if (r.measured + r.resumed <= 1) return "only the default was measured";
  const std::string ratio = fmt::format("{:.2f}x", r.default_ns / std::max(r.best_ns, 1e-9));
  if (!r.compared && r.best_ns < r.default_ns) return ratio + ", not compared again";
  return r.gain_beyond_noise ? fmt::format("{} ± {:.0f} %", ratio, std::ceil(100 * r.noise))
                             : "no gain beyond noise";
}

TuneDisplay::TuneDisplay(const std::vector<TunedFunction>& functions, report::Roofline* roofline,
                         double seconds, bool json)
    : roofline_(roofline), seconds_(seconds), json_(json), live_(isatty(STDERR_FILENO) && !json) {
  for (const TunedFunction& f : functions) rows_.push_back({f, {}});
}
TuneDisplay::~TuneDisplay() = default;  // the last table stays

TuneDisplay::Row& TuneDisplay::row_of(const std::string& func) {
  const auto at =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.function.name == func; });
  return at == rows_.end() ? rows_.emplace_back(Row{{func, 1, {}, {}}, {}}) : *at;
}

void TuneDisplay::show(const TuneProgress& p) {
  Row& r = row_of(p.func);
  r.last = p;
  constexpr double kAgainMs = 2;  // workers are idle now
  if (roofline_) {
    roofline_->measure_peak(kAgainMs);
    for (Row& row : rows_) row.function.bound = roofline_->bound_of(row.function.work);
  }
  r.order = ++events_;
  if (json_)
    show_json(r);
  else if (live_)
    draw();
  else
    show_line(r);
}

void TuneDisplay::warn(const std::string& what) {
  clear();
  warn_of_record(what);
  if (live_ && events_ > 0) draw();
}

void TuneDisplay::show_json(const Row& r) const {
  const TuneProgress& p = r.last;
  fmt::print(stderr, "{}\n",
             nlohmann::json{{"event", "progress"},
                            {"func", p.func},
                            {"measured", p.measured},
                            {"default_us", p.default_ns / 1e3},
                            {"best_us", p.best_ns / 1e3},
                            {"bound_us", r.function.bound.ns() / 1e3},
                            {"of_bound", share_of_bound(r.function, p.best_ns)},
                            {"outcomes", counts_of(p.outcomes)},
                            {"comparing", p.comparing},
                            {"elapsed_s", p.elapsed_s},
                            {"left_s", std::max(0.0, seconds_ - p.elapsed_s)}}
                 .dump());
}

// Where the best has got faster, and where its comparison with the default begins.
void TuneDisplay::show_line(Row& r) const {
  const TuneProgress& p = r.last;
  const bool faster = p.best_ns > 0 && p.default_ns > 0 && !(r.told_ns > 0 && p.best_ns > 0.99 * r.told_ns);
  if (!faster && !p.comparing) return;
  if (faster) r.told_ns = p.best_ns;
  const std::string failed = failed_text(p.outcomes);
  fmt::print(stderr, "{:6.1f} s, {:.0f} s left  {:<28} default {}  best {}{}  {} tried{}{}\n", p.elapsed_s,
             std::max(0.0, seconds_ - p.elapsed_s), shown(r.function.name), time_of(p.default_ns),
             time_of(p.best_ns),
             r.function.bound.ns() > 0 ? "  " + percent_of_bound(r.function, p.best_ns) + " of bound" : "",
             p.measured, failed.empty() ? "" : ", " + failed,
             p.comparing ? "; compared with the default now" : "");
}

void TuneDisplay::clear() {
  if (drawn_ > 0) fmt::print(stderr, "\x1b[{}A\r\x1b[J", drawn_);
  drawn_ = 0;
}

// The functions that were worked on last, in the order of the model; a line each, none longer than the
// terminal is wide.
void TuneDisplay::draw() {
  constexpr size_t kMost = 12, kAround = 3;
  const Size terminal = size_of_terminal();
  const size_t most = std::min(kMost, std::max(terminal.lines, kAround + 2) - kAround - 1);
  std::vector<const Row*> recent;
  std::vector<int64_t> outcomes(kOutcomes, 0);
  int64_t tried = 0;
  double elapsed = 0;
  for (const Row& r : rows_) {
    if (r.order > 0) recent.push_back(&r);
    for (size_t i = 0; i < r.last.outcomes.size(); ++i) outcomes[i] += r.last.outcomes[i];
    tried += r.last.measured;
    elapsed = std::max(elapsed, r.last.elapsed_s);
  }
  std::sort(recent.begin(), recent.end(), [](const Row* a, const Row* b) { return a->order > b->order; });
  recent.resize(std::min(recent.size(), most));
  std::sort(recent.begin(), recent.end());  // rows_ is in the order of the model
  const std::string failed = failed_text(outcomes);
  const bool comparing = std::any_of(recent.begin(), recent.end(),
                                     [&](const Row* r) { return r->order == events_ && r->last.comparing; });
  std::vector<std::string> lines = {
      fmt::format("{:.1f} s, {:.0f} s left: {} tried{}", elapsed, std::max(0.0, seconds_ - elapsed),
                  counted(static_cast<size_t>(tried), "candidate"), failed.empty() ? "" : ", " + failed) +
          (comparing ? "; best and default now in turns" : ""),
      fmt::format("  {:<30} {:>11} {:>11} {:>8} {:>9} {:>6} {:>7}", "function", "default", "best", "gain",
                  "of bound", "tried", "failed")};
  for (const Row* r : recent)
    lines.push_back(fmt::format(
        "  {:<30} {:>11} {:>11} {:>8} {:>9} {:>6} {:>7}", shown(r->function.name).substr(0, 30),
        time_of(r->last.default_ns), time_of(r->last.best_ns), gain_of(r->last.default_ns, r->last.best_ns),
        percent_of_bound(r->function, r->last.best_ns), r->last.measured, failures(r->last.outcomes)));
  if (recent.size() < rows_.size())
    lines.push_back(fmt::format("  and {}", counted(rows_.size() - recent.size(), "other function")));
  clear();
  for (const std::string& line : lines) fmt::print(stderr, "{}\n", line.substr(0, terminal.columns - 1));
  drawn_ = static_cast<int>(lines.size());
  std::fflush(stderr);
}

namespace {

void print_json(const TuneResult& r, const TunedFunction& f) {
  fmt::print("{}\n", nlohmann::json{{"func", r.func},
                                    {"calls", f.calls},
                                    {"default_us", r.default_ns / 1e3},
                                    {"best_us", r.best_ns / 1e3},
                                    {"bound_us", f.bound.ns() / 1e3},
                                    {"bound_by", f.bound.ns() > 0 ? f.bound.by() : ""},
                                    {"of_bound", share_of_bound(f, r.best_ns)},
                                    {"compared", r.compared},
                                    {"gain_beyond_noise", r.gain_beyond_noise},
                                    {"noise", r.noise},
                                    {"measured", r.measured},
                                    {"resumed", r.resumed},
                                    {"outcomes", counts_of(r.outcomes)},
                                    {"end", describe(r.end)},
                                    {"untried", r.untried},
                                    {"plan", r.plan},
                                    {"trace", print(r.best)}}
                         .dump());
}

// When what got faster, by the single measurements of the search.
std::string improvements(const TuneResult& r) {
  std::string out;
  for (const auto& [seconds, ns] : r.improvements)
    out += fmt::format("{}{} at {:.1f} s", out.empty() ? "best so far: " : ", ", time_of(ns), seconds);
  return out;
}

// One line where the default stays, for a model has many such.
void print_result(const TuneResult& r, const TunedFunction& f) {
  const bool gained = r.best_ns > 0 &&
                      (r.gain_beyond_noise || r.default_ns <= 0 || (!r.compared && r.best_ns < r.default_ns));
  const std::string failed = failed_text(r.outcomes);
  const std::string tried = counted(static_cast<size_t>(r.measured), "candidate") + " tried" +
                            (failed.empty() ? "" : ", " + failed) +
                            (r.resumed ? fmt::format("; {} known from before", r.resumed) : "");
  const std::string end =
      describe(r.end) + (r.untried > 0 ? fmt::format(", {} proposed and not measured",
                                                     counted(static_cast<size_t>(r.untried), "candidate"))
                                       : "");
  const std::string bound =
      f.bound.ns() > 0 ? fmt::format(", {} of bound ({})", percent_of_bound(f, r.best_ns), f.bound.by()) : "";
  if (!gained) {
    fmt::print("{:<32} default {:>11}  {}{}\n    {}; {}\n", shown(r.func), time_of(r.default_ns), verdict(r),
               bound, tried, end);
    return;
  }
  fmt::print("{:<32} default {:>11}  best {:>11}  {}{}\n    {}\n    {}\n", shown(r.func),
             time_of(r.default_ns), time_of(r.best_ns), verdict(r), bound, tried, improvements(r));
  if (!r.plan.empty()) fmt::print("    plan: {}\n", shown(r.plan));
  fmt::print("    {}\n", end);
}

void print_whole(const std::vector<TuneResult>& results, const std::vector<TunedFunction>& functions) {
  double before = 0, after = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].default_ns <= 0 || results[i].best_ns <= 0) return;
    before += functions[i].calls * results[i].default_ns;
    after += functions[i].calls * results[i].best_ns;
  }
  fmt::print("all {}, weighted by their calls: {} by default, {} now, {}\n",
             counted(results.size(), "function"), time_of(before), time_of(after), gain_of(before, after));
}

}  // namespace

void print_results(const std::vector<TuneResult>& results, const std::vector<TunedFunction>& functions,
                   bool json) {
  for (size_t i = 0; i < results.size(); ++i)
    json ? print_json(results[i], functions[i]) : print_result(results[i], functions[i]);
  if (!json && results.size() > 1) print_whole(results, functions);
}

}  // namespace nestor::cli
