// The other runtimes are Python packages. So a Python process (bench/peers/side_by_side.py) loads them and
// our artifacts, compares their results on the same inputs, and times them in turns. This file makes the
// artifacts and inputs for it, and prints what it measured.
#include "src/cli/beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "nestor/artifact.h"
#include "nestor/embedded.h"
#include "nestor/measure.h"
#include "nestor/npz.h"
#include "nestor/python_program.h"
#include "src/cli/common.h"
#include "src/cli/records_used.h"
#include "src/cli/timing.h"

namespace nestor::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Refusal {
  Diagnostic diagnostic;
  int code;
};

// What the program says to `arguments`; its errors are Refusals.
json ask_python(const std::string& arguments) {
  const auto [status, said] = run_command(python_command(peer_files().front().text) + " " + arguments);
  if (status == 126 || status == 127)
    throw UserError(Diagnostic{
        "--beside needs a Python that has the other runtimes, and " + python_program() + " doesn't start",
        {},
        {},
        "NESTOR_PYTHON=FILE names one"});
  json out = json::parse(said, nullptr, false);
  if (status != 0 || out.is_discarded())
    throw UserError(fmt::format("the process that times the other runtimes ended with status {}", status));
  if (out.is_object() && out.contains("error"))
    throw Refusal{{out["error"], {}, {}, out["hint"]}, out["code"]};
  return out;
}

// Named by the process, so that two of them share none.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "nestor-beside-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw UserError("can't make a folder in " + fs::temp_directory_path().string());
    path = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code gone;  // the process that read it may have removed it
    fs::remove_all(path, gone);
  }
};

struct Ours {
  std::string schedule;
  double compile_s = 0;
  FlopCount flops;
};

// Compiles under each schedule, and says what is to be done with the artifacts and the inputs.
json make_job(const BenchVerb& v, const std::vector<std::string>& schedules, const fs::path& folder,
              std::vector<Ours>& ours) {
  json job = {
      {"model", v.common.model},      {"folder", folder.string()}, {"inputs", (folder / "x.npz").string()},
      {"tolerance", v.tolerance},     {"seconds", v.seconds},      {"artifacts", json::array()},
      {"input_names", json::array()}, {"outputs", json::array()},  {"output_names", json::array()}};
  for (const std::string& schedule : schedules) {
    const auto start = std::chrono::steady_clock::now();
    CompileOptions options = compile_options(v.common, schedule);
    options.keep_constants = false;
    const CompiledModel model = compile_model(v.common.model, options);
    say_records_used(model, v.common, schedule);
    const std::string name = fmt::format("m{}", ours.size());
    ArtifactOptions artifact;
    artifact.path = (folder / (name + ".so")).string();
    write_artifact(*model.plan, model.lowered(), model.target, artifact);
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    job["artifacts"].push_back({{"label", schedule}, {"path", artifact.path}, {"name", name}});
    if (ours.empty()) {
      std::vector<std::pair<std::string, Tensor>> arrays;
      const NamedTensors drawn = read_inputs({}, model.plan->inputs, 1);
      for (const PlanTensor& t : model.plan->inputs) {
        arrays.emplace_back(fmt::format("arr_{}", arrays.size()), drawn.at(t.name));
        job["input_names"].push_back(t.name);
      }
      if (!arrays.empty()) write_npz(job["inputs"], arrays);
      for (const PlanTensor& t : model.plan->outputs) {
        job["outputs"].push_back({{"shape", t.shape}, {"dtype", name_of(t.dtype)}});
        job["output_names"].push_back(t.name);
      }
      job["threads"] = model.plan->threads;
    }
    ours.push_back({schedule, s, model.plan->flops});
  }
  return job;
}

const Ours& schedule_of(const std::vector<Ours>& ours, const std::string& label) {
  return *std::find_if(ours.begin(), ours.end(), [&](const Ours& o) { return o.schedule == label; });
}

std::string interval(const json& ratio) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", ratio["ratio"].get<double>(), ratio["low"].get<double>(),
                     ratio["high"].get<double>());
}

const json* found(const json& peers, const std::string& name) {
  for (const json& p : peers)
    if (p["peer"] == name) return &p;
  return nullptr;
}

void print_json(const BenchVerb& v, const json& peers, const json& job, const json& times,
                const std::vector<Ours>& ours, double peak) {
  for (const json& r : times["rows"]) {
    json row = {{"model", v.common.model},     {"threads", job["threads"]}, {"runs", times["rounds"]},
                {"median_ms", r["median_ms"]}, {"min_ms", r["min_ms"]},     {"p90_ms", r["p90_ms"]},
                {"beside", r["beside"]},       {"peak_gflops", peak}};
    if (const json* peer = found(peers, r["label"])) {
      row["peer"] = r["label"];
      row["version"] = (*peer)["version"];
    } else {
      const Ours& o = schedule_of(ours, r["label"]);
      row["schedule"] = o.schedule;
      row["compile_s"] = o.compile_s;
      row["gflops"] = o.flops.done / 1e6 / r["median_ms"].get<double>();
    }
    fmt::print("{}\n", row.dump());
  }
}

void print_table(const BenchVerb& v, const json& peers, const json& job, const json& times,
                 const std::vector<Ours>& ours, double peak) {
  const int threads = job["threads"];
  fmt::print("{}  {}, FMA peak {:.0f} GFLOP/s, {} rounds in turns\n", v.common.model,
             counted(static_cast<size_t>(threads), "thread"), peak, times["rounds"].get<int64_t>());
  fmt::print("{:<24} {:>11} {:>11} {:>11} {:>9} {:>7}", "", "median", "min", "90 %", "GFLOP/s", "% peak");
  for (const json& p : peers) fmt::print("{:>24}", "x " + p["title"].get<std::string>());
  fmt::print("\n");
  for (const json& r : times["rows"]) {
    const std::string label = r["label"];
    const json* peer = found(peers, label);
    const double median = r["median_ms"];
    std::string line = fmt::format(
        "{:<24} {:>11} {:>11} {:>11}",
        peer ? (*peer)["title"].get<std::string>() + " " + (*peer)["version"].get<std::string>() : label,
        time_text(median), time_text(r["min_ms"]), time_text(r["p90_ms"]));
    const double gflops = peer ? 0 : schedule_of(ours, label).flops.done / 1e6 / median;
    line +=
        fmt::format("{:>10} {:>7}", peer ? "" : fmt::format("{:.1f}", gflops),  // what peers do isn't known
                    peer ? "" : fmt::format("{:.1f}", 100 * gflops / peak));
    for (const json& p : peers)
      line += fmt::format("{:>24}",
                          p["peer"] == label ? "" : interval(r["beside"][p["peer"].get<std::string>()]));
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  fmt::print("x: how many times as fast, and its 95 % interval; above 1 the row is faster\n");
}

int compare(const BenchVerb& v, std::vector<std::string> schedules) {
  std::string names;
  for (const std::string& p : v.beside)
    if (("," + names + ",").find("," + p + ",") == std::string::npos) names += (names.empty() ? "" : ",") + p;
  const json peers = ask_python("--check " + shell_word(names));  // before the model takes its time
  const Folder folder;
  std::vector<Ours> ours;
  json job = make_job(v, schedules, folder.path, ours);
  for (const json& p : peers) job["peers"].push_back(p["peer"]);
  const std::string file = (folder.path / "job.json").string();
  write_text(file, job.dump());
  const Target target = target_of(v.common);
  const double before = measure_fma_peak_gflops(50, target);
  json times = ask_python(shell_word(file));
  std::stable_partition(times["rows"].begin(), times["rows"].end(),
                        [&](const json& r) { return !found(peers, r["label"]); });  // ours first
  const int cores = std::max(1, std::min(job["threads"].get<int>(), host_target().cores));
  const double peak = std::max(before, measure_fma_peak_gflops(50, target)) * cores;
  (v.common.json ? print_json : print_table)(v, peers, job, times, ours, peak);
  return 0;
}

}  // namespace

int bench_beside(const BenchVerb& v) {
  const std::string ending = fs::path(v.common.model).extension().string();
  if (ending != ".onnx")
    throw UserError(
        Diagnostic{"--beside needs a .onnx, which other runtimes read too: " + v.common.model + " isn't one",
                   {},
                   {},
                   ""});
  if (!v.common.constants.empty())
    throw UserError("--beside can't be given with --const: other runtimes read the model as its file has it");
  if (target_of(v.common).kind != TargetKind::cpu)
    throw UserError(
        Diagnostic{"--beside times on a CPU, not for " + v.common.target, {}, {}, "--target native"});
  std::vector<std::string> schedules;
  for (const std::string& s : v.schedules)
    if (std::find(schedules.begin(), schedules.end(), s) == schedules.end()) schedules.push_back(s);
  if (schedules.empty()) schedules.push_back(usual_schedule(v.common));
  try {
    return compare(v, schedules);
  } catch (const Refusal& e) {
    if (e.code != kExitComparisonFailed) throw UserError(e.diagnostic);
    std::fprintf(stderr, "%s\n", render(e.diagnostic).c_str());
    return e.code;
  }
}

}  // namespace nestor::cli
