// Do other checks notice what a requirement prevents? Random steps that one semantic requirement refuses are
// applied with that requirement switched off, and the result is given to the proof and to the interpreter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nestor {

struct RequirementName {
  std::string primitive;  // empty: every step's
  int number = 0;         // 0: D
  auto operator<=>(const RequirementName&) const = default;
};
std::string text(const RequirementName& r);  // "reorder 3", "every step D"

// Of the steps that the requirement alone kept out.
struct MutationRow {
  int64_t refused = 0;          // by it, when it was on
  int64_t elsewhere = 0;        // with it off, refused by another one
  int64_t made = 0;             // with it off, made
  int64_t wrong = 0;            // the interpreter computes something else, or sees a conflict
  int64_t wrong_by_proof = 0;   // the proof says wrong, the interpreter sees nothing
  int64_t caught_by_proof = 0;  // of `wrong`: the proof says wrong
  int64_t open = 0;             // of `wrong`: the proof says unproved, so that the interpreter decides
  int64_t missed = 0;           // of `wrong`: the proof says proved
  int64_t harmless = 0;         // neither finds anything
  int64_t ill_formed = 0;       // no function at all
  void add(const MutationRow& other);
};

// What should not be: a step that crashed without the requirement, or a wrong proof. Kinds: "crash",
// "missed", "open"; "caught", "same ..." and "ill-formed" if asked for.
struct Miss {
  RequirementName requirement;
  std::string kind, what, function;
  std::vector<std::string> steps;
};

struct MutationOptions {
  uint64_t seed = 20261120;
  double minutes = 10;
  int processes = 2;
  int64_t wanted = 20;            // wrong schedules for each requirement
  std::vector<std::string> only;  // "reorder 3", ...; empty: all
  bool progress = false;
  bool keep_all = false;  // among the misses also what is as it should be
};
struct MutationResult {
  std::map<RequirementName, MutationRow> rows;  // of every semantic requirement asked for
  std::vector<Miss> misses;
  int64_t walks = 0;
  double seconds = 0;
};
MutationResult run_mutations(const MutationOptions& options);
std::string print(const MutationResult& result);
// What speaks against the requirements or the proof, a line each: requirements with fewer wrong schedules
// than wanted, of whose wrong schedules the proof alone sees too few, or proof and interpreter together not
// all, and steps that crashed. Empty: all is well.
std::vector<std::string> complaints(const MutationResult& result, int64_t wanted);

}  // namespace nestor
