// Words of the text form, with their places. The lexer never fails: what it can't read becomes a `bad` token,
// reported when the parser gets there, so that the first error in the text is the first one reported.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nestor/error.h"

namespace nestor {

struct Token {
  enum Kind { identifier, number, string, symbol, bad, end };
  Kind kind = end;
  std::string_view text;  // of a string: with its quotes; of a bad one: the offending characters
  int line = 1, column = 1;
  bool begins_line = false;
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}
  std::vector<Token> tokens();  // ends with one `end`
  SourceLoc locate(const Token& token) const;

 private:
  Token next();
  void skip_blanks();
  size_t scan(Token& token) const;
  size_t scan_number() const;
  size_t scan_string(Token& token) const;
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  std::string_view text_;
  std::string file_;
  size_t position_ = 0, line_start_ = 0;
  int line_ = 1;
  bool begins_line_ = true;
};

// The contents of a string token.
std::string unquote(std::string_view token);

}  // namespace nestor
