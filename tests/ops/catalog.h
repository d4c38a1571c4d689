// One or more small nodes of every operator, for tests that ask something of all of them.
#pragma once

#include <string>
#include <vector>

#include "tests/ops/op_case.h"

namespace nestor {

struct CatalogEntry {
  std::string what;  // "Conv grouped"
  OpCase node;
};
std::vector<CatalogEntry> catalog();
// Of those that the GPU has, too: others keep lists of their own while they run, in serial loops.
inline bool is_for_cpus_only(const CatalogEntry& e) {
  return e.what == "KeptBoxes" || e.what == "Order";
}
void catalog_more(std::vector<CatalogEntry>& all);  // a part of it

}  // namespace nestor
