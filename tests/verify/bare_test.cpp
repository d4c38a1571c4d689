// Functions without blocks, as lowering leaves them: what the proof says of random ones is what the
// interpreter meets, since no value decides where they read and write.
#include <random>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/proof.h"

using namespace nestor;

namespace {

class Program {
 public:
  explicit Program(uint64_t seed, bool reordered = false) : reordered_(reordered), rng_(seed) {}

  std::string text() {
    std::string body = nest("S");
    if (below(2)) body += nest("T");
    return "func f(in X: f32[8,8], out Y: f32[4,4]) {\n" + body + "}\n";
  }

 private:
  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  std::string any(const std::vector<std::string>& of) {
    return of[static_cast<size_t>(below(static_cast<int>(of.size())))];
  }

  // Two loops around a recurrence, or around an element that is theirs; reordered, the other one is outside.
  std::string nest(const std::string& own) {
    const bool rows = below(2) != reordered_;
    const std::string outer = rows ? "i" : "j", inner = rows ? "j" : "i";
    std::string out = "  " + loop() + outer + " in 4 {\n";
    if (!below(3)) out += "    Y[" + (outer == "i" ? std::string("i,0") : "0,j") + "] = X[0,0]\n";
    out += "    " + loop() + inner + " in " + any({"4", "4", "3"}) + " {\n";
    if (below(4)) return out + "      " + recurrence() + "    }\n  }\n";
    return out + "      alloc " + own + ": f32[1] {\n        " +
           any({own + "[0] = X[i,j]", "Y[i,j] = " + own + "[0]"}) + "\n        " +
           any({own + "[0] = " + own + "[0] + X[j,i]", own + "[0] += X[i,i]", "Y[i,j] = " + own + "[0]"}) +
           "\n        Y[i,j] = " + own + "[0]\n      }\n    }\n  }\n";
  }
  std::string loop() { return below(8) ? "for " : "parallel "; }
  std::string recurrence() {
    const std::string from = any({"i,j", "max(i-1,0),j", "i,max(j-1,0)", "max(i-1,0),max(j-1,0)",
                                  "min(i+1,3),j", "max(i-1,0),min(j+1,3)", "3-i,j"});
    return "Y[" + any({"i,j", "i,j", "i,j", "3-i,j", "j,i", "i,3-j"}) + "] = if " +
           any({"i == 0", "j == 0", "i == 0 || j == 0", "i == 3", "j == 3 || i == 0"}) +
           " then X[i,j] else Y[" + from + "] + X[j,i]\n";
  }

  const bool reordered_;
  std::mt19937_64 rng_;
};

}  // namespace

TEST_CASE("Random functions without blocks are proved or refused as the interpreter finds them") {
  int proved = 0, wrong = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = Program(seed).text();
    const PrimFunc f = parse_func(text);
    check_well_formed(f);
    const Proof p = verify_function(f, {.seconds = 60});
    std::string found;
    std::vector<Tensor> args = random_args(f, 1);
    InterpretOptions options;
    options.check_races = options.check_written = true;
    try {
      interpret(f, args, options);
    } catch (const UserError& e) {
      found = e.what();
    }
    INFO(seed << "\n" << text << describe(p) << "\n" << found);
    CHECK(p.verdict != Verdict::unproved);
    CHECK(p.ok() == found.empty());
    proved += p.verdict == Verdict::proved;
    wrong += p.verdict == Verdict::wrong;
  }
  CHECK(proved > 30);
  CHECK(wrong > 100);
}

TEST_CASE("Loops around random recurrences are proved to be reordered only where the values stay") {
  int proved = 0, wrong = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = Program(seed).text(), other = Program(seed, true).text();
    const PrimFunc before = parse_func(text), after = parse_func(other);
    if (!verify_function(before, {.seconds = 60}).ok()) continue;
    const Proof p = verify_schedule(before, after, {.seconds = 60});
    std::vector<Tensor> want = random_args(before, 1), got = random_args(after, 1);
    interpret(before, want);
    bool same = verify_function(after, {.seconds = 60}).ok();
    if (same) interpret(after, got);
    for (int64_t i = 0; same && i < want[1].size(); ++i) same = want[1].get(i) == got[1].get(i);
    INFO(seed << "\n" << text << other << describe(p));
    CHECK((p.ok() ? same : p.verdict != Verdict::wrong || !same));
    proved += p.ok();
    wrong += p.verdict == Verdict::wrong;
  }
  INFO(proved << " " << wrong);
  CHECK(proved > 30);
  CHECK(wrong > 10);
}
