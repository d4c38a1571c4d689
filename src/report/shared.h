// Tables of what occurs many times in a report: lines of text, figures of loops. Each is stored once and
// referred to by its index, so the page of a large model is a few megabytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

namespace nestor::report {

using Json = nlohmann::json;

class Table {
 public:
  int add(const Json& row) {
    const std::string key =
        row.dump(-1, ' ', false, Json::error_handler_t::replace);  // names may hold any bytes
    const auto [it, fresh] = index_.try_emplace(key, static_cast<int>(rows_.size()));
    if (fresh) rows_.push_back(row);
    return it->second;
  }
  const Json& rows() const { return rows_; }

 private:
  Json rows_ = Json::array();
  std::unordered_map<std::string, int> index_;
};

struct Tables {
  Table strings, costs, loops, links;
};

}  // namespace nestor::report
