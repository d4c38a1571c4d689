// The names of a model's values, across its graphs: a branch or a body reads values of the graphs around it
// by name, and its own names hide theirs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

// What a node reads: its inputs, then what its branches and bodies take from around them.
std::vector<std::string> reads_of(const ModelNode& n);

// Every name that the graph's values have, those of graphs inside included.
std::set<std::string> all_names(const ModelGraph& g);

// By its own name a value's new one; others keep theirs. New names must be none of all_names.
using Renaming = std::map<std::string, std::string>;
ModelNode renamed(const ModelNode& n, const Renaming& names);

// Which nodes make something that an output of the graph depends on.
std::vector<bool> live_nodes(const ModelGraph& g);

// Names that no value has yet.
class FreshNames {
 public:
  explicit FreshNames(std::set<std::string> taken) : taken_(std::move(taken)) {}
  std::string operator()(const std::string& wanted);  // that, or with a number behind it

 private:
  std::set<std::string> taken_;
  std::map<std::string, int64_t> next_;
};

}  // namespace nestor
