// The auto-tuner: proposes traces, has them measured by worker processes, keeps every measurement in a
// database.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nestor/driver.h"
#include "nestor/ir.h"
#include "nestor/plan.h"
#include "nestor/schedule.h"
#include "nestor/target.h"

namespace nestor {

// ---- Records

// How the measurement of one candidate ended. bad_answer: the worker said something else than the protocol
// has.
enum class Outcome : uint8_t { ok, illegal, compile_error, wrong_result, crash, timeout, bad_answer };
inline constexpr size_t kOutcomes = static_cast<size_t>(Outcome::bad_answer) + 1;
const char* name_of(Outcome outcome);
std::optional<Outcome> parse_outcome(std::string_view name);

// One measured candidate: a row of the database, an object of the JSON lines.
struct Record {
  int64_t id = 0;
  std::string workload;  // workload_key(func): the same on every platform
  std::string func;      // the function's text before scheduling
  std::string target;    // the target's name and CPU, "native znver5"
  int threads = 1;
  std::string trace;  // text
  std::string plan;   // that it was made from (plan.h), one line; empty: none
  Outcome outcome = Outcome::ok;
  std::string detail;              // why it failed, one line
  std::vector<double> samples_ns;  // every timing, in the order taken
  double median_ns = 0;
  double compile_ms = 0;
  double error = 0;   // largest |difference| to the oracle over its bound; at most 1 where right
  uint64_t seed = 0;  // of the run that proposed it
  std::string version, host;
  int64_t declared = 0;  // above 0: a search declared it the best (Database::declare_best), the highest last
};
std::string to_json_line(const Record& record);
Record record_from_json(const std::string& line);  // UserError naming the field

// Records come from files and machines that may be somebody else's (SECURITY.md): they are input. What is
// wrong with the figures of one, in a few words, or nothing.
std::string bad_figures(const Record& record);
// Why its schedule can't be used for the function, or nothing: it holds primitives only, each applies, the
// proof (of so many seconds) or else the interpreter finds the result right, and where there is a target it
// is lowered for it; or it is the default schedule for that target.
std::string why_unusable(const Record& record, const PrimFunc& func, const Target* target,
                         double seconds = 20);
// Throws UserError where the function isn't one, isn't the workload's, or the trace holds more than
// primitives; gives the function.
PrimFunc check_imported(const Record& record);

using Warn = std::function<void(const std::string&)>;  // one line for the user

// SQLite in WAL mode: crash safe, readable while written, one row per measured candidate.
class Database {
 public:
  enum class Mode { read, create };  // create: also opens an existing one for writing
  Database(const std::string& path,
           Mode mode);  // UserError: not a database, another version's, truncated, locked
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  int64_t insert(const Record& record);                 // durable when it returns
  void insert_all(const std::vector<Record>& records);  // all or none
  void revise(const Record& record);                    // another outcome and other times, by its id
  // The fastest right record of the schedule.
  std::optional<Record> find_right(const std::string& workload, const std::string& target, int threads,
                                   const std::string& trace) const;
  void wait_at_most(double seconds);  // for another process that holds the file; ten seconds at first
  // As they stand in the file: samples that can't be read are none.
  std::vector<Record> records(const std::string& workload = "", const std::string& target = "",
                              int threads = 0) const;
  // What a search ended with, after it compared that with the default: the best from now on, whatever others
  // took once.
  void declare_best(const std::string& workload, const std::string& target, int threads,
                    const std::string& trace);
  // The right records of a function, the last that was declared best, then the fastest first, until one is
  // `taken`.
  void by_speed(const std::string& workload, const std::string& target, int threads,
                const std::function<bool(const Record&)>& taken) const;
  // Of each other function the fastest that was made from a plan.
  std::vector<Record> best_of_others(const std::string& workload, const std::string& target,
                                     int threads) const;
  int64_t prune(int keep_per_workload);  // deletes slower rows, returns how many
  int64_t erase(const std::vector<int64_t>& ids);
  const std::string& path() const { return path_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string path_;
};

// "native znver5": what a record's times belong to.
std::string record_target(const Target& target);

// Schedules from the records of a database: of each function the one that a search declared best, else the
// fastest, for this target and number of threads, where it is usable and known to help. `warn` is told which
// faster ones aren't used, and why. Whether the right record is known to be at least as fast as the default
// schedule for the target: a search declared it, it is the default, or the default's own record is slower.
bool is_known_to_help(const Database& db, const Record& record, const PrimFunc& func, const Target& target);

ScheduleProvider database_schedules(const std::string& path, int threads, Warn warn = {});

// Sets where schedules come from, once target and threads are set. `schedule`: naive (which fuses nothing),
// default, tuned (needs a database), a .sched file, for whose other functions the database is asked too, or
// empty: tuned where there is a database, else default.
void choose_schedules(CompileOptions& options, const std::string& schedule, const std::string& db,
                      const Warn& warn);

// ---- Measuring

// What a worker is asked: schedule this function with this trace, compare it with the oracle, time it.
struct Job {
  int64_t id = 0;
  std::string func, trace, target;
  int threads = 1;
  uint64_t seed = 0;
  double seconds = 0.1;  // of timing
  double cutoff_ns = 0;  // what it is held against: once it is clearly slower timing ends; 0: nothing
  // For the pool, not sent.
  double timeout_s = 0;  // 0: the pool's
  double least_ns = 0;   // a shorter time is no answer
  int only_on = -1;      // the one worker that may do it
  int not_on = -1;       // a worker that does it only where no other one is left
};

// Does a job in this process: what `nestor worker` runs, and tests call directly.
Record measure(const Job& job);
// The null device: runs nothing, and takes for each call what the analytic price says of it. What it answers
// depends on the job alone.
Record measure_on_null_device(const Job& job);
// Speaks the protocol: one Job as a JSON line on stdin, one answer on stdout, until end of file.
int serve_worker(std::istream& in, std::ostream& out, Record (*answer)(const Job&) = measure);

// The command, word by word, that the command line of this process is started by again, as for local workers;
// this executable, unless another was set.
std::vector<std::string> own_command();
void set_own_command(std::vector<std::string> command);

struct WorkerPoolOptions {
  int local = 1;                                 // processes of this executable
  std::vector<std::string> commands;             // others, run by sh -c
  double timeout_s = 20;                         // per job
  std::function<void(const std::string&)> warn;  // told of a worker that is out
};

// What ends a run of jobs before all are done; what has no result then wasn't measured.
struct RunControl {
  std::function<bool()> stop = [] { return false; };  // once true no further job is begun
  std::function<bool()> cut = [] { return false; };   // once true those under way are given up, too
  std::function<bool(const Job&)> begin = [](const Job&) { return true; };  // false: it isn't to be done
  size_t unproven_jobs = SIZE_MAX;  // that a worker which nothing has confirmed gets at most, beside others
};

// Runs jobs on worker processes. A crash, a hang or an answer that is none costs one job; the worker is
// started again. One that fails three times in a row is asked what a worker has answered before: if it fails
// at that too it is out, and others get the jobs at which it failed. So is one whose times others contradict.
class WorkerPool {
 public:
  explicit WorkerPool(WorkerPoolOptions options);
  ~WorkerPool();
  // Results in job order, each checked against its job. `on_result` is called as each arrives and may
  // complete it.
  std::vector<Record> run(const std::vector<Job>& jobs, const std::function<void(Record&)>& on_result,
                          const RunControl& control = {});
  size_t left() const;                          // workers that aren't out
  bool all_out() const { return left() == 0; }  // further jobs have no result
  // Of a job of the last run that has a result: who did it, and how long it took.
  struct Done {
    int worker = -1;
    double seconds = 0;
  };
  Done how(int64_t job) const;
  // A second measurement agrees with what the worker said, or contradicts it. True where the worker is out
  // after that.
  void confirm(int worker);
  bool contradict(int worker, const std::string& what);
  bool any_unproven() const;  // of several workers, one that nothing has confirmed
  int most_trusted() const;   // to measure side by side; -1 where none is left

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// Commands of workers on the Ray cluster at the address ("auto": the one this machine is of), as many as it
// has nodes; by the Python that NESTOR_PYTHON names, else python3. UserError where there is no cluster, or no
// Ray.
std::vector<std::string> ray_workers(const std::string& address);

// ---- Search

struct TuneOptions {
  double seconds = 60;
  int64_t trials = 0;  // per run, 0: no limit
  uint64_t seed = 0;
  int threads = 1;
  int batch = 8;  // candidates proposed at a time
  // Schedules whose sample_* steps are spaces of their own, open ones too.
  std::vector<ScheduleProvider> own;
  std::vector<ScheduleTemplate> templates;  // families of the user's, each for the functions it matches
  // Of plans to search, "default" for the default's decisions; empty: all, or those of templates only where
  // there are own spaces.
  std::vector<std::string> families;
  Target target;
  WorkerPoolOptions workers;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();  // of `seconds`
  std::function<bool()> stop;                                                      // polled: Ctrl-C
  std::function<void(const struct TuneProgress&)> on_progress;
  Warn warn;  // of records that can't be gone on from
};

struct TuneProgress {
  std::string func;
  int64_t measured = 0;
  double default_ns = 0, best_ns = 0;
  std::vector<int64_t> outcomes;  // count by Outcome
  double elapsed_s = 0;
  bool comparing = false;  // the search is over: the best and the default are measured in turn
};

// Why the search of a function ended.
enum class TuneEnd : uint8_t {
  nothing_to_search,  // no family has a plan for it, and its default has no decision
  all_tried,          // no candidate is left that wasn't tried
  time_over,
  trials_over,
  stopped,     // by the user
  no_workers,  // each failed at everything
  not_stored,  // the database can't be written any more; TuneOptions::warn was told why
};
const char* describe(TuneEnd end);  // "the time is over"

struct TuneResult {
  std::string func;
  TuneEnd end = TuneEnd::time_over;
  int64_t untried = 0;  // proposed and not measured
  double default_ns = 0, best_ns = 0;
  bool compared = false;  // best against default, measured again side by side; an interrupted run skips it
  bool gain_beyond_noise = false;  // by that comparison; without gain, the default is the best
  double noise = 0;  // of that: half of the range in which the middle half of its ratios lies, relative
  Trace best;
  std::string plan;  // of the best, where it was made from one
  std::vector<int64_t> outcomes;
  int64_t measured = 0, resumed = 0;
  std::vector<std::pair<double, double>> improvements;  // best so far: seconds since the start, nanoseconds
};

// A function to tune, and how many times the model calls it.
struct TuneTask {
  PrimFunc func;
  int calls = 1;
};
std::vector<TuneTask> tune_tasks(const Partition& partition);  // all of its functions, in their order

// Tunes functions one after another within the budget, the share of each by the time it takes.
std::vector<TuneResult> tune(const std::vector<TuneTask>& tasks, Database& db, const TuneOptions& options);

}  // namespace nestor
