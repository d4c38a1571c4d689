// Channels in blocks: what a function becomes, and that a network partitioned so computes what it did.
#include "src/graph/block_channels.h"

#include "catch.h"
#include "nestor/check.h"
#include "nestor/graph.h"
#include "nestor/interpret.h"
#include "nestor/layout.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// (n, c, rest...) as (n, c/lanes, rest..., c%lanes) in memory.
BufferDecl in_blocks(BufferDecl d, int64_t lanes) {
  IndexMap map;
  for (size_t i = 0; i < d.shape.size(); ++i) {
    map.vars.push_back(make_var("d" + std::to_string(i)));
    map.exprs.emplace_back(map.vars.back());
  }
  map.exprs.push_back(map.exprs[1] % Expr(lanes));
  map.exprs[1] = map.exprs[1] / Expr(lanes);
  d.layout = map;
  return d;
}

// The expected text, and that both compute the same from the same tensors.
void check_blocked(const std::string& before, const std::vector<bool>& which, int64_t lanes,
                   const std::string& after) {
  const PrimFunc f = parse_func(before);
  const auto g = block_channels(f, which, lanes);
  REQUIRE(g);
  check_well_formed(*g);
  CHECK(print(*g) == print(parse_func(after)));
  std::vector<Tensor> a = random_args(f, 3), b;
  for (size_t i = 0; i < a.size(); ++i) {
    const BufferDecl& decl = g->params[i].decl;
    b.push_back(f.params[i].role == Role::constant ? constant_argument(a[i], decl)
                : which[i] ? pack(a[i], in_blocks(f.params[i].decl, lanes)).reshaped(logical_shape(decl))
                           : a[i].clone());
  }
  interpret(f, a);
  interpret(*g, b);
  for (size_t i = 0; i < a.size(); ++i) {
    if (f.params[i].role == Role::constant) continue;
    Tensor logical = b[i];
    if (which[i]) {
      const BufferDecl d = in_blocks(f.params[i].decl, lanes);
      logical = unpack(b[i].reshaped(physical_shape(d)), d);
    }
    for (int64_t k = 0; k < a[i].size(); ++k) REQUIRE(a[i].get(k) == logical.get(k));
  }
}

Graph network(const std::string& nodes, std::vector<std::pair<std::string, std::vector<int64_t>>> weights) {
  Model m = model_of(R"({"opset": 20, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,3,9,7]}],
                         "outputs": ["y"], "nodes": [)" +
                     nodes + "]}");
  uint64_t seed = 10;
  for (const auto& [name, dims] : weights)
    m.initializers.emplace_back(name, Tensor::random(DType::f32, dims, seed++));
  return build_graph(m);
}

std::vector<std::string> blocked_names(const Graph& g, const Partition& p) {
  std::vector<std::string> out;
  for (ValueId v : p.blocked) out.push_back(g.values[static_cast<size_t>(v)].name);
  return out;
}

}  // namespace

TEST_CASE("channels that iterators walk are split, with the constants and temporaries beside them") {
  check_blocked(R"(func f(in X: f32[1,8,5], const B: f32[8], out Y: f32[1,8,5]) {
  alloc T: f32[1,8,5]
  for n in 1, c in 8, x in 5 {
    block T(vn: S 1 = n, vc: S 8 = c, vx: S 5 = x) {
      T[vn,vc,vx] = X[vn,vc,vx] + B[vc]
    }
  }
  for n in 1, c in 8, x in 5 {
    block Y(vn: S 1 = n, vc: S 8 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = max(0.0f32, T[vn,vc,vx])
    }
  }
})",
                {true, false, false}, 4,
                R"(func f(in X: f32[1,2,5,4], const B: f32[2,4], out Y: f32[1,8,5]) {
  alloc T: f32[1,2,5,4]
  for n in 1, cb in 2, x in 5, cl in 4 {
    block T(vn: S 1 = n, vcb: S 2 = cb, vx: S 5 = x, vcl: S 4 = cl) {
      T[vn,vcb,vx,vcl] = X[vn,vcb,vx,vcl] + B[vcb,vcl]
    }
  }
  for n in 1, cb in 2, x in 5, cl in 4 {
    block Y(vn: S 1 = n, vcb: S 2 = cb, vx: S 5 = x, vcl: S 4 = cl) {
      Y[vn,vcb*4+vcl,vx] = max(0.0f32, T[vn,vcb,vx,vcl])
    }
  }
})");
}

TEST_CASE("a reduction over channels goes block by block, lanes last") {
  check_blocked(R"(func f(in X: f32[1,8,5], const W: f32[3,8], out Y: f32[1,3,5]) {
  for n in 1, o in 3, x in 5, c in 8 {
    block Y(vn: S 1 = n, vo: S 3 = o, vx: S 5 = x, vc: R 8 = c) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += X[vn,vc,vx] * W[vo,vc]
    }
  }
})",
                {true, false, false}, 4,
                R"(func f(in X: f32[1,2,5,4], const W: f32[3,2,4], out Y: f32[1,3,5]) {
  for n in 1, o in 3, x in 5, cb in 2, cl in 4 {
    block Y(vn: S 1 = n, vo: S 3 = o, vx: S 5 = x, vcb: R 2 = cb, vcl: R 4 = cl) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += X[vn,vcb,vx,vcl] * W[vo,vcb,vcl]
    }
  }
})");
}

TEST_CASE("an index that is no iterator is divided: the channels of groups") {
  check_blocked(R"(func f(in X: f32[1,8,5], const W: f32[8,2], out Y: f32[1,8,5]) {
  for n in 1, o in 8, x in 5, c in 2 {
    block Y(vn: S 1 = n, vo: S 8 = o, vx: S 5 = x, vc: R 2 = c) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += X[vn,vo/2*2+vc,vx] * W[vo,vc]
    }
  }
})",
                {true, false, true}, 4,
                R"(func f(in X: f32[1,2,5,4], const W: f32[2,4,2], out Y: f32[1,2,5,4]) {
  for n in 1, ob in 2, x in 5, ol in 4, c in 2 {
    block Y(vn: S 1 = n, vob: S 2 = ob, vx: S 5 = x, vol: S 4 = ol, vc: R 2 = c) {
      init { Y[vn,vob,vx,vol] = 0.0f32 }
      Y[vn,vob,vx,vol] += X[vn,vob,vx,vol/2*2+vc] * W[vob,vol,vc]
    }
  }
})");
}

TEST_CASE("channels that don't fill whole blocks: all lanes are computed, no reduction reads them") {
  check_blocked(R"(func f(in X: f32[1,5,3], const W: f32[6,5], const D: f32[6,1], out Y: f32[1,6,2]) {
  alloc T: f32[1,6,3]
  for n in 1, o in 6, x in 3, c in 5 {
    block T(vn: S 1 = n, vo: S 6 = o, vx: S 3 = x, vc: R 5 = c) {
      init { T[vn,vo,vx] = 0.0f32 }
      T[vn,vo,vx] += X[vn,vc,vx] * W[vo,vc]
    }
  }
  for n in 1, o in 6, x in 2, c in 1, r in 2 {
    block Y(vn: S 1 = n, vo: S 6 = o, vx: S 2 = x, vc: R 1 = c, vr: R 2 = r) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += T[vn,vo+vc,vx+vr] * D[vo,vc]
    }
  }
})",
                {true, false, false, true}, 4,
                R"(func f(in X: f32[1,2,3,4], const W: f32[2,4,5], const D: f32[2,4,1], out Y: f32[1,2,2,4]) {
  alloc T: f32[1,2,3,4]
  for n in 1, ob in 2, x in 3, ol in 4, c in 5 {
    block T(vn: S 1 = n, vob: S 2 = ob, vx: S 3 = x, vol: S 4 = ol, vc: R 5 = c) {
      init { T[vn,vob,vx,vol] = 0.0f32 }
      T[vn,vob,vx,vol] += X[vn,vc/4,vx,vc%4] * W[vob,vol,vc]
    }
  }
  for n in 1, ob in 2, x in 2, ol in 4, r in 2 {
    block Y(vn: S 1 = n, vob: S 2 = ob, vx: S 2 = x, vol: S 4 = ol, vr: R 2 = r) {
      init { Y[vn,vob,vx,vol] = 0.0f32 }
      Y[vn,vob,vx,vol] += T[vn,vob,vx+vr,vol] * D[vob,vol,0]
    }
  }
})");
}

TEST_CASE("a copy from and to row-major channels is cut in pieces where blocks aren't full") {
  const std::string copy = R"(func f(in X: f32[2,6,5], out Y: f32[2,6,5]) {
  for n in 2, c in 6, x in 5 {
    block Y(vn: S 2 = n, vc: S 6 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc,vx]
    }
  }
})";
  check_blocked(copy, {false, true}, 4, R"(func f(in X: f32[2,6,5], out Y: f32[2,2,5,4]) {
  for n in 2, cb in 1, x in 5, cl in 4 {
    block Y(vn: S 2 = n, vcb: S 1 = cb, vx: S 5 = x, vcl: S 4 = cl) {
      Y[vn,vcb,vx,vcl] = X[vn,vcb*4+vcl,vx]
    }
  }
  for n in 2, x in 5, cl in 2 {
    block Y_rest(vn: S 2 = n, vx: S 5 = x, vcl: S 2 = cl) {
      Y[vn,1,vx,vcl] = X[vn,vcl+4,vx]
    }
  }
  for n in 2, x in 5, cl in 2 {
    block Y_zeros(vn: S 2 = n, vx: S 5 = x, vcl: S 2 = cl) {
      Y[vn,1,vx,vcl+2] = 0.0f32
    }
  }
}
)");
  check_blocked(copy, {true, false}, 4, R"(func f(in X: f32[2,2,5,4], out Y: f32[2,6,5]) {
  for n in 2, cb in 1, x in 5, cl in 4 {
    block Y(vn: S 2 = n, vcb: S 1 = cb, vx: S 5 = x, vcl: S 4 = cl) {
      Y[vn,vcb*4+vcl,vx] = X[vn,vcb,vx,vcl]
    }
  }
  for n in 2, x in 5, cl in 2 {
    block Y_rest(vn: S 2 = n, vx: S 5 = x, vcl: S 2 = cl) {
      Y[vn,vcl+4,vx] = X[vn,1,vx,vcl]
    }
  }
}
)");
  const std::string first = R"(func f(in X: f32[2,6,5], out Y: f32[2,4,5]) {
  for n in 2, c in 4, x in 5 {
    block Y(vn: S 2 = n, vc: S 4 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc,vx]
    }
  }
})";
  CHECK_FALSE(block_channels(parse_func(first), {true, false}, 4));  // some of the channels
}

TEST_CASE("lanes beyond the channels belong to blocks only") {
  const auto refused = [](const std::string& nest, const std::vector<bool>& which) {
    return !block_channels(parse_func(nest), which, 4);
  };
  const std::string copy = R"(func f(in X: f32[1,6,5], out Y: f32[1,6,5]) {
  for n in 1, c in 6, x in 5 {
    block Y(vn: S 1 = n, vc: S 6 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc,vx]
    }
  }
})";
  CHECK_FALSE(refused(copy, {true, true}));
  std::string more = copy;  // to and from a row-major tensor: more than a copy
  more.insert(more.rfind("X[vn,vc,vx]"), "2.0f32 * ");
  CHECK(refused(more, {true, false}));
  CHECK(refused(more, {false, true}));
  const auto grouped = [&](const std::string& channels, const std::string& per, int64_t lanes, bool in = true,
                           bool out = true) {
    std::string nest = R"(func f(in X: f32[1,C,5], const W: f32[C,G], out Y: f32[1,C,5]) {
  for n in 1, o in C, x in 5, c in G {
    block Y(vn: S 1 = n, vo: S C = o, vx: S 5 = x, vc: R G = c) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += X[vn,vo/G*G+vc,vx] * W[vo,vc]
    }
  }
})";
    for (const auto& [name, value] : {std::pair{'C', channels}, std::pair{'G', per}})
      for (size_t at; (at = nest.find(name)) != std::string::npos;) nest.replace(at, 1, value);
    return block_channels(parse_func(nest), {in, false, out}, lanes).has_value();
  };
  CHECK(grouped("6", "2", 4));  // the lanes beyond read lanes beyond
  CHECK(grouped("24", "8", 16));
  CHECK(grouped("12", "12", 4));
  CHECK_FALSE(grouped("12", "3", 4));  // groups straddle blocks
  CHECK_FALSE(grouped("12", "6", 4));
  CHECK(grouped("16", "8", 4, true, false));
  CHECK(grouped("16", "8", 4, false, true));
  CHECK_FALSE(grouped("12", "6", 4, true, false));  // nor is one side enough
  CHECK_FALSE(grouped("12", "6", 4, false, true));
  const std::string part = R"(func f(in X: f32[1,6,5], out Y: f32[1,3,5]) {
  for n in 1, c in 3, x in 5 {
    block Y(vn: S 1 = n, vc: S 3 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc+2,vx]
    }
  }
})";
  CHECK(refused(part, {true, false}));
  const std::string weighted = R"(func f(in X: f32[2,6,5], const W: f32[2,6], out Y: f32[2,6,5]) {
  for n in 2, c in 6, x in 5 {
    block Y(vn: S 2 = n, vc: S 6 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc,vx] * W[vn,vc]
    }
  }
})";
  CHECK(refused(weighted, {true, false, true}));  // zeros would stand among W's elements
}

TEST_CASE(
    "between convolutions and pooling values lie in blocks, at the network's ends and under views they "
    "don't") {
  const Graph g = network(
      R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"], "attrs": {"pads": [1,1,1,1]}},
    {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
    {"op": "Conv", "inputs": ["r","b"], "outputs": ["d"], "attrs": {"group": 8, "pads": [1,1,1,1], "strides": [2,2]}},
    {"op": "Conv", "inputs": ["d","e"], "outputs": ["f"]},
    {"op": "Conv", "inputs": ["f","h"], "outputs": ["i"]},
    {"op": "Add", "inputs": ["i","d"], "outputs": ["s"]},
    {"op": "MaxPool", "inputs": ["s"], "outputs": ["p"], "attrs": {"kernel_shape": [2,2]}},
    {"op": "Flatten", "inputs": ["p"], "outputs": ["l"]},
    {"op": "MatMul", "inputs": ["l","m"], "outputs": ["y"]})",
      {{"a", {8, 3, 3, 3}}, {"b", {8, 1, 3, 3}}, {"e", {6, 8, 1, 1}}, {"h", {8, 6, 1, 1}}, {"m", {96, 4}}});
  const Values in = random_inputs(g);
  const Values want = run_unfused(g, in);
  for (const int64_t block : {1, 2, 4, 8}) {
    const Partition p = partition(g, {.channel_block = block});
    check_close(run(g, p, in), want, 1e-6);
    if (block == 2 || block == 4) CHECK(blocked_names(g, p) == std::vector<std::string>{"r", "d", "f", "s"});
    if (block == 1) CHECK(p.blocked.empty());
  }
}

TEST_CASE("what stands beyond the channels reaches no result: 1/0 there, while all channels are finite") {
  const Graph g =
      network(R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"]},
    {"op": "Reciprocal", "inputs": ["c"], "outputs": ["r"]},
    {"op": "Conv", "inputs": ["r","b"], "outputs": ["d"], "attrs": {"group": 7, "pads": [1,1,1,1]}},
    {"op": "Conv", "inputs": ["d","e"], "outputs": ["f"], "attrs": {"pads": [1,1,1,1]}},
    {"op": "Softmax", "inputs": ["f"], "outputs": ["s"], "attrs": {"axis": 1}},
    {"op": "Conv", "inputs": ["s","h"], "outputs": ["y"]})",
              {{"a", {7, 3, 3, 3}}, {"b", {7, 1, 3, 3}}, {"e", {15, 7, 3, 3}}, {"h", {3, 15, 1, 1}}});
  const Values in = random_inputs(g);
  const Partition p = partition(g, {.channel_block = 4});
  CHECK(blocked_names(g, p) == std::vector<std::string>{"r", "d", "f", "s"});
  CHECK(stored_shape(g, p, *p.blocked.begin()) == std::vector<int64_t>{1, 2, 7, 5, 4});
  check_close(run(g, p, in), run_unfused(g, in), 1e-6);
}

TEST_CASE("a concatenation of channels that don't fill blocks is row major, and so is what it reads") {
  const Graph g =
      network(R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"]},
    {"op": "Conv", "inputs": ["c","b"], "outputs": ["d"]},
    {"op": "Concat", "inputs": ["c","d"], "outputs": ["k"], "attrs": {"axis": 1}},
    {"op": "Conv", "inputs": ["k","e"], "outputs": ["f"]},
    {"op": "Conv", "inputs": ["f","h"], "outputs": ["y"]})",
              {{"a", {7, 3, 1, 1}}, {"b", {8, 7, 1, 1}}, {"e", {8, 15, 1, 1}}, {"h", {3, 8, 1, 1}}});
  const Values in = random_inputs(g);
  const Partition p = partition(g, {.channel_block = 4});
  CHECK(blocked_names(g, p) == std::vector<std::string>{"d", "f"});
  check_close(run(g, p, in), run_unfused(g, in), 1e-6);
}

TEST_CASE("a softmax over channels takes blocks as they come; matrices have none") {
  const Graph g = network(R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"]},
    {"op": "Softmax", "inputs": ["c"], "outputs": ["s"], "attrs": {"axis": 1}},
    {"op": "Concat", "inputs": ["s","c"], "outputs": ["k"], "attrs": {"axis": 1}},
    {"op": "Transpose", "inputs": ["k"], "outputs": ["t"], "attrs": {"perm": [0,2,3,1]}},
    {"op": "MatMul", "inputs": ["t","m"], "outputs": ["y"]})",
                          {{"a", {8, 3, 3, 3}}, {"m", {16, 4}}});
  const Values in = random_inputs(g);
  const Partition p = partition(g, {.channel_block = 4});
  check_close(run(g, p, in), run_unfused(g, in), 1e-6);
  CHECK(blocked_names(g, p) == std::vector<std::string>{"c"});
}

TEST_CASE("two groups to a block of lanes: row major where a stride leaves nothing to share") {
  const auto blocked = [](const std::string& attrs) {
    const Graph g =
        network(R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"], "attrs": {"pads": [1,1,1,1]}},
    {"op": "Conv", "inputs": ["c","b"], "outputs": ["d"], "attrs": {)" +
                    attrs + R"(, "pads": [1,1,1,1]}},
    {"op": "Conv", "inputs": ["d","e"], "outputs": ["f"]},
    {"op": "Conv", "inputs": ["f","h"], "outputs": ["y"]})",
                {{"a", {8, 3, 3, 3}}, {"b", {8, 2, 3, 3}}, {"e", {8, 8, 1, 1}}, {"h", {3, 8, 1, 1}}});
    const Values in = random_inputs(g);
    const Partition p = partition(g, {.channel_block = 4});
    check_close(run(g, p, in), run_unfused(g, in), 1e-6);
    return blocked_names(g, p);
  };
  CHECK(blocked(R"("group": 4)") == std::vector<std::string>{"c", "d", "f"});
  CHECK(blocked(R"("group": 4, "strides": [2,2])") == std::vector<std::string>{"f"});
  CHECK(blocked(R"("group": 4, "strides": [1,2], "dilations": [1,3])") ==
        std::vector<std::string>{"c", "d", "f"});  // rows of 2 pixels fill no 4 lanes
}

TEST_CASE("bytes lie in blocks of channels between convolutions, where these fill them") {
  const auto blocked = [](int64_t channels) {
    Model m = model_of(R"({"opset": 20, "inputs": [{"name": "x", "dtype": "u8", "shape": [1,3,9,7]}],
      "outputs": ["y"], "nodes": [
      {"op": "QLinearConv", "inputs": ["x","s","z","a","s","o","s","z"], "outputs": ["c"]},
      {"op": "QLinearConv", "inputs": ["c","s","z","b","s","o","s","z"], "outputs": ["d"],
       "attrs": {"pads": [1,1,1,1]}},
      {"op": "QLinearConv", "inputs": ["d","s","z","e","s","o","s","z"], "outputs": ["y"]}]})");
    const auto weights = [&](const char* name, std::vector<int64_t> shape) {
      m.initializers.emplace_back(name, Tensor::random(DType::i8, shape, 7));
    };
    weights("a", {channels, 3, 3, 3});
    weights("b", {8, channels, 3, 3});
    weights("e", {5, 8, 1, 1});
    Tensor scale(DType::f32, {});
    scale.set(0, 0.1);
    Tensor zero(DType::u8, {});
    zero.set_int(0, 3);
    m.initializers.emplace_back("s", scale);
    m.initializers.emplace_back("z", zero);
    m.initializers.emplace_back("o", Tensor(DType::i8, {}));
    Graph g = build_graph(m);
    optimize(g, evaluate_by_interpreter);
    const Values in = random_inputs(g);
    const Partition p = partition(g, {.channel_block = 4});
    CHECK(p.funcs.size() == 3);
    check_close(run(g, p, in), run_unfused(g, in), 0);
    return blocked_names(g, p);
  };
  CHECK(blocked(12) == std::vector<std::string>{"c", "d"});
  CHECK(blocked(7) == std::vector<std::string>{"d"});
}

TEST_CASE("an operand in blocks is of use to results in blocks only, also where channels are grouped") {
  const auto blocked = [](const std::string& group, int64_t filters, int64_t channels) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,16,9,9]}],
      "outputs": ["y"], "nodes": [{"op": "Conv", "inputs": ["x","w"], "outputs": ["y"], "attrs": {"group": )" +
                       group + "}}]}");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {filters, channels, 3, 3}, 3));
    const Graph g = build_graph(m);
    return blocked_names(g, partition(g, {.channel_block = 8, .blocked_io = true}));
  };
  CHECK(blocked("1", 8, 16) == std::vector<std::string>{"x", "y"});
  CHECK(blocked("2", 8, 8) == std::vector<std::string>{"x", "y"});
  CHECK(blocked("16", 16, 1) == std::vector<std::string>{"x", "y"});
  CHECK(blocked("2", 2, 8).empty());   // two results are no block
  CHECK(blocked("4", 12, 4).empty());  // groups of three are refused
}
