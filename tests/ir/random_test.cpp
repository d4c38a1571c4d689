// Properties over random functions.
#include "catch.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "random_ir.h"

using namespace nestor;

TEST_CASE("random functions are well-formed, parse back to themselves and print to the same bytes") {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const PrimFunc f = random_func(seed, {.vectors = seed % 2 == 0});
    const std::string text = print(f);
    INFO("seed " << seed << "\n" << text);
    REQUIRE_NOTHROW(check_well_formed(f));
    PrimFunc back;
    REQUIRE_NOTHROW(back = parse_func(text));
    REQUIRE(print(back) == text);
    REQUIRE(structural_equal(back, f));
    REQUIRE(structural_hash(back) == structural_hash(f));
    // Not f's key: a loop name that clashed got a suffix, and loop names count.
    REQUIRE(workload_key(parse_func(text)) == workload_key(back));
    REQUIRE_NOTHROW(check_well_formed(back));
  }
}

TEST_CASE("random functions use every node kind") {
  std::set<size_t> exprs, stmts;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const PrimFunc f = random_func(seed);
    for_each_expr(f.body, [&](const Expr& e) { exprs.insert(e->v.index()); });
    for_each_stmt(f.body, [&](const Stmt& s) { stmts.insert(s->v.index()); });
  }
  CHECK(exprs.size() == std::variant_size_v<decltype(ExprNode::v)>);
  CHECK(stmts.size() == std::variant_size_v<decltype(StmtNode::v)>);
}

TEST_CASE("every span covers the text of its node") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const PrimFunc f = random_func(seed);
    const Printed printed = print_with_spans(f);
    REQUIRE(printed.text == print(f));
    std::vector<std::string> lines(1);
    for (const char c : printed.text)
      if (c == '\n')
        lines.emplace_back();
      else
        lines.back() += c;
    for_each_expr(f.body, [&](const Expr& e) {
      const auto it = printed.spans.find(e.get());
      REQUIRE(it != printed.spans.end());
      const Span s = it->second;
      const std::string covered =
          lines.at(static_cast<size_t>(s.line - 1))
              .substr(static_cast<size_t>(s.column - 1), static_cast<size_t>(s.length));
      REQUIRE(covered.size() == static_cast<size_t>(s.length));
      if (e.as<IntImm>() || e.as<FloatImm>()) REQUIRE(covered == print(e));
      if (const auto* load = e.as<Load>(); load && !load->mask) REQUIRE(covered.back() == ']');
    });
  }
}
