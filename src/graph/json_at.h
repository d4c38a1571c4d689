// A place in a JSON document: the value and the path to it, so that each access that fails can say where.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/graph/files.h"

namespace nestor {

using Json = nlohmann::ordered_json;  // keeps the file's order

class JsonAt {
 public:
  JsonAt(const std::string& file, const Json& value, std::string path = "")
      : file_(&file), value_(&value), path_(std::move(path)) {}

  const Json& json() const { return *value_; }
  const std::string& path() const { return path_; }
  // The same place under a name that tells more: "nodes[3] (Conv)".
  JsonAt renamed(std::string path) const { return {*file_, *value_, std::move(path)}; }

  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;
  [[noreturn]] void wrong(const char* expected) const;  // "nodes[3].op: expected a string, found 7"

  JsonAt at(const char* key) const;  // throws "missing field"
  std::optional<JsonAt> find(const char* key) const;
  std::vector<JsonAt> items() const;
  std::vector<std::pair<std::string, JsonAt>> fields() const;
  void only(std::initializer_list<const char*> keys) const;  // throws where the object has another key

  std::string string() const;
  int64_t integer() const;
  double number()
      const;  // also the strings "nan", "inf", "-inf" and protobuf's "NaN", "Infinity", "-Infinity"
  std::vector<std::string> strings() const;
  std::vector<int64_t> integers() const;

 private:
  const std::string* file_;
  const Json* value_;
  std::string path_;
};

}  // namespace nestor
