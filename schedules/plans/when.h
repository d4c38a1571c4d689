// Matches the `when` lines of a template with a function, and binds their names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedules/library/analysis.h"
#include "schedules/words.h"

namespace nestor::plans {

// "k >= 64 % 16": a name, and what its extent, or the target's property, must be.
struct Named {
  struct Test {
    std::string comparison;  // "<" "<=" "=" ">=" ">" "%"
    int64_t number = 0;
  };
  std::string name;
  std::vector<Test> tests;
};

// The names of a clause; `more`: others may follow ("...").
struct NamedList {
  std::vector<Named> names;
  bool more = false;
};

struct BlockPattern {
  std::string name;
  std::optional<NamedList> spatial, reduction, reads;
  std::string writes, type, op;  // empty: any
  std::vector<std::string> constants;
};

struct When {
  std::vector<BlockPattern> blocks;
  std::vector<Named> target;
  bool others = false;  // the function may have more blocks
};
// Adds what one line says; UserError at a place of it.
void read_when(const std::vector<schedules::Word>& words, const SourceLoc& line, When& when);

// By the template's names, the function's.
using Bindings = std::map<std::string, std::string>;
std::optional<Bindings> bind(const When& when, const PrimFunc& f, const Target& target, std::string* why_not);

}  // namespace nestor::plans
