#include "src/graph/json_at.h"

#include <cmath>
#include <limits>

#include "nestor/nearest.h"

namespace nestor {

void JsonAt::fail(const std::string& message, const std::string& hint) const {
  file_error(*file_, path_.empty() ? message : path_ + ": " + message, hint);
}

void JsonAt::wrong(const char* expected) const {
  std::string found = value_->dump(-1, ' ', false, Json::error_handler_t::replace);
  if (found.size() > 40) found = found.substr(0, 37) + "...";
  fail(fmt::format("expected {}, found {}", expected, found));
}

JsonAt JsonAt::at(const char* key) const {
  if (auto found = find(key)) return *found;
  fail(fmt::format("missing field `{}`", key));
}

std::optional<JsonAt> JsonAt::find(const char* key) const {
  if (!value_->is_object()) wrong("an object");
  const auto it = value_->find(key);
  if (it == value_->end()) return std::nullopt;
  return JsonAt(*file_, *it, path_.empty() ? key : path_ + "." + key);
}

std::vector<JsonAt> JsonAt::items() const {
  if (!value_->is_array()) wrong("a list");
  std::vector<JsonAt> out;
  for (size_t i = 0; i < value_->size(); ++i)
    out.emplace_back(*file_, (*value_)[i], fmt::format("{}[{}]", path_, i));
  return out;
}

std::vector<std::pair<std::string, JsonAt>> JsonAt::fields() const {
  if (!value_->is_object()) wrong("an object");
  std::vector<std::pair<std::string, JsonAt>> out;
  for (const auto& [key, value] : value_->items())
    out.emplace_back(key, JsonAt(*file_, value, path_.empty() ? key : path_ + "." + key));
  return out;
}

void JsonAt::only(std::initializer_list<const char*> keys) const {
  const std::vector<std::string> known(keys.begin(), keys.end());
  for (const auto& [key, place] : fields())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(fmt::format("unknown field `{}`", key), did_you_mean(key, known));
}

std::string JsonAt::string() const {
  if (!value_->is_string()) wrong("a string");
  return value_->get<std::string>();
}

int64_t JsonAt::integer() const {
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    wrong("an integer of 64 bits");
  if (!value_->is_number_integer()) wrong("an integer");
  return value_->get<int64_t>();
}

double JsonAt::number() const {
  if (value_->is_number()) return value_->get<double>();
  if (value_->is_string()) {
    const auto text = value_->get<std::string>();
    if (text == "nan" || text == "NaN") return std::nan("");
    if (text == "inf" || text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-inf" || text == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  wrong("a number");
}

std::vector<std::string> JsonAt::strings() const {
  std::vector<std::string> out;
  for (const JsonAt& item : items()) out.push_back(item.string());
  return out;
}

std::vector<int64_t> JsonAt::integers() const {
  std::vector<int64_t> out;
  for (const JsonAt& item : items()) out.push_back(item.integer());
  return out;
}

}  // namespace nestor
