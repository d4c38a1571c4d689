// How large a number may be that has sizes in it which runs find.
#include "src/driver/most_of.h"

#include "catch.h"
#include "nestor/print.h"
#include "nestor/walk.h"

using namespace nestor;

TEST_CASE("the most that a number may be is over the sizes of inputs alone, and never too little") {
  const auto symbols = std::make_shared<Symbols>();
  const Dim n = symbols->add("n", 0, 40, 8), s = symbols->add_found("s", n * 3),
            t = symbols->add_found("t", 7);
  const Dim numbers[] = {s,         s * 4 + 1,   n - s, max(Dim(10) - s, Dim(0)), min(s, Dim(5)),
                         s * t,     (s + 6) / 4, s % 6, (s - 5) * (t - 3),        n / (t + 1),
                         s - t + n, n * 2};
  for (const Dim& d : numbers) {
    const Expr most = most_of(d.expr(), *symbols);
    INFO(to_string(d) << " is at most " << print(most));
    CHECK_FALSE(symbols->uses_found(most));
    bool reached = false;
    for (int64_t of_n = 0; of_n <= 6; ++of_n)
      for (int64_t of_s = 0; of_s <= 3 * of_n; ++of_s)
        for (int64_t of_t = 0; of_t <= 7; ++of_t) {
          VarMap values;
          const int64_t given[] = {of_n, of_s, of_t};
          for (size_t k = 0; k < 3; ++k) values[symbols->all()[k].var] = Expr(given[k]);
          const int64_t is = as_int(simplify(substitute(d.expr(), values))).value(),
                        may = as_int(simplify(substitute(most, values))).value();
          REQUIRE(is <= may);
          reached = reached || is == may;
        }
    CHECK(reached);
  }
}
