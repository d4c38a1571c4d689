#include <algorithm>
#include <cctype>
#include <vector>

#include "tests/fuzz/inputs/mutate.h"

namespace nestor::fuzz {

namespace {

const char* const kNumbers[] = {"0",
                                "1",
                                "-1",
                                "2",
                                "7",
                                "16",
                                "63",
                                "64",
                                "65",
                                "4096",
                                "2147483647",
                                "2147483648",
                                "9223372036854775807",
                                "-9223372036854775808",
                                "0.5",
                                "1e30",
                                "1e999"};

using Tokens = std::vector<std::string>;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}
size_t length_of_token(std::string_view text) {
  if (text[0] == '"') return std::min(text.find('"', 1), text.size() - 1) + 1;
  if (!is_word(text[0])) return 1;
  const auto end = std::find_if_not(text.begin(), text.end(), is_word);
  return static_cast<size_t>(end - text.begin());
}
Tokens split(std::string_view text, bool lines) {
  Tokens out;
  while (!text.empty()) {
    const size_t n = lines ? std::min(text.find('\n'), text.size() - 1) + 1 : length_of_token(text);
    out.emplace_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return out;
}

}  // namespace

std::string mutate_tokens(std::string_view text, Random& rng) {
  Tokens tokens = split(text, rng() % 4 == 0);
  if (tokens.empty()) return "0";
  const size_t i = rng() % tokens.size(), j = rng() % tokens.size();
  const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(i);
  const auto end = at + static_cast<std::ptrdiff_t>(std::min<size_t>(1 + rng() % 8, tokens.size() - i));
  switch (rng() % 7) {
    case 0:
      tokens[i] = tokens[j];
      break;
    case 1:
      std::swap(tokens[i], tokens[j]);
      break;
    case 2:
      tokens.erase(at);
      break;
    case 3:
      tokens.erase(at, end);
      break;
    case 4: {
      const Tokens again(at, end);
      tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(j), again.begin(), again.end());
      break;
    }
    default: {  // a number, where there is one behind i
      const auto number = std::find_if(at, tokens.end(), [](const std::string& t) {
        return std::isdigit(static_cast<unsigned char>(t[0]));
      });
      (number == tokens.end() ? *at : *number) = kNumbers[rng() % std::size(kNumbers)];
    }
  }
  std::string out;
  for (const std::string& t : tokens) out += t;
  return out;
}

}  // namespace nestor::fuzz
