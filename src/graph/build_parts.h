// Small pieces of nodes that control flow is read with (build_loops.cpp, build_bodies.cpp).
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

template <class T>
T attr_of(const ModelNode& n, const char* name, T missing) {
  const auto it = n.attrs.find(name);
  const T* value = it == n.attrs.end() ? nullptr : std::get_if<T>(&it->second);
  return value ? *value : missing;
}

inline ModelNode plain(const ModelNode& of, const std::string& op, std::vector<std::string> inputs,
                       const std::string& output, Attrs attrs = {}) {
  constexpr int kOpset = 21;
  ModelNode n{op, "", of.name, std::move(inputs), {output}, std::move(attrs), {}};
  n.opset = kOpset;
  return n;
}

inline std::string some_output(const ModelNode& mn) {
  const auto made =
      std::find_if(mn.outputs.begin(), mn.outputs.end(), [](const auto& o) { return !o.empty(); });
  return made == mn.outputs.end() ? mn.op : *made;
}

// A hint: that --dim would make these integers sizes. Empty for none.
std::string how_to_bound(const std::vector<std::string>& sizes);

// One hint and another way.
inline std::string either(const std::string& hint, const std::string& also) {
  if (hint.empty() || also.empty()) return hint + also;
  return hint.find(also) == std::string::npos ? hint + ", or " + also : hint;
}

inline Tensor number(int64_t value, DType type) {
  Tensor t(type, {});
  t.set_int(0, value);
  return t;
}

inline constexpr int64_t kMostNodes = 20000;  // of all iterations that are spelled out
// Where there is a choice. Some 0.3 ms of compiling each: a loop of the plan takes no longer to run, but its
// weights can't depend on the iteration.
inline constexpr int64_t kFewNodes = 1000;

// Those of graphs inside, too.
inline int64_t count_nodes(const ModelGraph& g) {
  int64_t count = 0;
  for (const ModelNode& n : g.nodes) {
    ++count;
    for (const auto& entry : n.graphs) count += count_nodes(*entry.second);
  }
  return std::max<int64_t>(count, 1);
}
inline bool are_few(int64_t trips, const ModelGraph& body, int64_t most) {
  return trips <= most / count_nodes(body);
}

}  // namespace nestor
