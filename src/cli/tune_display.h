// What `nestor tune` says: a table that changes in a terminal, lines elsewhere, or an object for each event.
#pragma once

#include <string>
#include <vector>

#include "nestor/tune.h"
#include "src/report/roofline.h"

namespace nestor::cli {

// What is known of a function before it is tuned.
struct TunedFunction {
  std::string name;
  int calls = 1;
  report::FunctionWork work;
  report::Bound bound;  // which no schedule is faster than; 0: isn't known
};

// Progress, on stderr.
class TuneDisplay {
 public:
  // `roofline` may be null, and then bounds aren't known.
  TuneDisplay(const std::vector<TunedFunction>& functions, report::Roofline* roofline, double seconds,
              bool json);
  ~TuneDisplay();
  TuneDisplay(const TuneDisplay&) = delete;
  TuneDisplay& operator=(const TuneDisplay&) = delete;

  void show(const TuneProgress& p);
  void warn(const std::string& what);  // a line above the table

 private:
  struct Row {
    TunedFunction function;
    TuneProgress last;
    double told_ns = 0;  // the best that a line was about
    int64_t order = 0;   // of the last event
  };
  Row& row_of(const std::string& func);
  void show_json(const Row& r) const;
  void show_line(Row& r) const;
  void draw();
  void clear();

  std::vector<Row> rows_;
  report::Roofline* roofline_;
  double seconds_;
  bool json_, live_;
  int64_t events_ = 0;
  int drawn_ = 0;  // lines of the table on the screen
};

// Results, on stdout.
void print_results(const std::vector<TuneResult>& results, const std::vector<TunedFunction>& functions,
                   bool json);

// "3.27x", "no gain beyond noise", "not measured"
std::string verdict(const TuneResult& r);
// "7 ok, 2 crash"
std::string causes(const std::vector<int64_t>& outcomes);

}  // namespace nestor::cli
