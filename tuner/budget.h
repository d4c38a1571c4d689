// The limits of a search, in time and trials, and how it is stopped.
#pragma once

#include <algorithm>
#include <chrono>

#include "nestor/tune.h"

namespace nestor {

class Budget {
 public:
  explicit Budget(const TuneOptions& options) : options_(options) {}

  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - options_.begin).count();
  }
  double left() const { return options_.seconds - elapsed(); }
  bool is_over() const { return left() <= 0; }
  bool is_stopped() const { return options_.stop && options_.stop(); }
  // Of jobs under way: nobody waits for them any more.
  bool is_cut() const { return is_stopped() || is_over(); }

  bool trials_over() const { return options_.trials > 0 && measured >= options_.trials; }
  int64_t trials_left() const { return options_.trials > 0 ? options_.trials - measured : INT64_MAX; }

  int64_t measured = 0;

 private:
  const TuneOptions& options_;
};

}  // namespace nestor
