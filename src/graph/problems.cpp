#include "src/graph/problems.h"

#include <fmt/format.h>

namespace nestor {

void Problems::add(const std::string& message, const std::string& hint) {
  list_.push_back({message, hint});
}

void Problems::throw_if_any() const {
  if (list_.empty()) return;
  Diagnostic d;
  d.loc.file = file_;
  if (list_.size() == 1) {
    d.message = list_[0].message;
    d.hint = list_[0].hint;
  } else {
    d.message = fmt::format("the model has {} problems", list_.size());
    for (const Problem& p : list_)
      d.notes.push_back(p.hint.empty() ? p.message : fmt::format("{} ({})", p.message, p.hint));
  }
  throw UserError(d);
}

}  // namespace nestor
