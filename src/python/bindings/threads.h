// Python's threads and ours: what runs in parallel, what Ctrl-C can end, and what forks and the end of the
// interpreter mean for both.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/python/bindings/bindings.h"

namespace nestor::python {

// Other threads of Python run while this lives. Unlike nanobind's it doesn't come back once the interpreter
// ends: a daemon thread would be ended there, in the midst of our frames, which ends the process.
class OthersRun {
 public:
  OthersRun();
  ~OthersRun();
  OthersRun(const OthersRun&) = delete;

 private:
  PyThreadState* state_;
};

// Does `work` on a thread of its own, with a deep stack, while others run and this one looks for signals:
// after Ctrl-C it raises at once, and the work ends where it calls check_wanted() next. `work` holds no
// object of Python's and nothing of the caller's frame.
void do_work(std::function<void()> work);

template <class F>
auto interruptibly(F f) {
  using Result = decltype(f());
  const auto result = std::make_shared<std::optional<Result>>();
  do_work([result, f = std::move(f)]() mutable { result->emplace(f()); });
  return std::move(**result);
}

// A run of a model. While the process forks there is none, so the child finds no lock held.
class Run {
 public:
  Run();
  ~Run();
  Run(const Run&) = delete;
};
int forks();  // so many lie between the first process and this one

}  // namespace nestor::python
