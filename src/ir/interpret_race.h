// Finds unordered accesses: two iterations of one parallel, vectorized or thread loop that touch an element,
// at least one of them writing.
//
// The execution is a tree: an iteration holds the instances of concurrent loops it runs, an instance its
// iterations. Two accesses are ordered unless their paths split inside an instance, in two of its iterations.
// The interpreter runs such iterations one after the other, so one remembered writer and one remembered
// reader per element are enough to find a conflict if there is one (Feng and Leiserson, "Efficient detection
// of determinacy races in Cilk programs"). Threads of a CUDA block get new tree nodes at every barrier,
// marked with its number: accesses with different numbers are ordered.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace nestor::interpreter {

using Path = std::vector<uint32_t>;  // the tree nodes from the root to the current iteration

struct Access {
  uint32_t node = 0;  // 0: none
  int32_t site = 0;
};
struct Shadow {
  Access writer, reader;
};

struct Clash {
  int32_t loop;
  int64_t earlier, current;  // iterations
  Access with;
  bool with_write;
};

class RaceDetector {
 public:
  RaceDetector() : nodes_(2) { nodes_[1].depth = 0; }
  Path root() const { return {1}; }

  void enter_loop(Path& path, int32_t loop) { path.push_back(add(path.back(), loop, 0, 0)); }
  void enter_iteration(Path& path, int64_t value, uint32_t phase = 0) {
    path.push_back(add(path.back(), -1, value, phase));
  }

  // The path of a thread after a barrier: nodes below `base` are renewed, the same node by the same one for
  // all threads.
  void pass_barrier(Path& path, size_t base, uint32_t phase,
                    std::vector<std::pair<uint32_t, uint32_t>>& renewed);

  std::optional<Clash> read(Shadow& s, const Path& path, int32_t site);
  std::optional<Clash> write(Shadow& s, const Path& path, int32_t site);

 private:
  struct Node {
    uint32_t parent = 0;
    uint32_t depth = 0;
    int64_t value = 0;   // of an iteration
    int32_t loop = -1;   // of an instance; -1 for iterations
    uint32_t phase = 0;  // barriers passed before it
  };
  uint32_t add(uint32_t parent, int32_t loop, int64_t value, uint32_t phase);
  std::optional<Clash> clash(const Access& earlier, const Path& path, bool was_write) const;

  std::vector<Node> nodes_;
};

}  // namespace nestor::interpreter
