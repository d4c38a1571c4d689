#include "src/report/page.h"

#include <map>

#include "nestor/embedded.h"
#include "nestor/error.h"

namespace nestor::report {

namespace {

std::string_view page_file(std::string_view name) {
  for (const EmbeddedFile& f : page_files())
    if (f.name == name) return f.text;
  throw InternalError("the report's page has no file " + std::string(name));
}

// What is left of `text` before {{NAME}}, the name, and the rest.
struct Placeholder {
  std::string_view before, name, after;
};
Placeholder next_placeholder(std::string_view text) {
  const size_t open = text.find("{{"), close = text.find("}}", open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {text, {}, {}};
  return {text.substr(0, open), text.substr(open + 2, close - open - 2), text.substr(close + 2)};
}

// The file with its placeholders replaced, those of files by the file.
std::string filled(std::string_view file, const std::map<std::string_view, std::string>& values) {
  std::string out;
  std::string_view rest = page_file(file);
  while (true) {
    const Placeholder p = next_placeholder(rest);
    out += p.before;
    if (p.name.empty()) return out;
    const auto value = values.find(p.name);
    out += value == values.end() ? page_file(p.name) : value->second;
    rest = p.after;
  }
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '"':  // of an attribute
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string page(const std::string& title, const std::string& json) {
  std::string data;
  for (const char c : json) {  // nothing in a script element may look like its end
    if (c == '<')
      data += "\\u003c";
    else
      data += c;
  }
  return filled("page.html", {{"title", escaped(title)}, {"data", data}});
}

std::string still_page(const std::string& title, const std::string& body) {
  return filled("tuning.html", {{"title", escaped(title)}, {"body", body}});
}

}  // namespace nestor::report
