// Loops whose length is an open size: one compiled model gives what the model compiled for each size gives,
// in this process and as an artifact.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/artifact.h"
#include "nestor/driver.h"
#include "src/graph/edit.h"
#include "tests/graph/files.h"

using namespace nestor;

namespace {

using Sizes = std::map<std::string, int64_t>;

ModelNode node(const std::string& op, std::vector<std::string> in, std::vector<std::string> out,
               Attrs attrs = {}) {
  return {op, "", "", std::move(in), std::move(out), std::move(attrs), {}};
}
ModelValue untyped(const std::string& name) {
  return {name, DType::f32, {}, false, false};
}
Tensor number(int64_t value) {
  Tensor t(DType::i64, {});
  t.set_int(0, value);
  return t;
}

// Of a single node, whose outputs are the model's; "seq" and "batch" are open.
Model model_of(ModelNode n, std::vector<ModelValue> inputs,
               std::vector<std::pair<std::string, Tensor>> weights) {
  Model m;
  m.file = "m.onnx";
  m.name = "m";
  m.opsets[""] = 17;
  m.inputs = std::move(inputs);
  for (const std::string& name : n.outputs) m.outputs.push_back(untyped(name));
  m.initializers = std::move(weights);
  m.nodes = {std::move(n)};
  return m;
}

constexpr int64_t kWidth = 5, kHidden = 8;

Model recurrent(const std::string& op, const std::string& direction, bool lengths) {
  const int64_t d = direction == "bidirectional" ? 2 : 1, gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  const auto weights = [&](std::vector<int64_t> shape, uint64_t seed) {
    return Tensor::random(DType::f32, std::move(shape), seed);
  };
  ModelNode n =
      node(op, {"x", "W", "R", "B"}, {"y", "h"}, {{"hidden_size", kHidden}, {"direction", direction}});
  std::vector<ModelValue> inputs = {{"x", DType::f32, {{{}, "seq"}, {{}, "batch"}, {kWidth, ""}}}};
  if (op == "LSTM") n.outputs.push_back("c");
  if (lengths) {
    n.inputs.push_back("lengths");
    inputs.push_back({"lengths", DType::i32, {{{}, "batch"}}});
  }
  return model_of(std::move(n), std::move(inputs),
                  {{"W", weights({d, gates * kHidden, kWidth}, 1)},
                   {"R", weights({d, gates * kHidden, kHidden}, 2)},
                   {"B", weights({d, 2 * gates * kHidden}, 3)}});
}

// Sums of x [batch, seq, 5] along its second dimension, the state; and each of them on its way.
ModelNode with_body(ModelNode n, std::vector<std::string> inputs, std::vector<ModelNode> nodes,
                    std::vector<std::string> outputs) {
  auto body = std::make_shared<ModelGraph>();
  for (const std::string& name : inputs) body->inputs.push_back(untyped(name));
  body->nodes = std::move(nodes);
  for (const std::string& name : outputs) body->outputs.push_back(untyped(name));
  n.graphs = {{"body", body}};
  return n;
}
const std::vector<ModelValue> kSequences = {{"x", DType::f32, {{{}, "batch"}, {{}, "seq"}, {kWidth, ""}}},
                                            {"start", DType::f32, {{{}, "batch"}, {kWidth, ""}}}};

Model scan(int64_t backward) {
  const Attrs attrs = {{"num_scan_inputs", int64_t{1}},
                       {"scan_input_axes", std::vector<int64_t>{1}},
                       {"scan_input_directions", std::vector<int64_t>{backward}},
                       {"scan_output_axes", std::vector<int64_t>{1}}};
  return model_of(
      with_body(node("Scan", {"start", "x"}, {"last", "all"}, attrs), {"sum", "part"},
                {node("Add", {"sum", "part"}, {"next"}), node("Tanh", {"next"}, {"seen"})}, {"next", "seen"}),
      kSequences, {});
}

// x's part i, in each of as many iterations as there are.
Model loop() {
  Tensor on(DType::boolean, {});
  on.set_int(0, 1);
  Model m = model_of(with_body(node("Loop", {"steps", "true", "start"}, {"last", "all"}), {"i", "go", "sum"},
                               {node("Gather", {"x", "i"}, {"part"}, {{"axis", int64_t{1}}}),
                                node("Add", {"sum", "part"}, {"next"}), node("Identity", {"go"}, {"on"}),
                                node("Tanh", {"next"}, {"seen"})},
                               {"on", "next", "seen"}),
                     kSequences, {{"true", on}, {"one", number(1)}});
  m.nodes.insert(m.nodes.begin(),
                 {node("Shape", {"x"}, {"shape"}), node("Gather", {"shape", "one"}, {"steps"})});
  return m;
}

// The same, whose iterations append what they see to states: to `start` along the second dimension, and to no
// rows along the first.
Model growing() {
  Model m = loop();
  ModelNode& n = m.nodes.back();
  n = with_body(
      node("Loop", {"steps", "true", "start", "start", "none"}, {"last", "wide", "tall"}),
      {"i", "go", "sum", "before", "rows"},
      {node("Gather", {"x", "i"}, {"part"}, {{"axis", int64_t{1}}}), node("Add", {"sum", "part"}, {"next"}),
       node("Identity", {"go"}, {"on"}), node("Tanh", {"next"}, {"seen"}),
       node("Concat", {"before", "seen", "part"}, {"after"}, {{"axis", int64_t{-1}}}),
       node("Cast", {"rows"}, {"same"}, {{"to", int64_t{1}}}),
       node("Concat", {"same", "seen"}, {"more"}, {{"axis", int64_t{0}}})},
      {"on", "next", "after", "more"});
  m.outputs.clear();
  for (const std::string& name : n.outputs) m.outputs.push_back(untyped(name));
  m.initializers.emplace_back("none", Tensor(DType::f32, {0, kWidth}));
  return m;
}

CompiledModel compiled(const Model& m, const CompileOptions& options) {
  Source source;
  source.graph = build_graph(m, options.build);
  return compile_model(std::move(source), options);
}

NamedTensors inputs_of(const Model& m, const Sizes& sizes) {
  NamedTensors in;
  uint64_t seed = 7;
  for (const ModelValue& v : m.inputs) {
    std::vector<int64_t> shape;
    for (const ModelDim& d : v.shape) shape.push_back(d.value ? *d.value : sizes.at(d.name));
    Tensor& t = in[v.name] = Tensor::random(v.dtype, shape, seed++);
    for (int64_t i = 0; v.dtype == DType::i32 && i < t.size(); ++i)
      t.set_int(i, 1 + 3 * i % sizes.at("seq"));  // lengths of sequences
  }
  return in;
}

void check_all_sizes(const Model& m) {
  for (const int threads : {1, 2}) {
    CompileOptions options;
    options.schedules = default_schedules();
    options.threads = threads;
    options.build.symbolic = true;
    const CompiledModel open = compiled(m, options);
    const Folder folder;
    ArtifactOptions artifact;
    artifact.path = folder / "m.so";
    write_artifact(*open.plan, open.lowered(), open.target, artifact);
    const std::vector<std::shared_ptr<Runnable>> ways = {make_executor(open), load_artifact(artifact.path)};
    for (const auto& [batch, seq] : {std::pair{2, 40}, {1, 1}, {3, 2}, {1, 100}, {2, 40}, {4, 7}}) {
      INFO(batch << " sequences of " << seq << ", " << threads << " threads");
      const Sizes sizes = {{"batch", batch}, {"seq", seq}};
      const NamedTensors in = inputs_of(m, sizes);
      CompileOptions known = options;
      known.build.symbolic = false;
      known.build.dims = sizes;
      const NamedTensors want = make_executor(compiled(m, known))->run(in);
      for (const auto& way : ways) {
        const NamedTensors got = way->run(in);
        for (const auto& [name, tensor] : want) {
          REQUIRE(got.at(name).shape() == tensor.shape());
          const Comparison c = compare(got.at(name), tensor, {1e-5, 1e-6});
          INFO(describe(c, name, tensor));
          CHECK(c.ok());
        }
      }
    }
  }
}

// Of one iteration.
int copies_in_loops(const Plan& plan) {
  int depth = 0, copies = 0;
  for (const PlanCall& call : plan.calls) {
    depth += (call.kernel == kLoop) - (call.kernel == kNext);
    copies += depth > 0 && call.kernel == kCopy;
  }
  return copies;
}

}  // namespace

TEST_CASE("recurrent layers are right for all lengths of sequences") {
  check_all_sizes(recurrent("LSTM", "bidirectional", true));
  check_all_sizes(recurrent("GRU", "reverse", false));
  check_all_sizes(recurrent("RNN", "forward", false));
}

TEST_CASE("a Scan, and a Loop, are right for all lengths") {
  check_all_sizes(scan(0));
  check_all_sizes(scan(1));
  check_all_sizes(loop());
}

TEST_CASE("a Loop whose states grow is right for all lengths") {
  check_all_sizes(growing());
}

TEST_CASE("a Loop that makes its state larger in another way is refused") {
  Model m = growing();
  ModelNode& n = m.nodes.back();
  auto body = std::make_shared<ModelGraph>(*n.graphs.at("body"));
  for (ModelNode& inner : body->nodes)
    if (inner.outputs[0] == "more") std::swap(inner.inputs[0], inner.inputs[1]);
  n.graphs["body"] = body;
  CompileOptions options;
  options.build.symbolic = true;
  CHECK_THROWS_WITH(compiled(m, options),
                    Catch::Contains("state 1 is f32[0,5] at first and f32[batch,5] after an iteration"));
}

TEST_CASE("a loop whose length is open copies nothing, and is shown") {
  CompileOptions options;
  options.build.symbolic = true;
  const CompiledModel model = compiled(recurrent("LSTM", "forward", false), options);
  CHECK(copies_in_loops(*model.plan) == 0);
  CHECK(print(model.graph, model.partition).find("loop: seq iterations") != std::string::npos);
}
