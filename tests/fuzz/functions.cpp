// From the short texts of functions to IR, by way of the text form.
#include "tests/fuzz/functions.h"

#include <algorithm>
#include <cctype>

#include "nestor/error.h"
#include "nestor/parse.h"
#include "tests/fuzz/function_texts.h"

namespace nestor {

const std::vector<FunctionText>& function_texts() {
  static const std::vector<FunctionText> all = [] {
    std::vector<FunctionText> out;
    for (const auto& family : {product_texts(), reduction_texts(), elementwise_texts(), dependence_texts()})
      out.insert(out.end(), family.begin(), family.end());
    return out;
  }();
  return all;
}

namespace {

std::vector<std::string> split(const std::string& s, char at) {
  std::vector<std::string> out{""};
  for (const char c : s)
    if (c == at)
      out.emplace_back();
    else
      out.back() += c;
  for (std::string& part : out) {
    while (!part.empty() && part.front() == ' ') part.erase(0, 1);
    while (!part.empty() && part.back() == ' ') part.pop_back();
  }
  return out;
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c));
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

// What the letters of the texts stand for.
struct Letters {
  Sizes sizes;
  std::string open;
};

std::string dim_name(char letter) {
  return std::string("s") + letter;
}

int64_t size_of(const std::string& text, const Sizes& sizes) {  // "H", "2*$H+1", "3"
  int64_t total = 0;
  for (const std::string& term : split(text, '+')) {
    int64_t product = 1;
    for (const std::string& f : split(term, '*'))
      product *= is_digit(f[0]) ? std::stoll(f) : sizes.at(f.back());
    total += product;
  }
  return total;
}

// The same as text, with the names of dimensions for letters that are open.
std::string extent_of(const std::string& text, const Letters& l) {
  std::string out;
  for (const char c : text)
    if (l.open.find(c) != std::string::npos)
      out += dim_name(c);
    else if (c != '$')
      out += l.sizes.count(c) ? std::to_string(l.sizes.at(c)) : std::string(1, c);
  return text.find_first_of(l.open) == std::string::npos ? std::to_string(size_of(text, l.sizes)) : out;
}

// Replaces each sum of products that has a $ in it, such as $A, 2*$A+1, by its value; `vx*2+$A` keeps its
// terms.
std::string fill(const std::string& s, const Letters& letters) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    if (s[i] != '$' && !is_word(s[i])) {
      out += s[i++];
      continue;
    }
    size_t end = i;
    if (is_digit(s[i]) || s[i] == '$')
      while (end < s.size() && (is_digit(s[end]) || s[end] == '$' || s[end] == '*' || s[end] == '+' ||
                                (end > i && s[end - 1] == '$')))
        ++end;
    while (end > i && (s[end - 1] == '*' || s[end - 1] == '+')) --end;
    std::string token = s.substr(i, end - i);
    const bool tied = !out.empty() && std::string("*/%-").find(out.back()) != std::string::npos;
    if (token.find('$') == std::string::npos || (end < s.size() && is_word(s[end]))) {
      NESTOR_CHECK(token.find('$') == std::string::npos) << s;
      while (i < s.size() && is_word(s[i])) out += s[i++];
      continue;
    }
    if (tied) {  // only the first factor: the rest isn't this operand's
      end = i + (s[i] == '$' ? 2 : 1);
      while (s[i] != '$' && end < s.size() && is_digit(s[end])) ++end;
      token = s.substr(i, end - i);
    }
    out += extent_of(token, letters);
    i = end;
  }
  return out;
}

std::string block_text(const std::string& line, const Letters& letters) {
  const size_t colon = line.find(':'), second = line.find(" : ");
  NESTOR_CHECK(second != std::string::npos) << line;
  const std::string name = line.substr(0, colon);
  std::string loops, iters, axes = line.substr(colon + 1, second - colon - 1), where;
  if (const size_t at = axes.find("where"); at != std::string::npos) {
    where = axes.substr(at);
    axes.resize(at);
  }
  for (const std::string& axis : split(axes, ',')) {
    const std::vector<std::string> words = split(axis, ' ');
    const size_t bound = words[2].find('=');
    const std::string extent = extent_of(words[2].substr(0, bound), letters);
    if (bound == std::string::npos) loops += (loops.empty() ? "" : ", ") + words[1] + " in " + extent;
    if (words[0] != "L")
      iters += (iters.empty() ? "v" : ", v") + words[1] + ": " + words[0] + " " + extent + " = " +
               (bound == std::string::npos ? words[1] : fill(words[2].substr(bound + 1), letters));
  }
  std::string body = fill(line.substr(second + 3), letters);
  if (const size_t close = body.find("} "); close != std::string::npos) body.insert(close + 1, "\n");
  return "  for " + loops + " {\n    block " + name + "(" + iters + ") " + where + " {\n      " + body +
         "\n    }\n  }\n";
}

}  // namespace

int first_dependence_function() {
  return fuzz_function_count() - static_cast<int>(dependence_texts().size());
}

int fuzz_function_count() {
  return static_cast<int>(function_texts().size());
}

Sizes draw_sizes(bool ragged, std::mt19937_64& rng) {
  const std::vector<int64_t> pool =
      ragged ? std::vector<int64_t>{1, 3, 5, 7, 9, 11, 13} : std::vector<int64_t>{2, 4, 6, 8};
  Sizes sizes;
  for (const char c : {'C', 'H', 'K', 'M', 'N', 'O'}) sizes[c] = pool[rng() % pool.size()];
  // Convolutions have seven loops: keep them small.
  for (const char c : {'C', 'H', 'O'}) sizes[c] = std::min<int64_t>(sizes[c], ragged ? 5 : 4);
  return sizes;
}

std::string draw_open(int index, std::mt19937_64& rng) {
  const std::string text = function_texts().at(static_cast<size_t>(index)).text;
  std::string all, some;
  for (const char c : {'C', 'H', 'K', 'M', 'N', 'O'})
    if (text.find(std::string("$") + c) != std::string::npos) all += c;
  for (const char c : all)
    if (rng() % 3) some += c;
  return some.empty() ? all : some;
}

OpenSizes draw_open_sizes(const std::string& open, const Sizes& given, std::mt19937_64& rng) {
  OpenSizes out(2);
  for (const char c : open) {
    out[0].push_back(1);
    out[1].push_back(given.at(c));
  }
  while (out.size() < 5) {
    const Sizes odd = draw_sizes(true, rng), even = draw_sizes(false, rng);
    out.emplace_back();
    for (const char c : open) out.back().push_back(rng() % 5 == 0 ? 17 : (rng() % 2 ? odd : even).at(c));
    if (std::string("CHO").find(open[0]) != std::string::npos)
      for (int64_t& n : out.back()) n = std::min<int64_t>(n, 6);
  }
  out[2][rng() % open.size()] = 0;
  return out;
}

FuzzFunction make_function(int index, const Sizes& sizes, const std::string& open) {
  const Letters letters{sizes, open};
  std::string dims;
  for (const char c : open) dims += (dims.empty() ? "[" : ", ") + dim_name(c);
  if (!open.empty()) dims += "]";
  const FunctionText& t = function_texts().at(static_cast<size_t>(index));
  std::string text;
  for (const std::string& line : split(t.text, '\n')) {
    if (line.empty()) continue;
    if (text.empty())
      text = "func " + std::string(t.name) + dims + "(" + fill(line, letters) + ") {\n";
    else if (line.starts_with("alloc "))
      for (const std::string& temp : split(line.substr(6), ';'))
        text += "  alloc " + fill(temp, letters) + "\n";
    else if (line.starts_with("raw "))
      text += fill(line.substr(4), letters) + "\n";
    else
      text += block_text(line, letters);
  }
  return {index, t.name, t.tolerance, sizes, open, parse_func(text + "}\n", t.name)};
}

}  // namespace nestor
