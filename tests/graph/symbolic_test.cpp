// Graphs whose sizes are known only at run time: what shapes come to, and that passes keep values at all
// sizes.
#include "catch.h"
#include "nestor/nest_file.h"
#include "nestor/ops.h"
#include "nestor/print.h"
#include "src/graph/edit.h"
#include "tests/graph/files.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/run.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string ints(const std::string& name, const std::string& values, int count) {
  return "\"" + name + R"(": {"dtype": "i64", "shape": [)" + std::to_string(count) + R"(], "data": [)" +
         values + "]}";
}

// The type of y, which the nodes make of x.
std::string type_of(const std::string& shape, const std::string& nodes, const std::string& weights = "") {
  BuildOptions options;
  options.symbolic = true;
  const Graph g =
      graph_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": )" + shape +
                   R"(}], "outputs": ["y"], "nodes": [)" + nodes + R"(], "weights": {)" + weights + "}}",
               options);
  return to_string(value_of(g, g.outputs[0]).type);
}

// The graph with an extent of its inputs changed, its nodes' types inferred anew; nothing where it isn't one.
std::optional<Graph> changed(const Graph& g, int64_t extent, const Dim& to) {
  Graph out = g;
  out.symbols = to.symbols();
  for (const ValueId v : out.inputs)
    for (Dim& d : value_of(out, v).type.shape)
      if (d == extent) d = to;
  try {
    for (const Node& n : out.nodes) {
      const std::vector<TensorType> types = find_op(n.domain, n.op, n.opset)->infer(OpContext(out, n));
      for (size_t i = 0; i < n.outputs.size(); ++i)
        if (n.outputs[i] >= 0) value_of(out, n.outputs[i]).type = types.at(i);
    }
  } catch (const UserError&) {
    return std::nullopt;
  }
  return out;
}

// With every size a number.
Graph fixed(Graph g, const VarMap& values) {
  for (Value& v : g.values)
    for (Dim& d : v.type.shape) d = *as_int(simplify(substitute(d.expr(), values)));
  g.symbols = nullptr;
  return g;
}
Partition fixed(Partition p, const VarMap& values) {
  std::vector<PrimFunc> funcs;
  for (KernelCall& call : p.calls) {
    const PrimFunc& f = p.funcs[static_cast<size_t>(call.func)];
    VarMap dims;
    for (size_t d = 0; d < f.dims.size(); ++d) dims[f.dims[d]] = simplify(substitute(call.sizes[d], values));
    funcs.push_back(with_dims(f, dims));
    call.func = static_cast<int>(funcs.size()) - 1;
  }
  p.funcs = std::move(funcs);
  return p;
}

}  // namespace

TEST_CASE("Shapes are expressions over the sizes that a model leaves open") {
  const std::string image = R"(["N", 3, "H", "W"])";
  CHECK(type_of(image, R"({"op": "MaxPool", "inputs": ["x"], "outputs": ["y"],
                           "attrs": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}})") ==
        "f32[N,3,(H + 1) / 2,(W + 1) / 2]");
  CHECK(type_of(image, R"({"op": "Flatten", "inputs": ["x"], "outputs": ["y"]})") == "f32[N,H * W * 3]");
  CHECK(type_of(image,
                R"({"op": "DepthToSpace", "inputs": ["x"], "outputs": ["y"], "attrs": {"blocksize": 1}})") ==
        "f32[N,3,H,W]");
}

TEST_CASE("A size that goes through narrow types and floats stays a whole number") {
  const std::string half = R"({"op": "Shape", "inputs": ["x"], "outputs": ["s"]},
    {"op": "Slice", "inputs": ["s", "two", "four"], "outputs": ["hw"]},
    {"op": "Cast", "inputs": ["hw"], "outputs": ["f"], "attrs": {"to": 1}},
    {"op": "Mul", "inputs": ["f", "scale"], "outputs": ["m"]}, {"op": "Floor", "inputs": ["m"], "outputs": ["l"]},
    {"op": "Cast", "inputs": ["l"], "outputs": ["n"], "attrs": {"to": 6}},
    {"op": "Cast", "inputs": ["n"], "outputs": ["i"], "attrs": {"to": 7}},
    {"op": "ConstantOfShape", "inputs": ["i"], "outputs": ["y"]})";
  const std::string weights = ints("two", "2", 1) + "," + ints("four", "4", 1) + R"(,
    "scale": {"dtype": "f32", "shape": [2], "data": [2, 1.5]})";
  CHECK(type_of(R"([1, 3, "H", "W"])", half, weights) == "f32[H * 2,W * 3 / 2]");
}

TEST_CASE("A Reshape divides what dimensions have in common") {
  CHECK(type_of(R"(["N", "T", 4, 16])", R"({"op": "Reshape", "inputs": ["x", "to"], "outputs": ["y"]})",
                ints("to", "0, 0, -1", 3)) == "f32[N,T,64]");
}

TEST_CASE("What needs a size to be so requires it, and what is usual meets it") {
  // A window of 200 needs 200 places, which fewer are usual; then one window fits, so that its axis goes.
  std::string ones = "1";
  for (int i = 1; i < 200; ++i) ones += ",1";
  CHECK(type_of(R"(["batch", 1, "seq"])",
                R"({"op": "Conv", "inputs": ["x", "w"], "outputs": ["c"], "attrs": {"strides": [100]}},
                   {"op": "Squeeze", "inputs": ["c", "two"], "outputs": ["y"]})",
                ints("two", "2", 1) + R"(, "w": {"dtype": "f32", "shape": [1, 1, 200], "data": [)" + ones +
                    "]}") == "f32[batch,1]");
}

TEST_CASE("A size that must be large enough is usually, whatever was guessed") {
  // Of one sample, as first dimensions usually are, nothing of this could be.
  CHECK(type_of(R"(["n"])", R"({"op": "TopK", "inputs": ["x", "four"], "outputs": ["y", "at"]})",
                ints("four", "4", 1)) == "f32[4]");
  CHECK(type_of(R"(["n", 3])", R"({"op": "Gather", "inputs": ["x", "some"], "outputs": ["y"]})",
                ints("some", "5, -7", 2)) == "f32[2,3]");
  CHECK(
      type_of(
          R"(["n"])",
          R"({"op": "Shape", "inputs": ["x"], "outputs": ["s"]}, {"op": "Sub", "inputs": ["s", "three"], "outputs": ["r"]},
                   {"op": "Concat", "inputs": ["three", "r"], "outputs": ["sizes"], "attrs": {"axis": 0}},
                   {"op": "Split", "inputs": ["x", "sizes"], "outputs": ["a", "y"]})",
          ints("three", "3", 1)) == "f32[n - 3]");
  CHECK(type_of(R"(["n"])", R"({"op": "Split", "inputs": ["x"], "outputs": ["a", "y"]})") == "f32[n / 2]");
  CHECK(type_of(R"(["n"])",
                R"({"op": "Pad", "inputs": ["x", "two"], "outputs": ["y"], "attrs": {"mode": "reflect"}})",
                ints("two", "2, 2", 2)) == "f32[n + 4]");
}

TEST_CASE("Usual sizes that are equal stay so where one must be another") {
  const auto symbols = std::make_shared<Symbols>();
  const Dim a = symbols->add("a", 0, 100, 1), b = symbols->add("b", 0, 200, 128),
            c = symbols->add("c", 0, 50, 7);
  CHECK(must_equal(b, a * 2));
  CHECK(must_equal(c, a + 1));
  CHECK(must_equal(a * 4, 64));
  CHECK(symbols->hint() == "--dim a=16 --dim b=32 --dim c=17");
  const Dim d = symbols->add("d", 0, 10, 1);
  CHECK(must_equal(d, b - 30));
  CHECK(symbols->hint() == "--dim a=16 --dim b=32 --dim c=17 --dim d=2");
}

TEST_CASE("The lesser or larger of sizes that must be a symbol is that symbol, and usually not 0") {
  const auto symbols = std::make_shared<Symbols>();
  const Dim seq = symbols->add("seq", 0, 9999, 128), total = symbols->add("total", 0, 9999, 128),
            past = symbols->add("past", 0, 9999, 128);
  const Dim left = max(total - min(past, total), 0);
  CHECK(must_equal(seq, left));
  CHECK(symbols->hint() == "--dim seq=128 --dim total=256 --dim past=128");
  CHECK(to_string(max(total - min(past, total), 0)) == "seq");
  CHECK(to_string(past + left) == "past + seq");
  CHECK(must_equal(total, past + 7));
  CHECK(left == seq);
}

TEST_CASE("What must know a size says which, and what would work") {
  BuildOptions options;
  options.symbolic = true;
  const std::string deformed =
      R"({"opset": 19, "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 2, "T", 5]},
                                  {"name": "w", "dtype": "f32", "shape": [3, 2, 1, 1]},
                                  {"name": "o", "dtype": "f32", "shape": ["N", 2, "T", 5]}], "outputs": ["y"],
     "nodes": [{"op": "DeformConv", "inputs": ["x", "w", "o"], "outputs": ["y"]}]})";
  options.dims["N"] = 1;
  CHECK_THAT(error_of([&] { graph_of(deformed, options); }), ContainsSubstring("DeformConv") &&
                                                                 ContainsSubstring("the size T is known") &&
                                                                 ContainsSubstring("--dim T="));
  options.dims["T"] = 5;
  CHECK(to_string(value_of(graph_of(deformed, options), graph_of(deformed, options).outputs[0]).type) ==
        "f32[1,3,5,5]");
}

TEST_CASE("Passes and functions of random graphs hold at all sizes") {
  constexpr double kRounding = 2e-4, kOfHalves = 2e-2;
  int free = 0;
  std::set<std::string> left_out;
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    const bool halves = seed % 4 == 0;
    const Graph g = RandomGraph(seed).make(10, halves);
    std::set<int64_t> extents;
    for (const ValueId v : g.inputs)
      for (const int64_t extent : value_of(g, v).type.shape.numbers()) extents.insert(extent);
    for (const int64_t extent : extents) {
      if (extent < 2) continue;
      const auto symbols = std::make_shared<Symbols>();
      auto symbolic = changed(g, extent, symbols->add("N", 1, 64, extent));
      if (!symbolic) continue;
      OptimizeOptions options;
      options.note = [&](const std::string& note) { left_out.insert(note); };
      INFO("seed " << seed << ", extent " << extent << " of\n" << print(g));
      optimize(*symbolic, evaluate_by_interpreter, options);
      const Partition p = partition(*symbolic);
      for (const int64_t size : {1, 3, 7}) {
        const VarMap values = {{symbols->all()[0].var, Expr(size)}};
        const bool runs = std::all_of(symbols->requirements().begin(), symbols->requirements().end(),
                                      [&](const Symbols::Requirement& r) {
                                        return *as_int(simplify(substitute(r.condition, values))) != 0;
                                      });
        const auto wanted = changed(g, extent, size);
        if (!runs) continue;
        INFO("at " << size << ", " << print(*symbolic));
        REQUIRE(wanted);
        ++free;
        const Values inputs = random_inputs(*wanted, seed);
        check_close(run(fixed(*symbolic, values), fixed(p, values), inputs), run_unfused(*wanted, inputs),
                    halves ? kOfHalves : kRounding);
      }
    }
  }
  CHECK(free > 100);
  for (const std::string& note : left_out) FAIL_CHECK(note);
}
