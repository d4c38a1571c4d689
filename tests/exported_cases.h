// Cases made by Python scripts, read from JSON lines: tensors as hexadecimal bytes, comparisons.
#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "nestor/tensor.h"

namespace nestor {

inline Tensor tensor_of(const nlohmann::json& j) {
  Tensor t(*parse_dtype(j["dtype"].get<std::string>()), j["shape"].get<std::vector<int64_t>>());
  const std::string hex = j["data"].get<std::string>();
  REQUIRE(static_cast<int64_t>(hex.size()) == 2 * t.bytes());
  for (size_t i = 0; i < hex.size() / 2; ++i)
    static_cast<uint8_t*>(t.data())[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return t;
}

inline bool is_close(double got, double wanted, double rtol, double atol) {
  if (std::isnan(got) || std::isnan(wanted)) return std::isnan(got) && std::isnan(wanted);
  return got == wanted || std::abs(got - wanted) <= atol + rtol * std::abs(wanted);
}

// Where the tensors differ; empty where they agree.
inline std::string difference(const Tensor& got, const Tensor& wanted, double rtol, double atol) {
  const auto type = [](const Tensor& t) { return to_string(t.dtype(), t.shape()); };
  if (type(got) != type(wanted)) return type(got) + " instead of " + type(wanted);
  for (int64_t i = 0; i < got.size(); ++i)
    if (!is_close(got.get(i), wanted.get(i), rtol, atol))
      return "element " + std::to_string(i) + " is " + std::to_string(got.get(i)) + " instead of " +
             std::to_string(wanted.get(i));
  return "";
}

// The JSON lines that a script below tests/ writes, made anew where the script has changed; "" where Python
// lacks the packages.
inline std::string exported(const std::string& script, const std::string& arguments = "") {
  const std::string out =
      NESTOR_BINARY_DIR "/" + std::filesystem::path(script).filename().string() + ".jsonl";
  const std::string source = NESTOR_SOURCE_DIR "/tests/" + script + ".py";
  if (std::filesystem::exists(out) &&
      std::filesystem::last_write_time(out) >= std::filesystem::last_write_time(source))
    return out;
  const std::string python = NESTOR_SOURCE_DIR "/build/venv/bin/python";
  if (!std::filesystem::exists(python)) return "";
  const std::string command = python + " " + source + " " + out + ".tmp " + arguments;
  if (std::system((command + " 2>/dev/null").c_str()) != 0) return "";
  std::filesystem::rename(out + ".tmp", out);
  return out;
}

}  // namespace nestor
