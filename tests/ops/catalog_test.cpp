// What holds for every operator.
#include "tests/ops/catalog.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "catch.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/ops/attributes.h"

using namespace nestor;

TEST_CASE("The catalog has every registered operator") {
  std::set<std::string> present;
  for (const CatalogEntry& e : catalog()) present.insert(e.node.node().op);
  for (const OpDef* op : all_ops()) {
    INFO(op->name);
    CHECK(present.count(op->name) == (op->spelled_out ? 0 : 1));
  }
}

TEST_CASE("ONNX's attributes are known of every operator, and are those that the catalog uses") {
  constexpr int kNewest = 28;
  for (const OpDef* op : all_ops()) {
    INFO(op->name);
    if (op->domain.empty()) CHECK(ops::attributes_of(op->name, std::min(op->until, kNewest)).has_value());
  }
  for (const CatalogEntry& e : catalog()) {
    const Node& n = e.node.node();
    INFO(e.what);
    if (!n.domain.empty()) continue;
    const auto known = ops::attributes_of(n.op, n.opset);
    REQUIRE(known);
    for (const auto& [name, value] : n.attrs) CHECK(std::count(known->begin(), known->end(), name) == 1);
  }
}

TEST_CASE("Every operator's function prints, and parses back") {
  for (const CatalogEntry& e : catalog()) {
    const PrimFunc f = e.node.build();
    const std::string text = print(f);
    INFO(e.what << "\n" << text);
    const PrimFunc back = parse_func(text);
    CHECK(structural_equal(f, back, true));
    CHECK(print(back) == text);
  }
}

TEST_CASE("Every tensor that an operator writes to is its output or its temporary") {
  for (const CatalogEntry& e : catalog()) {
    const PrimFunc f = e.node.build();
    INFO(e.what);
    for_each_stmt(f.body, [&](const Stmt& s) {
      const auto* store = s.as<Store>();
      if (!store) return;
      const Param* p = find_param(f, store->buffer);
      CHECK((!p || p->role == Role::out));
    });
  }
}

TEST_CASE("Every operator runs within its memory, and in f64 gives the same up to rounding") {
  for (const CatalogEntry& e : catalog()) {
    const PrimFunc f = e.node.build();
    INFO(e.what << "\n" << print(f));
    std::vector<Tensor> args = random_args(f, 3), wide;
    for (const Tensor& t : args) wide.push_back(is_float(t.dtype()) ? t.cast(DType::f64) : t.clone());
    interpret(f, args);
    interpret(to_f64(f), wide);
    for (size_t k = 0; k < args.size(); ++k) {
      if (f.params[k].role != Role::out) continue;
      for (int64_t i = 0; i < args[k].size(); ++i) {
        const double a = args[k].get(i), b = wide[k].get(i);
        INFO("element " << i << ": " << a << " and " << b);
        CHECK((std::isnan(a) == std::isnan(b)));
        const bool half = args[k].dtype() == DType::bf16 || args[k].dtype() == DType::f16;
        const double tolerance = half ? 4e-3 : 1e-5;  // rounded to the type once
        CHECK((std::isnan(a) || a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b))));
      }
    }
  }
}
