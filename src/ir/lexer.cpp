// Cuts a text into tokens by hand: the language is small, and every token must know its place.
#include "src/ir/lexer.h"

#include <algorithm>
#include <array>

namespace nestor {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_word(char c) {
  return is_letter(c) || is_digit(c);
}
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

constexpr std::array<std::string_view, 11> kLongSymbols = {"==", "!=", "<=", ">=", "&&", "||",
                                                           "<<", ">>", "+=", "*=", "->"};
constexpr std::string_view kSymbols = "()[]{},:=+-*/%<>!&|^@.";

}  // namespace

std::vector<Token> Lexer::tokens() {
  std::vector<Token> out;
  do out.push_back(next());
  while (out.back().kind != Token::end);
  if (out.size() > 1) {  // the end's place is that of the last word's end: there something is missing
    const Token& last = out[out.size() - 2];
    out.back().line = last.line;
    out.back().column = last.column + static_cast<int>(last.text.size());
  }
  return out;
}

void Lexer::skip_blanks() {
  for (; position_ < text_.size(); ++position_) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      line_start_ = position_ + 1;
      begins_line_ = true;
    } else if (c == '#') {
      while (position_ + 1 < text_.size() && text_[position_ + 1] != '\n') ++position_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

Token Lexer::next() {
  skip_blanks();
  Token token;
  token.line = line_;
  token.column = static_cast<int>(position_ - line_start_) + 1;
  token.begins_line = begins_line_;
  begins_line_ = false;
  const size_t length = scan(token);
  token.text = text_.substr(position_, length);
  position_ += length;
  return token;
}

// Sets the token's kind; gives its length.
size_t Lexer::scan(Token& token) const {
  if (position_ >= text_.size()) return 0;
  const char c = text_[position_];
  if (is_letter(c)) {
    token.kind = Token::identifier;
    size_t i = position_;
    while (is_word(at(i))) ++i;
    return i - position_;
  }
  if (is_digit(c)) {
    token.kind = Token::number;
    return scan_number();
  }
  if (c == '"') return scan_string(token);
  token.kind = Token::symbol;
  const std::string_view two = text_.substr(position_, 2);
  if (std::find(kLongSymbols.begin(), kLongSymbols.end(), two) != kLongSymbols.end()) return 2;
  if (kSymbols.find(c) != std::string_view::npos) return 1;
  token.kind = Token::bad;
  return 1;
}

// Digits, fraction, exponent and a suffix: 12, 1.5f32, 1e-05f32, 3i8.
size_t Lexer::scan_number() const {
  size_t i = position_;
  while (is_digit(at(i))) ++i;
  if (at(i) == '.' && is_digit(at(i + 1))) {
    ++i;
    while (is_digit(at(i))) ++i;
  }
  if (at(i) == 'e' || at(i) == 'E') {
    const size_t digits = i + (at(i + 1) == '+' || at(i + 1) == '-' ? 2 : 1);
    if (is_digit(at(digits))) i = digits;
  }
  while (is_word(at(i))) ++i;
  return i - position_;
}

size_t Lexer::scan_string(Token& token) const {
  token.kind = Token::bad;  // until its end is found
  size_t i = position_ + 1;
  bool escapes_fine = true;
  for (; i < text_.size() && text_[i] != '"' && text_[i] != '\n'; ++i) {
    if (text_[i] != '\\') continue;
    ++i;
    const bool hex = at(i) == 'x' && hex_value(at(i + 1)) >= 0 && hex_value(at(i + 2)) >= 0;
    escapes_fine = escapes_fine && (hex || at(i) == 'n' || at(i) == '"' || at(i) == '\\');
    if (at(i) == '\n' || at(i) == '\0') break;
  }
  i = std::min(i, text_.size());
  const bool closed = at(i) == '"';
  if (closed && escapes_fine) token.kind = Token::string;
  return i + (closed ? 1 : 0) - position_;
}

SourceLoc Lexer::locate(const Token& token) const {
  size_t start = 0;
  for (int line = 1; line < token.line; ++line) start = text_.find('\n', start) + 1;
  std::string_view line = text_.substr(start);
  line = line.substr(0, line.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return {file_, token.line, token.column, std::max(1, static_cast<int>(token.text.size())),
          std::string(line)};
}

std::string unquote(std::string_view token) {
  std::string out;
  const std::string_view inside = token.substr(1, token.size() - 2);
  for (size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] != '\\') {
      out += inside[i];
      continue;
    }
    const char c = inside[++i];
    if (c == 'x') {
      out += static_cast<char>(hex_value(inside[i + 1]) * 16 + hex_value(inside[i + 2]));
      i += 2;
    } else {
      out += c == 'n' ? '\n' : c;
    }
  }
  return out;
}

}  // namespace nestor
