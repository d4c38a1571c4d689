#include "tuner/fields.h"

#include "nestor/error.h"

namespace nestor {

using Json = nlohmann::json;

Fields::Fields(const std::string& line, std::string what, std::string hint)
    : what_(std::move(what)), hint_(std::move(hint)) {
  constexpr int kDeepest = 2;  // the object, and a list in it
  const auto watch = [&](int depth, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kDeepest) fail("it is nested more than two deep");
    return true;
  };
  try {
    object_ = Json::parse(line, watch);
  } catch (const Json::exception& e) {
    fail(e.what());
  }
  if (!object_.is_object()) fail("it isn't a JSON object");
}

void Fields::fail(const std::string& why) const {
  throw UserError(Diagnostic{what_ + " can't be read: " + one_line(why, 300), {}, {}, hint_});
}

const Json* Fields::find(const std::string& key, bool required) const {
  const auto it = object_.find(key);
  if (it != object_.end()) return &*it;
  if (required) fail("`" + key + "` is missing");
  return nullptr;
}

std::string Fields::text(const std::string& key, size_t most, std::optional<std::string> otherwise) const {
  const Json* v = find(key, !otherwise);
  if (!v) return *otherwise;
  if (!v->is_string()) fail("`" + key + "` isn't a string");
  const std::string& s = v->get_ref<const std::string&>();
  if (s.size() > most) fail("`" + key + "` has more than " + std::to_string(most) + " characters");
  return s;
}

int64_t Fields::integer(const std::string& key, int64_t least, int64_t most,
                        std::optional<int64_t> otherwise) const {
  const Json* v = find(key, !otherwise);
  if (!v) return *otherwise;
  const bool fits = v->is_number_integer() && !(v->is_number_unsigned() && v->get<uint64_t>() > INT64_MAX);
  if (!fits || v->get<int64_t>() < least || v->get<int64_t>() > most)
    fail("`" + key + "` isn't an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return v->get<int64_t>();
}

uint64_t Fields::seed(const std::string& key) const {
  const Json* v = find(key, false);
  if (!v) return 0;
  if (!v->is_number_unsigned()) fail("`" + key + "` isn't an integer of at least 0");
  return v->get<uint64_t>();
}

double Fields::number(const std::string& key, std::optional<double> otherwise) const {
  const Json* v = find(key, !otherwise);
  if (!v) return *otherwise;
  if (!v->is_number()) fail("`" + key + "` isn't a number");
  return v->get<double>();
}

std::vector<double> Fields::numbers(const std::string& key, size_t most) const {
  const Json& v = *find(key, true);
  if (!v.is_array() || v.size() > most)
    fail("`" + key + "` isn't a list of at most " + std::to_string(most) + " numbers");
  std::vector<double> out;
  for (const Json& x : v) {
    if (!x.is_number()) fail("`" + key + "` holds something other than numbers");
    out.push_back(x.get<double>());
  }
  return out;
}

std::string one_line(const std::string& text, size_t most) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]), next = static_cast<unsigned char>(text[i + 1]);
    const bool wide_control = c == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F
    if (out.size() + 1 > most) return out + "...";
    out += c < 0x20 || c == 0x7f || wide_control ? ' ' : text[i];
    i += wide_control;
  }
  return out;
}

}  // namespace nestor
