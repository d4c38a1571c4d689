// The bound on a function's speed on this machine, whatever its schedule: the roofline of Williams et al.
// (CACM 52(4), 2009). Its operations take at least the time they need at the FMA peak, and its bytes at least
// the time of a copy of as many. The longer one is the bound. Both limits are measured at the time. A
// function that only reads may be faster than a copy.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "nestor/ir.h"
#include "nestor/measure.h"
#include "nestor/target.h"

namespace nestor::report {

// What a function does at least: the operations of its text, those that it or a loop repeats counted once,
// and each byte of its inputs, constants and outputs once, of what data chooses no more than one choice.
// Products with the zeros that pad an image and branches that indices don't take don't count; where data
// decides all count.
struct FunctionWork {
  double operations = 0, bytes = 0;
  double operations_at_once = 1;  // for one of f32: 4 of bytes, 0.5 of f64
};
FunctionWork least_work(const PrimFunc& f);

struct Bound {
  double operations_ns = 0, bytes_ns = 0;
  double ns() const { return operations_ns > bytes_ns ? operations_ns : bytes_ns; }
  const char* by() const { return operations_ns > bytes_ns ? "operations" : "bytes"; }
};

// Measures the peak when made, copies when they are asked for: some 20 and 5 ms. Others may slow a
// measurement down, so the best of all that were made counts.
class Roofline {
 public:
  Roofline(const Target& target, int threads);
  Bound bound_of(const FunctionWork& w);
  void measure_peak(double ms);
  void measure_copies();  // those that were asked for

  double peak_gflops() const { return peak_gflops_; }  // of all threads, f32
  double copy_gbs(int64_t bytes);                      // of all threads, read and written
  std::vector<std::pair<int64_t, double>> copies()
      const;  // (bytes of a thread, copy_gbs) that were asked for

 private:
  int threads_;
  FmaLoop loop_;
  double peak_gflops_ = 0;
  std::map<int64_t, double> copy_gbs_;  // of one thread, by bytes
};

}  // namespace nestor::report
