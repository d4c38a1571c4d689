// Scan and Loop are their iterations, where these are few and their number is known; else nodes with bodies.
#include "catch.h"
#include "nestor/graph.h"
#include "src/graph/control_flow.h"
#include "src/graph/edit.h"
#include "tests/graph/files.h"
#include "tests/graph/run.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

ModelNode node(const std::string& op, std::vector<std::string> in, std::vector<std::string> out,
               Attrs attrs = {}) {
  return {op, "", "", std::move(in), std::move(out), std::move(attrs), {}};
}
ModelValue named(const std::string& name) {
  return {name, DType::f32, {}, false, false};
}
Tensor number(int64_t value, DType type) {
  Tensor t(type, {});
  t.set_int(0, value);
  return t;
}

// x: f32[4,2] and one node with that body; outputs `s` and `e`.
Model model(ModelNode loop, std::vector<std::string> inputs, std::vector<ModelNode> body,
            std::vector<std::string> outputs) {
  auto g = std::make_shared<ModelGraph>();
  for (const std::string& name : inputs) g->inputs.push_back(named(name));
  g->nodes = std::move(body);
  for (const std::string& name : outputs) g->outputs.push_back(named(name));
  loop.graphs = {{"body", g}};
  Model m;
  m.file = "m.onnx";
  m.opsets[""] = 17;
  m.inputs = {{"x", DType::f32, {{4, ""}, {2, ""}}}};
  m.outputs = {named("s"), named("e")};
  Tensor start(DType::f32, {2});
  m.initializers.emplace_back("start", start);
  m.nodes = {std::move(loop)};
  return m;
}

// A running sum of x's rows: the last one, and all of them.
Model scan(Attrs attrs = {}) {
  attrs["num_scan_inputs"] = int64_t{1};
  return model(node("Scan", {"start", "x"}, {"s", "e"}, std::move(attrs)), {"sum", "row"},
               {node("Add", {"sum", "row"}, {"next"}), node("Identity", {"next"}, {"out"})}, {"next", "out"});
}

// The same of two equal rows, as often as `trips` says.
Model loop(const std::string& trips, const std::string& condition, std::vector<ModelNode> body,
           const std::string& goes_on) {
  Model m = model(node("Loop", {trips, condition, "start"}, {"s", "e"}), {"i", "go", "sum"}, std::move(body),
                  {goes_on, "next", "next"});
  m.initializers.emplace_back("three", number(3, DType::i64));
  m.initializers.emplace_back("true", number(1, DType::boolean));
  m.initializers.emplace_back("first", number(0, DType::i64));
  return m;
}
std::vector<ModelNode> add_row() {
  return {node("Gather", {"x", "first"}, {"row"}), node("Add", {"sum", "row"}, {"next"}),
          node("Identity", {"go"}, {"on"})};
}

std::vector<double> values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.size(); ++i) out.push_back(t.get(i));
  return out;
}

Values run_on_counted(const Graph& g) {
  Tensor x(DType::f32, {4, 2});
  for (int64_t i = 0; i < 8; ++i) x.set(i, static_cast<double>(i));
  return run_unfused(g, {{"x", x}});
}

}  // namespace

TEST_CASE("A Scan is its iterations, in either direction") {
  const Values forward = run_on_counted(build_graph(scan()));
  CHECK(values(forward.at("s")) == std::vector<double>{12, 16});
  CHECK(values(forward.at("e")) == std::vector<double>{0, 1, 2, 4, 6, 9, 12, 16});
  const std::vector<int64_t> back = {1};
  const Values backward = run_on_counted(build_graph(scan({{"scan_input_directions", back}})));
  CHECK(values(backward.at("e")) == std::vector<double>{6, 7, 10, 12, 12, 15, 12, 16});
  const Values stored =
      run_on_counted(build_graph(scan({{"scan_output_directions", back}, {"scan_output_axes", back}})));
  CHECK(stored.at("e").shape() == std::vector<int64_t>{2, 4});
  CHECK(values(stored.at("e")) == std::vector<double>{12, 6, 2, 0, 16, 9, 4, 1});
}

TEST_CASE("A Loop ends by its number of iterations or by a condition that folds") {
  const Values counted = run_on_counted(build_graph(loop("three", "true", add_row(), "on")));
  CHECK(values(counted.at("s")) == std::vector<double>{0, 3});
  CHECK(counted.at("e").shape() == std::vector<int64_t>{3, 2});
  std::vector<ModelNode> until = add_row();
  until.push_back(
      node("Less", {"i", "three"}, {"early"}));  // true in iterations 0 to 2, so that there are four
  const Values ended = run_on_counted(build_graph(loop("", "true", until, "early")));
  CHECK(values(ended.at("s")) == std::vector<double>{0, 4});
}

TEST_CASE("A loop whose end is known at run time only is a node, if nobody reads its elements") {
  Model m = loop("n", "true", add_row(), "on");
  m.inputs.push_back({"n", DType::i64, {}});
  m.outputs.pop_back();
  const Graph g = build_graph(m);
  REQUIRE(g.nodes.size() == 1);
  REQUIRE(is_loop(g.nodes[0]));
  CHECK(loop_form(g.nodes[0]).trips == -1);
  CHECK(g.values[static_cast<size_t>(g.nodes[0].inputs[0])].name == "n");
  const Graph& body = *g.nodes[0].bodies.at(0);
  CHECK(body.inputs.size() == 3);  // the iteration, the sum, and x from around
  CHECK(body.outputs.size() == 2);
}

TEST_CASE("Elements of an unknown number are refused, and which input would tell is said") {
  Model m = loop("n", "true", add_row(), "on");
  m.inputs.push_back({"n", DType::i64, {}});
  for (const bool control_flow : {true, false}) {
    BuildOptions options;
    options.control_flow = control_flow;
    try {
      build_graph(m, options);
      FAIL("built");
    } catch (const NeedsValues& e) {
      CHECK_THAT(e.what(),
                 ContainsSubstring(control_flow ? "its output `e` has an element for each iteration"
                                                : "the number of iterations is computed at run time"));
      CHECK_THAT(e.what(), ContainsSubstring("--const n=VALUE"));
      CHECK(e.inputs == std::vector<std::string>{"n"});
    }
  }
  std::vector<ModelNode> by_sum = add_row();
  by_sum.push_back(node("ReduceSum", {"next"}, {"total"}, {{"keepdims", int64_t{0}}}));
  by_sum.push_back(node("Less", {"total", "total"}, {"early"}));
  CHECK_THAT(error_of([&] { build_graph(loop("three", "true", by_sum, "early")); }),
             ContainsSubstring("its output `e` has an element for each iteration"));
}

TEST_CASE("Many iterations are one node, whose number constants tell") {
  Model m = loop("many", "true", add_row(), "on");
  m.initializers.emplace_back("many", number(1000, DType::i64));
  const Graph counted = build_graph(m);
  REQUIRE(counted.nodes.size() == 1);
  CHECK(loop_form(counted.nodes[0]).trips == 1000);
  CHECK(value_of(counted, counted.outputs[1]).type.shape == std::vector<int64_t>{1000, 2});
  std::vector<ModelNode> until = add_row();
  until.push_back(node("Less", {"i", "many"}, {"early"}));
  Model u = loop("", "true", until, "early");
  u.initializers.emplace_back("many", number(1000, DType::i64));
  const Graph ended = build_graph(u);
  REQUIRE(ended.nodes.size() == 1);
  CHECK(loop_form(ended.nodes[0]).trips == 1001);
  BuildOptions spelled;
  spelled.control_flow = false;
  CHECK(build_graph(m, spelled).nodes.size() > 1000);
}

TEST_CASE("Endless loops and bodies that don't fit are refused") {
  CHECK_THAT(error_of([] { build_graph(loop("", "", add_row(), "on")); }),
             ContainsSubstring("it never ends"));
  BuildOptions spelled;
  spelled.control_flow = false;
  CHECK_THAT(error_of([&] { build_graph(loop("", "", add_row(), "on"), spelled); }),
             ContainsSubstring("are too many"));
  Model short_body = scan();
  auto body = std::make_shared<ModelGraph>(*short_body.nodes[0].graphs.at("body"));
  body->inputs.pop_back();
  short_body.nodes[0].graphs["body"] = body;
  CHECK_THAT(error_of([&] { build_graph(short_body); }),
             ContainsSubstring("its body doesn't fit its inputs and outputs"));
  Model without = scan();
  without.nodes[0].graphs.clear();
  CHECK_THAT(error_of([&] { build_graph(without); }),
             ContainsSubstring("its body doesn't fit its inputs and outputs"));
}
