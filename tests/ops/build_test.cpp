// The loop nests operators make: names of loops, blocks and parameters, which schedules refer to.
#include "catch.h"
#include "nestor/walk.h"
#include "tests/ops/op_case.h"

using namespace nestor;

namespace {

// "T: n o y x | c r s" for each block, in order.
std::vector<std::string> nests(const PrimFunc& f) {
  std::vector<std::string> out;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* b = s.as<Block>();
    if (!b) return;
    std::string line = b->id->name + ":";
    bool reduced = false;
    for (const IterVar& i : b->iters) {
      if (!reduced && i.kind == IterKind::reduce) line += " |", reduced = true;
      line += " " + i.binding.as<VarRef>()->var->name;
    }
    out.push_back(line);
  });
  return out;
}

std::vector<std::string> params(const PrimFunc& f) {
  std::vector<std::string> out;
  for (const Param& p : f.params) out.push_back(std::string(name_of(p.role)) + " " + p.decl.buffer->name);
  return out;
}

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("MatMul is one block") {
  const PrimFunc f = OpCase("MatMul").input({128, 256}).constant(Tensor(DType::f32, {256, 64})).build();
  CHECK(f.name == "matmul");
  CHECK(params(f) == Strings{"in A", "const B", "out Y"});
  CHECK(nests(f) == Strings{"Y: i j | k"});
  CHECK(nests(OpCase("MatMul").input({2, 1, 3, 4}).input({5, 4, 6}).build()) == Strings{"Y: b0 b1 i j | k"});
  CHECK(nests(OpCase("MatMul").input({4}).input({4}).build()) == Strings{"Y: | k"});
}

TEST_CASE("Conv pads, multiplies, adds its bias") {
  OpCase c("Conv");
  c.input({1, 8, 14, 14}).constant(Tensor(DType::f32, {16, 8, 3, 3})).constant(Tensor(DType::f32, {16}));
  CHECK(nests(c.build()) == Strings{"T: n o y x | c r s", "Y: n o y x"});
  c.attr("pads", std::vector<int64_t>{1, 1, 1, 1});
  const PrimFunc f = c.build();
  CHECK(params(f) == Strings{"in X", "const W", "const B", "out Y"});
  CHECK(nests(f) == Strings{"P: n c h w", "T: n o y x | c r s", "Y: n o y x"});
  CHECK(f.allocs.size() == 2);
  CHECK(nests(OpCase("Conv").input({1, 8, 14}).input({16, 8, 3}).build()) == Strings{"Y: n o x | c s"});
}

TEST_CASE("ConvTranspose is a convolution for each class of residues") {
  const auto nests_of = [](Ints x, Ints w, Ints strides, Ints pads) {
    OpCase c("ConvTranspose");
    c.input(std::move(x)).constant(Tensor(DType::f32, std::move(w)));
    return nests(c.attr("strides", std::move(strides)).attr("pads", std::move(pads)).build());
  };
  CHECK(nests_of({1, 8, 5}, {8, 32, 2}, {2}, {0, 0}) == Strings{"T: n o px x | s c", "Y: n o px x"});
  CHECK(nests_of({1, 8, 5}, {8, 32, 4}, {2}, {1, 1}) ==
        Strings{"P: n c w", "T: n o x | s c", "Y: n o x", "P1: n c w", "T1: n o x | s c", "Y1: n o x"});
  CHECK(nests_of({1, 8, 5}, {8, 32, 8}, {4}, {2, 2}) == Strings{"P: n c w", "T: n o px x | s c",
                                                                "Y: n o px x", "P1: n c w",
                                                                "T1: n o px x | s c", "Y1: n o px x"});
  CHECK(nests_of({1, 8, 5}, {8, 32, 1}, {3}, {0, 0}) ==
        Strings{"T: n o x | s c", "Y: n o x", "Y1: n o px x"});  // no taps, no sums
  CHECK(nests_of({1, 8, 5, 5}, {8, 32, 2, 2}, {2, 2}, {0, 0, 0, 0}) ==
        Strings{"T: n o py px y x | r s c", "Y: n o py px y x"});
  // Few filters and their residues are one iterator.
  CHECK(nests_of({1, 8, 5, 5}, {8, 4, 2, 2}, {2, 2}, {0, 0, 0, 0}) ==
        Strings{"T: n o y x | r s c", "Y: n o y x"});
}

TEST_CASE("A stride leaves padding unread that nothing touches") {
  // 4 wide, kernel 3, stride 2, pads 0 and 1: the windows at 0 and 2 need 5 elements.
  OpCase c("Conv");
  c.input({1, 1, 4}).input({1, 1, 3}).attr("strides", std::vector<int64_t>{2});
  c.attr("pads", std::vector<int64_t>{0, 1});
  const PrimFunc f = c.build();
  REQUIRE(f.allocs.size() == 1);
  CHECK(as_int(f.allocs[0].shape[2]) == 5);
}

TEST_CASE("One value used twice is one parameter") {
  Graph g;
  g.values.push_back({"x", {DType::f32, {4}}, {}, -1});
  g.values.push_back({"y", {DType::f32, {4}}, {}, 0});
  Node n{"Mul", "square", 14, {0, 0}, {1}, {}, ""};
  std::vector<ValueId> args;
  CHECK(params(build_function(g, n, &args)) == Strings{"in A", "out Y"});
  CHECK(args == std::vector<ValueId>{0, 1});
}

TEST_CASE("Constants of one element stand in the code") {
  Tensor two(DType::f32, {});
  two.set(0, 2);
  const PrimFunc f = OpCase("Mul").input({3, 4}).constant(two).build();
  CHECK(params(f) == Strings{"in A", "out Y"});
  CHECK(nests(f) == Strings{"Y: i j"});
}

TEST_CASE("The table of operators") {
  REQUIRE(find_op("", "Conv", 11));
  CHECK(find_op("ai.onnx", "Conv", 11) == find_op("", "Conv", 11));
  CHECK(find_op("", "Gelu", 13) == nullptr);  // came with opset 20
  CHECK(find_op("", "Frobnicate", 13) == nullptr);
  CHECK(nearest_op("conv2d") == "Conv");
  CHECK(nearest_op("Matmull") == "MatMul");
  CHECK(nearest_op("Frobnicate") == "");
  CHECK_THROWS_AS(register_op(*find_op("", "Conv", 11)), UserError);
}

TEST_CASE("Errors name the node and what is wrong") {
  using Catch::Matchers::ContainsSubstring;
  const auto conv = [](std::vector<int64_t> x, std::vector<int64_t> w) {
    return OpCase("Conv").input(x).input(w);
  };
  using Ints = std::vector<int64_t>;
  CHECK_THAT(conv({1, 8, 5, 5}, {4, 7, 3, 3}).error(),
             ContainsSubstring("Conv node `node`") && ContainsSubstring("second dimension must be 8"));
  CHECK_THAT(conv({1, 8, 5, 5}, {4, 8, 3}).error(), ContainsSubstring("must have 4 dimensions"));
  CHECK_THAT(conv({1, 8, 2, 2}, {4, 8, 3, 3}).error(), ContainsSubstring("doesn't fit"));
  CHECK_THAT(conv({1, 8, 5, 5}, {4, 8, 0, 3}).error(), ContainsSubstring("size of 0"));
  CHECK_THAT(conv({1, 8, 5, 5}, {4, 8, 3, 3}).attr("strides", Ints{0, 1}).error(),
             ContainsSubstring("`strides`"));
  CHECK_THAT(conv({1, 8, 5, 5}, {4, 8, 3, 3}).attr("pads", Ints{-1, 0, 0, 0}).error(),
             ContainsSubstring("`pads`"));
  CHECK_THAT(conv({1, 8, 5, 5}, {4, 8, 3, 3}).attr("group", Ints{1}).error(),
             ContainsSubstring("`group` is a list of integers, it must be an integer"));
  CHECK_THAT(conv({1, 8, 5, 5}, {4, 8, 3, 3}).attr("group", int64_t{3}).error(),
             ContainsSubstring("divides not"));
  CHECK_THAT(OpCase("MatMul").input({2, 3}).input({4, 5}).error(),
             ContainsSubstring("inner dimensions differ"));
  CHECK_THAT(OpCase("Add").input({2, 3}).input({4}).error(), ContainsSubstring("don't broadcast"));
  CHECK_THAT(OpCase("Add").input({2}).input(DType::i64, {2}).error(), ContainsSubstring("must be the same"));
  CHECK_THAT(OpCase("Relu").input(DType::f16, {2}).error(),
             ContainsSubstring("f16") && ContainsSubstring("Cast it to f32"));
  CHECK_THAT(OpCase("Add", 6).input({2, 3}).input({3}).error(), ContainsSubstring("broadcast = 1"));
}
