// Our contestant: a work's untuned kernels and the tensors that they run on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cpu/work.h"
#include "nestor/runtime.h"

namespace nestor::bench {

struct Settings {
  std::string works = NESTOR_SOURCE_DIR "/bench/cpu/works.txt";
  std::string target = "native", pin = "none";
  int threads = 1;
  double seconds = 1;
};

// With what choosing its schedules and making its code took.
struct Ours {
  std::unique_ptr<Executor> executor;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<Tensor> data;  // what these point to
  std::optional<BufferDecl> blocked_output;
  double schedule_ms = 0, compile_ms = 0;

  void run() const { executor->run_raw(inputs.data(), outputs.data()); }
};

// Convolutions and pooling are measured as they stand inside a network, oneDNN's and ours: their tensors in
// blocks of channels, where a library has such a layout. Inputs that stay row major are the problem's own
// tensors.
Ours make_ours(const Problem& p, const Settings& settings, int threads);

Tensor result_of(const Ours& ours);  // row major

double milliseconds_of(const std::function<void()>& f);

}  // namespace nestor::bench
