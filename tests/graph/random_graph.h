// Random graphs for tests of passes: operators that these look for, on few values, so that one is named
// twice by a node, read by many, is an output or equals one, and is known, as a whole or in one element.
#pragma once

#include <random>

#include "nestor/graph.h"

namespace nestor {

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}
  Graph make(int nodes, bool with_halves = false);  // those instead of bytes

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <class T>
  const T& one_of(const std::vector<T>& of) {
    return of[static_cast<size_t>(below(static_cast<int64_t>(of.size())))];
  }

  const TensorType& type(ValueId v) const { return g_.values[static_cast<size_t>(v)].type; }
  ValueId value(TensorType type, Tensor constant = {});
  ValueId input(TensorType type);
  ValueId known(DType dtype, std::vector<int64_t> shape, double low, double high);
  ValueId list(const std::vector<int64_t>& values);

  // Of earlier values; -1: none is so.
  ValueId any(DType dtype, size_t least_rank = 0);
  ValueId like(ValueId v);  // perhaps v itself
  std::vector<ValueId> several_like(ValueId v);

  // What the node makes; nothing where it can't be.
  std::vector<ValueId> node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {},
                            size_t outputs = 1, const std::string& domain = "");
  void elementwise();
  void moves();
  void reduces();
  void convolves();
  void multiplies();
  void quantizes();
  void halves();
  void repeats();
  ValueId bytes_of_real(ValueId v, DType to);
  ValueId real_of_bytes(ValueId v);
  std::vector<ValueId> step(DType zero);

  std::mt19937_64 random_;
  Graph g_;
  std::vector<ValueId> steps_;  // scales that were used
};

}  // namespace nestor
