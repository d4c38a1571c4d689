// What each verb was asked for, as plain data: only main.cpp knows the command-line library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/resource_limits.h"

namespace nestor::cli {

// Flags that every verb with a MODEL shares.
struct ModelOptions {
  std::string model;  // .onnx, .json, .nest, .so, or an operator written out
  std::vector<std::string>
      dims;  // "batch=8", values of symbolic dimensions, or "x=1,3,8,8", an input's shape
  std::vector<std::string> specialize;  // "batch=1,8": sizes that get kernels of their own
  std::vector<std::string> constants;   // "sr=16000", "W=@w.npy": inputs and weights that hold this
  std::vector<std::string> ops;         // .nest files with operators to register first
  std::string target = "native";
  int threads = 0;               // 0: as many as the target has cores
  std::string db;                // tuning records to take schedules from
  bool exact_conv = false;       // no convolution by Winograd's algorithm
  int64_t winograd_budget = -1;  // bytes that its weights may add; less than 0: the default
  bool check_indices = false;    // those out of range end a run
  int64_t max_trips = 0;         // of loops that only run time ends; 0: any number
  bool blocked_io = false;       // inspect, bench and verify: see add_blocked_io
  bool proof = true;             // schedules from files are proved
  bool emulate = false;          // kernels of a CUDA target run on the CPU
  bool json = false;
  Limits limits;
};

struct CompileVerb {
  ModelOptions common;
  std::string output;
  std::string schedule;           // see compile_options
  std::vector<std::string> emit;  // empty: as the ending of `output` says
  std::string weights = "auto";   // auto | inside | beside
  std::string name;               // prefix of the C functions; empty: the output's stem
  bool report = false;
  std::string backend = "llvm";
};

struct RunVerb {
  ModelOptions common;
  std::vector<std::string> inputs;  // NAME=SOURCE (TensorSource) | @all.npz
  std::string output;               // .npz; empty: a summary is printed
  std::string schedule;
};

struct TuneVerb {
  ModelOptions common;
  std::string time = "60s";
  int64_t trials = 0;  // 0: until the time is over
  std::string func = "*";
  uint64_t seed = 0;
  std::vector<std::string> schedules;  // files whose decisions are searched
  std::string templates;               // a folder of families; empty: none
  std::vector<std::string> families;   // of plans; empty: all
  double job_timeout = 20;             // seconds that a candidate may take, compiling included
  std::string report;                  // an HTML file of what was found; empty: none
  std::vector<std::string> workers;    // "2" local processes, or commands that speak the worker protocol
};

struct InspectVerb {
  ModelOptions common;
  std::string stage = "schedule";
  std::string func = "*";
  std::string schedule;
  bool steps = false;
  bool why = false;  // each step of an analytic schedule with its reason
  std::string html;  // where to write the page; empty: none
  std::vector<std::string> dump_after;
};

struct BenchVerb {
  ModelOptions common;
  std::vector<std::string> schedules;  // naive | default | tuned | FILE.sched, interleaved in one run
  bool profile = false;
  std::string trace;                  // a .json file of what ran when; empty: none
  std::string html;                   // the page of inspect --html, with times; empty: none
  double seconds = 1.0;               // of measuring per schedule
  std::vector<std::string> backends;  // llvm, halide, halide:SCHEDULER, interleaved in one run
  std::string pin = "none";           // where threads stay: none, compact, spread
  std::string numa = "none";          // where memory lies: none, parts, interleave
  std::vector<std::string> beside;    // other runtimes: onnxruntime, openvino
  double tolerance = 2e-3;            // of their outputs, in parts of the largest element of each
};

struct VerifyVerb {
  ModelOptions common;
  std::string against;  // oracle | graph | interpreter | lowered | halide; empty: oracle, and graph if quick
  std::vector<std::string> inputs;
  std::string expect;  // .npz with the wanted outputs
  std::string schedule;
  double rtol = -1, atol = -1;  // negative: the bound of the design
  bool prove = false;           // every function's schedule, and run nothing
  bool why = false;
};

struct DbVerb {
  std::string path, action, what, func = "*", target = "*", outcome;
  std::string output;       // of report: an HTML file
  int threads = 0;          // 0: any
  std::optional<int> keep;  // of a function, by prune; nothing: ten
  bool stale = false, failed = false;
  bool json = false;
};

struct WorkerVerb {
  bool null = false;  // the null device
};

struct DoctorVerb {
  bool json = false;
};

struct PrimitivesVerb {
  std::string name;  // empty: all of them
};

// Each returns the process's exit code: 0, or 3 where a comparison failed. Errors are thrown.
int run(const CompileVerb& verb);
int run(const RunVerb& verb);
int run(const TuneVerb& verb);
int run(const InspectVerb& verb);
int run(const BenchVerb& verb);
int run(const VerifyVerb& verb);
int run(const DbVerb& verb);
int run(const WorkerVerb& verb);
int run(const DoctorVerb& verb);
int run(const PrimitivesVerb& verb);

inline constexpr int kExitComparisonFailed = 3;

}  // namespace nestor::cli
