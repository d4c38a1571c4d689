#include "src/graph/newer_fields.h"

#include <algorithm>

namespace nestor {

namespace {

// The field by its JSON name or its name in onnx.proto.
Json take(Json& object, const char* camel, const char* plain) {
  for (const char* key : {camel, plain})
    if (const auto it = object.find(key); it != object.end()) {
      Json out = std::move(*it);
      object.erase(it);
      return out;
    }
  return {};
}

class Taker {
 public:
  explicit Taker(NewerFields& found) : found_(found) {}

  void functions(Json& model) {
    const auto all = model.find("functions");
    if (all == model.end() || !all->is_array()) return;
    for (size_t i = 0; i < all->size(); ++i) {
      Json& function = (*all)[i];
      if (!function.is_object()) continue;
      drop(function, "valueInfo", "value_info");
      rename(function, "name", "name");
      const Json defaults = take(function, "attributeProto", "attribute_proto");
      found_.any |= !defaults.is_null();
      for (const Json& a : defaults) found_.defaults[static_cast<int>(i)].push_back(a.dump());
    }
  }

  void everywhere(Json& at) {
    if (at.is_object()) {
      drop(at, "metadataProps", "metadata_props");
      if (at.contains("opType") || at.contains("op_type")) {
        drop(at, "deviceConfigurations", "device_configurations");
        rename(at, "opType", "op_type");
      }
    }
    // A list's elements are of one kind: those of numbers, which may be long, aren't looked at.
    if (at.is_object() || (at.is_array() && !at.empty() && at.front().is_structured()))
      for (Json& inside : at) everywhere(inside);
  }

  void drop(Json& object, const char* camel, const char* plain) {
    found_.any |= !take(object, camel, plain).is_null();
  }

 private:
  void rename(Json& object, const char* camel, const char* plain) {
    const Json overload = take(object, "overload", "overload");
    found_.any |= !overload.is_null();
    if (!overload.is_string()) return;
    for (const char* key : {camel, plain})
      if (const auto it = object.find(key); it != object.end() && it->is_string())
        return void(*it = overload_name(it->get<std::string>(), overload.get<std::string>()));
  }

  NewerFields& found_;
};

}  // namespace

std::string overload_name(const std::string& op, const std::string& overload) {
  return overload.empty() ? op : op + ":" + overload;
}

NewerFields take_newer_fields(Json& model) {
  NewerFields out;
  Taker taker(out);
  taker.drop(model, "configuration", "configuration");
  taker.functions(model);
  taker.everywhere(model);
  return out;
}

}  // namespace nestor
