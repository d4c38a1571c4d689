#include "src/report/page.h"

#include "nestor/embedded.h"
#include "nestor/error.h"

namespace nestor::report {

namespace {

std::string_view page_file(std::string_view name) {
  for (const EmbeddedFile& f : page_files())
    if (f.name == name) return f.text;
  throw InternalError("the report's page has no file " + std::string(name));
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
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

}  // namespace

std::string page(const std::string& title, const std::string& json) {
  std::string out;
  std::string_view rest = page_file("page.html");
  while (true) {
    const Placeholder p = next_placeholder(rest);
    out += p.before;
    if (p.name.empty()) return out;
    if (p.name == "title") {
      out += escaped(title);
    } else if (p.name == "data") {
      for (const char c : json) {  // nothing in a script element may look like its end
        if (c == '<')
          out += "\\u003c";
        else
          out += c;
      }
    } else {
      out += page_file(p.name);
    }
    rest = p.after;
  }
}

}  // namespace nestor::report
