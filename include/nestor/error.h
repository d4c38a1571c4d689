// One kind of diagnostic for everything that can go wrong, one renderer, and three classes that say whose
// fault it is: the input's or the request's (UserError), a schedule step's (ScheduleError), or ours
// (InternalError).
#pragma once

#include <exception>
#include <sstream>
#include <string>
#include <vector>

namespace nestor {

// A place in a text. `text` is the whole line, so that the caret can be drawn without the file at hand.
struct SourceLoc {
  std::string file;
  int line = 0;    // from 1; 0 where there is no place
  int column = 0;  // from 1
  int length = 1;  // characters to underline
  std::string text;
};

struct Diagnostic {
  std::string message;             // what is wrong, one sentence
  SourceLoc loc;                   // where
  std::vector<std::string> notes;  // why: each may hold several lines, such as underlined IR
  std::string hint;                // what would work, as text to paste where possible
};

// "file:line:column: error: message", the line, a caret, then "note: ..." and "hint: ..." lines.
std::string render(const Diagnostic& diagnostic);

class Error : public std::exception {
 public:
  explicit Error(Diagnostic d) : diagnostic_(std::move(d)), rendered_(render(diagnostic_)) {}
  explicit Error(std::string message) : Error(Diagnostic{std::move(message), {}, {}, {}}) {}
  const Diagnostic& diagnostic() const { return diagnostic_; }
  const char* what() const noexcept override { return rendered_.c_str(); }

 private:
  Diagnostic diagnostic_;
  std::string rendered_;
};

class UserError : public Error {  // exit code 1
  using Error::Error;
};
class ScheduleError : public UserError {  // exit code 1
  using UserError::UserError;
};
class InternalError : public Error {  // exit code 70
  using Error::Error;
};

namespace detail {
// Collects the message of a failed NESTOR_CHECK and throws at the end of the full expression.
class CheckFailure {
 public:
  CheckFailure(const char* condition, const char* file, int line);
  [[noreturn]] ~CheckFailure() noexcept(false);
  std::ostringstream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};
// Gives the streamed branch of NESTOR_CHECK the type void; `&` binds weaker than `<<`.
struct Voidify {
  void operator&(std::ostream&) const {}
};
}  // namespace detail

}  // namespace nestor

// An invariant of ours: `NESTOR_CHECK(x > 0) << "x is " << x;` throws InternalError.
// The message is built only on failure.
#define NESTOR_CHECK(cond)      \
  (cond) ? static_cast<void>(0) \
         : ::nestor::detail::Voidify() & ::nestor::detail::CheckFailure(#cond, __FILE__, __LINE__).stream()
