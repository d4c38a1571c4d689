// What is wrong with a model, collected so that all of it is reported at once.
#pragma once

#include <string>
#include <vector>

#include "nestor/error.h"

namespace nestor {

class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void add(const std::string& message, const std::string& hint = "");
  bool any() const { return !list_.empty(); }
  void throw_if_any() const;  // one UserError: the problem itself, or a count and one note for each

 private:
  struct Problem {
    std::string message, hint;
  };
  std::string file_;
  std::vector<Problem> list_;
};

}  // namespace nestor
