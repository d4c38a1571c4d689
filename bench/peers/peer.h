// A contestant that isn't us, doing a Problem's work on the same data.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bench/cpu/work.h"

namespace nestor::bench {

struct Peer {
  std::string name;                // "oneDNN"
  std::string kernel;              // what the library says it runs: "jit:avx512_core", "SkylakeX sgemm"
  std::function<void()> run;       // once; inputs and outputs are in the peer's own layout
  std::function<Tensor()> result;  // of the last run, row major
};

// None where the library has no such operator. Both run on one thread.
std::optional<Peer> onednn_peer(const Problem& p);
std::optional<Peer> openblas_peer(const Problem& p);
std::string onednn_version();
std::string openblas_version();  // with the kernels in use

}  // namespace nestor::bench
