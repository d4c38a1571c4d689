// Greedy: each part is removed if the case still fails with the same kind of verdict, until nothing more can
// be removed.
#include "tests/fuzz/shrink.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "tests/fuzz/child.h"

namespace nestor {

namespace {

constexpr double kSilence = 130;  // seconds that one case may take

Finding in_child(const std::function<Finding()>& check) {
  Finding v;
  bool said = false;
  const std::string death = run_child(
      [&](const Report& report) {
        const Finding found = check();
        report.line({"verdict", found.kind, found.what});
      },
      kSilence,
      [&](const std::vector<std::string>& f) {
        said = true;
        if (f[0] == "verdict") v = {f[1], f[2]};
      });
  if (!said && !death.empty()) return {"crash", death};
  return v;
}

class Shrinker {
 public:
  Shrinker(Shrunk& state, const Roads& roads, double seconds) : s_(state), roads_(roads) {
    until_ =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  }

  void run() {
    for (bool smaller = true; smaller;) {
      smaller = fewer_steps();
      smaller = fewer_blocks() || smaller;
      smaller = smaller_sizes() || smaller;
      smaller = fewer_open_sizes() || smaller;
      smaller = simpler_steps() || smaller;
    }
  }

 private:
  bool accept(const SmallCase& c) {
    if (std::chrono::steady_clock::now() > until_) return false;
    ++s_.tried;
    const Finding v = try_case(c, roads_);
    if (v.kind != s_.verdict.kind) return false;
    s_.small = c;
    s_.verdict = v;
    return true;
  }

  // Halves first, then one by one, from the end: later steps depend on earlier ones.
  bool fewer_steps() {
    bool any = false;
    for (size_t n = std::max<size_t>(1, s_.small.steps.size() / 2);; n /= 2) {
      for (size_t end = s_.small.steps.size(); end > 0; end = end > n ? end - n : 0) {
        SmallCase c = s_.small;
        if (end > c.steps.size()) continue;
        const size_t begin = end > n ? end - n : 0;
        c.steps.erase(c.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                      c.steps.begin() + static_cast<std::ptrdiff_t>(end));
        any = accept(c) || any;
      }
      if (n <= 1) return any;
    }
  }

  bool fewer_blocks() {
    bool any = false;
    for (const std::string& block : block_names(s_.small.func())) {
      SmallCase c = s_.small;
      c.without.push_back(block);
      any = accept(c) || any;
    }
    return any;
  }

  bool smaller_sizes() {
    bool any = false;
    for (const auto& [letter, size] : Sizes(s_.small.sizes))
      for (int64_t to = 1; to < size; ++to) {
        SmallCase c = s_.small;
        c.sizes[letter] = to;
        if (accept(c)) {
          any = true;
          break;
        }
      }
    return any;
  }

  // One that is open gets its value; one of the values to try instead of all, and smaller ones.
  bool fewer_open_sizes() {
    bool any = false;
    while (s_.small.at.size() > 1) {
      const size_t before = s_.small.at.size();
      for (const std::vector<int64_t>& dims : OpenSizes(s_.small.at)) {
        SmallCase c = s_.small;
        c.at = {dims};
        if (accept(c)) break;
      }
      if (s_.small.at.size() == before) return any;
      any = true;
    }
    for (size_t i = 0; i < s_.small.open.size();) {
      SmallCase c = s_.small;
      c.sizes[c.open[i]] = c.at[0][i];
      c.open.erase(i, 1);
      c.at[0].erase(c.at[0].begin() + static_cast<std::ptrdiff_t>(i));
      if (s_.small.at[0][i] > 0 && accept(c)) {  // one that is 0 stays open: known sizes needn't be
        any = true;
        continue;
      }
      for (int64_t to = 1; to < s_.small.at[0][i]; ++to) {
        c = s_.small;
        c.at[0][i] = to;
        if (!accept(c)) continue;
        any = true;
        break;
      }
      ++i;
    }
    return any;
  }

  // Steps without their options.
  bool simpler_steps() {
    bool any = false;
    for (size_t i = 0; i < s_.small.steps.size(); ++i) {
      Step step = parse_step(s_.small.steps[i]);
      if (step.options.empty()) continue;
      step.options.clear();
      SmallCase c = s_.small;
      c.steps[i] = print(step);
      any = accept(c) || any;
    }
    return any;
  }

  Shrunk& s_;
  const Roads& roads_;
  std::chrono::steady_clock::time_point until_;
};

// Of one set of values 3,1 and another 5,5: "3,1/5,5".
std::string sizes_text(const OpenSizes& all) {
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    out += i ? "/" : "";
    for (size_t k = 0; k < all[i].size(); ++k) out += (k ? "," : "") + std::to_string(all[i][k]);
  }
  return out;
}

OpenSizes sizes_of(const std::string& text) {
  OpenSizes out(1);
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '/')
      out.emplace_back();
    else if (text[i] != ',' && (i == 0 || text[i - 1] == ',' || text[i - 1] == '/'))
      out.back().push_back(std::stoll(text.substr(i)));
  return out;
}

std::string comment(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += "# " + line + "\n";
  return out;
}

}  // namespace

PrimFunc SmallCase::func() const {
  PrimFunc f = make_function(function, sizes, open).func;
  for (const std::string& block : without) f = remove_block(f, block);
  return f;
}

SmallCase small_case(const Failure& failure, const CampaignOptions& options) {
  const Draft d = draft_case(options, failure.number);
  return {d.function.index,     d.function.sizes, {},
          failure.steps,        failure.road,     options.seed + static_cast<uint64_t>(failure.number),
          d.function.tolerance, d.function.open,  d.sizes};
}

Finding try_case(const SmallCase& c, const Roads& roads) {
  return in_child([&]() -> Finding {
    const Subject subject{c.func(), c.tolerance, c.seed, c.at};
    check_well_formed(subject.func);
    Schedule s(subject.func);
    const Finding v = replay(c.steps, s);
    return v.failed() ? v : check_all(subject, s, c.road, roads);
  });
}

Shrunk shrink(const Failure& failure, const CampaignOptions& options, const Roads& roads, double seconds) {
  Shrunk out;
  out.small = small_case(failure, options);
  out.verdict = try_case(out.small, roads);
  if (out.verdict.kind == failure.kind)
    Shrinker(out, roads, seconds).run();
  else
    out.verdict = {failure.kind, failure.what + "\n(not seen again when tried alone)"};
  // Steps that the smaller function refuses take no part.
  Schedule s(out.small.func());
  if (out.verdict.kind != "step" && out.verdict.kind != "crash") {
    replay(out.small.steps, s);
    out.small.steps.clear();
    for (const Step& step : s.trace().steps) out.small.steps.push_back(print(step));
  }
  return out;
}

std::vector<std::string> write_case(const SmallCase& c, const Finding& v, const std::string& dir,
                                    const std::string& stem) {
  std::filesystem::create_directories(dir);
  const std::string base = dir + "/" + stem;
  std::ofstream(base + ".nest") << print(c.func());
  std::ofstream sched(base + ".sched");
  sched << "# road=" << c.road << " seed=" << c.seed << " tolerance=" << c.tolerance
        << " sizes=" << sizes_text(c.at) << "\n"
        << comment(v.kind + ": " + v.what);
  for (const std::string& step : c.steps) sched << step << "\n";
  return {base + ".nest", base + ".sched"};
}

Finding replay_files(const std::string& sched, const Roads& roads) {
  const auto read = [](const std::string& path) {
    std::ifstream in(path);
    if (!in) throw UserError("there is no file " + path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string text = read(sched),
                    nest = std::filesystem::path(sched).replace_extension(".nest").string();
  const auto field = [&](const std::string& key) {
    const size_t at = text.find(key + "=");
    if (!text.starts_with("# road=") || at == std::string::npos)
      throw UserError(sched + " wasn't written by the fuzzer");
    const size_t begin = at + key.size() + 1;
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
  };
  const Subject subject{parse_func(read(nest), nest), std::stod(field("tolerance")),
                        std::stoull(field("seed")), sizes_of(field("sizes"))};
  const std::string road = field("road");
  return in_child([&]() -> Finding {
    Schedule s(subject.func);
    std::vector<std::string> steps;
    for (const Step& step : parse_trace(text, sched).steps) steps.push_back(print(step));
    const Finding v = replay(steps, s);
    return v.failed() ? v : check_all(subject, s, road, roads);
  });
}

}  // namespace nestor
