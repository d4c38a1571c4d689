// Names in C for models and tensors, which may be called anything.

#include <cctype>
#include <iterator>
#include <set>
#include <sstream>

#include "nestor/artifact.h"

namespace nestor {

namespace {

std::set<std::string> words_of(const char* text) {
  std::istringstream in(text);
  return std::set<std::string>(std::istream_iterator<std::string>(in), {});
}

// Words of C and C++, and macros without arguments of the compilers and of headers that most programs
// include.
const std::set<std::string>& reserved_words() {
  static const std::set<std::string> words = words_of(R"(
      BUFSIZ EOF I NULL RAND_MAX alignas alignof and and_eq asm auto bitand bitor bool break case catch char
      char16_t char32_t char8_t class co_await co_return co_yield compl complex concept const const_cast
      consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum errno
      explicit export extern false float for friend goto i386 if imaginary import inline int linux long module
      mutable namespace new noexcept noreturn not not_eq nullptr operator or or_eq private protected public
      register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
      stderr stdin stdout struct switch template this thread_local throw true try typedef typeid typename typeof
      typeof_unqual union unix unsigned using virtual void volatile wchar_t while xor xor_eq)");
  return words;
}

// The types and macros of <stdint.h>, which the header includes, and those of <limits.h> and <float.h>:
// int8_t, INT64_MAX, UINT32_C, CHAR_BIT, FLT_MIN.
bool of_numbers(const std::string& name) {
  if (name.starts_with("int") || name.starts_with("uint")) return name.ends_with("_t");
  static const std::set<std::string> types = words_of(R"(
      CHAR DBL FLT INT LDBL LLONG LONG PTRDIFF SCHAR SHRT SIG_ATOMIC SIZE UCHAR UINT ULLONG ULONG USHRT WCHAR WINT)");
  const size_t end = name.rfind('_');
  if (end == std::string::npos) return false;
  const std::string what = name.substr(end), type = name.substr(0, end);
  const bool known = types.count(type) || type.starts_with("INT") || type.starts_with("UINT");
  return known && (what == "_MAX" || what == "_MIN" || what == "_WIDTH" || what == "_BIT" || what == "_C");
}

// With _create, _run or _destroy behind them, functions of the C library.
bool of_the_library(const std::string& name) {
  static const std::set<std::string> words = words_of(R"(
      argz authdes authnone authunix clnt cnd epoll memfd mtx posix_spawn_file_actions posix_spawnattr sem svc
      thrd timer timerfd tss)");
  return words.count(name) || name.starts_with("pthread");
}

}  // namespace

std::string c_identifier(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool kept = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    out += kept ? c : '_';
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) || out[0] == '_') out = "m" + out;
  return reserved_words().count(out) || of_numbers(out) ? out + "_" : out;
}

std::string artifact_name(const std::string& text) {
  const std::string name = c_identifier(text);
  return of_the_library(name) && !name.ends_with("_") ? name + "_" : name;
}

std::vector<std::string> member_names(const std::vector<PlanTensor>& tensors, const std::string& name) {
  // In C++ a member can't be called as its struct; and the header has macros.
  std::set<std::string> used = {name + "_inputs", name + "_outputs"};
  std::string prefix;
  for (const char c : name) prefix += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const char* macro : {"_ARENA_BYTES", "_WORKSPACE_BYTES", "_WEIGHTS_BYTES", "_THREADS", "_BUSY",
                            "_BAD_INDEX", "_TOO_MANY_TRIPS"})
    used.insert(prefix + macro);
  used.insert("NESTOR_" + name + "_H");
  std::vector<std::string> out;
  for (const PlanTensor& t : tensors) {
    const std::string plain = c_identifier(t.name);
    std::string member = plain;
    for (int n = 2; !used.insert(member).second; ++n) member = plain + "_" + std::to_string(n);
    out.push_back(member);
  }
  return out;
}

}  // namespace nestor
