// Reads the fields of JSON objects that come from outside: a line of an export, a worker's answer, a worker's
// job. A field of another type or out of range is refused by name.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nestor {

class Fields {
 public:
  // UserError "WHAT can't be read: ..." where the line isn't one object, or is nested more than two deep.
  Fields(const std::string& line, std::string what, std::string hint);

  bool has(const std::string& key) const { return object_.contains(key); }
  // A field that isn't there is `otherwise`, or refused where that is nothing.
  std::string text(const std::string& key, size_t most, std::optional<std::string> otherwise = {}) const;
  int64_t integer(const std::string& key, int64_t least, int64_t most,
                  std::optional<int64_t> otherwise = {}) const;
  uint64_t seed(const std::string& key) const;
  double number(const std::string& key, std::optional<double> otherwise = {}) const;
  std::vector<double> numbers(const std::string& key, size_t most) const;
  [[noreturn]] void fail(const std::string& why) const;

 private:
  const nlohmann::json* find(const std::string& key, bool required) const;

  std::string what_, hint_;
  nlohmann::json object_;
};

// Text that is shown on one line: control characters are spaces, and what is longer is cut.
std::string one_line(const std::string& text, size_t most);

}  // namespace nestor
