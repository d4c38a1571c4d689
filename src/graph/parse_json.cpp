// nlohmann's parser with our own builder: its builder that takes a callback looks at all elements of a list
// whenever one ends, and its objects in the file's order look at all fields to add one. Models have lists and
// objects of 100,000.
#include "src/graph/parse_json.h"

#include <algorithm>
#include <set>

#include "nestor/limits.h"

namespace nestor {

namespace {

// Where byte `offset` of the text stands.
SourceLoc locate(const std::string& file, std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  SourceLoc loc;
  loc.file = file;
  const size_t begin = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;  // npos + 1 is 0
  const size_t end = std::min(text.find('\n', offset), text.size());
  loc.line =
      1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
  loc.column = static_cast<int>(offset - begin) + 1;
  if (end - begin <= 160) loc.text = text.substr(begin, end - begin);
  return loc;
}

class DocumentBuilder : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(const std::string& file, std::string_view text) : file_(file), text_(text) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t&) override { return add(v); }
  bool string(string_t& v) override { return add(std::move(v)); }
  bool binary(binary_t& v) override { return add(std::move(v)); }

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second)
      file_error(file_, fmt::format("the field or name `{}` is given twice", name));
    open_.back().key = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    // The library's text is "[...] parse error at line 3, column 5: reason", or of a number's range
    // "[...] number overflow parsing '1e999'".
    const std::string what = e.what();
    const auto* syntax = dynamic_cast<const Json::parse_error*>(&e);
    if (!syntax) file_error(file_, "not valid JSON: " + what.substr(what.find("] ") + 2));
    const size_t colon = what.find(": ");
    const std::string why = colon == std::string::npos ? what : what.substr(colon + 2);
    const bool cut = why.find("unexpected end of input") != std::string::npos;
    throw UserError(Diagnostic{(cut ? "the JSON text is truncated: " : "not valid JSON: ") + why,
                               locate(file_, text_, syntax->byte == 0 ? 0 : syntax->byte - 1),
                               {},
                               ""});
  }

 private:
  struct Open {
    Json value;
    std::set<std::string> keys;  // of an object
    std::string key;             // of the field whose value comes next
  };

  bool add(Json value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (Json& in = open_.back().value; in.is_array())
      in.push_back(std::move(value));
    else
      in.get_ref<Json::object_t&>().Json::object_t::Container::emplace_back(std::move(open_.back().key),
                                                                            std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= static_cast<size_t>(kDeepestJson))
      file_error(file_, fmt::format("lists and objects are nested more than {} deep", kDeepestJson));
    open_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json done = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(done));
  }

  const std::string& file_;
  std::string_view text_;
  Json root_;
  std::vector<Open> open_;
};

}  // namespace

Json parse_json(const std::string& file, std::string_view text) {
  DocumentBuilder builder(file, text);
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace nestor
