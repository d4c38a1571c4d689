// Divides the work between tuners that share a database: a candidate is claimed by the tuner that measures
// it. A claim ends with its record. If its owner is killed, others may take the candidate.
#pragma once

#include <memory>
#include <string>

namespace nestor {

class Claims {
 public:
  explicit Claims(const std::string& database);  // UserError where it can't be written
  ~Claims();                                     // all that are left are given up
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // Whether the candidate, which takes at most so many seconds, is ours now. `of` names the function, the
  // target and the number of threads.
  bool claim(const std::string& of, const std::string& trace, double seconds);
  void release(const std::string& of, const std::string& trace);
  void wait_at_most(double seconds);  // for another process that holds the file; ten seconds at first

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nestor
