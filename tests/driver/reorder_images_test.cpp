// Which convolutions get row-major images in blocks of channels by a copy, and that results stay.
#include <fmt/format.h>

#include <algorithm>

#include "catch.h"
#include "nestor/library.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

// Nodes that reorder, and functions in all.
std::pair<size_t, size_t> reorders(const std::string& spec, const std::string& target,
                                   bool blocked_io = false) {
  CompileOptions options;
  options.target = parse_target(target);
  options.blocked_io = blocked_io;
  const CompiledModel m = partition_model(load(spec), options);
  const auto copies = std::count_if(m.graph.nodes.begin(), m.graph.nodes.end(),
                                    [](const Node& n) { return n.op == "Reorder"; });
  return {static_cast<size_t>(copies), m.partition.funcs.size()};
}

}  // namespace

TEST_CASE("convolutions that compute much of an image have it reordered") {
  using Pair = std::pair<size_t, size_t>;
  const std::string deep = "Conv(f32[1,192,55,55], const f32[16,192,5,5]; strides=[2,2], pads=[2,2,2,2])";
  CHECK(reorders(deep, "x86-64-v3") == Pair{2, 3});
  CHECK(reorders(deep, "x86-64-v3", true) == Pair{0, 1});  // it lies in blocks
  CHECK(reorders(deep, "x86-64-v4") == Pair{0, 1});
  // Little is computed of it; small windows one by one, or a point; channels that fill no block.
  CHECK(reorders("Conv(f32[1,128,67,67], const f32[44,128,1,1]; strides=[2,2])", "x86-64-v3") == Pair{0, 1});
  CHECK(reorders("Conv(f32[1,192,55,55], const f32[16,192,1,3])", "x86-64-v3").first == 0);
  CHECK(reorders("Conv(f32[1,192,55,55], const f32[16,192,3,3]; dilations=[2,2])", "x86-64-v3").first == 2);
  CHECK(reorders("Conv(f32[1,192,55,55], const f32[16,192,5,5])", "x86-64-v3").first == 2);
  CHECK(reorders("Conv(f32[1,512,28,28], const f32[512,512,1,1])", "x86-64-v3").first == 0);
  CHECK(reorders("Conv(f32[1,3,224,224], const f32[64,3,7,7]; strides=[2,2])", "x86-64-v3").first == 0);
  CHECK(reorders("Conv(f32[1,256,7,7], const f32[256,256,1,1])", "x86-64-v3").first == 2);
  CHECK(reorders("Conv(f32[1,256,8,8], const f32[256,256,1,1])", "x86-64-v3").first == 0);
  CHECK(reorders("Conv(f32[1,160,7,7], const f32[320,160,1,1])", "x86-64-v3").first == 0);
  // Filters are few, and channels so many that lines of them leave the first level; or both few.
  const auto strided = [](int64_t channels, int64_t filters) {
    return fmt::format("Conv(f32[1,{0},74,74], const f32[{1},{0},3,3]; strides=[2,2], pads=[1,1,1,1])",
                       channels, filters);
  };
  CHECK(reorders(strided(512, 12), "x86-64-v3").first == 2);
  CHECK(reorders(strided(378, 22), "x86-64-v3").first == 2);
  CHECK(reorders(strided(48, 16), "x86-64-v3").first == 0);
  // Windows of a channel each, but for small ones of images that the caches don't hold.
  const auto each = [](int64_t channels, int64_t size, int64_t window) {
    return fmt::format("Conv(f32[1,{0},{1},{1}], const f32[{0},1,{2},{2}]; group={0}, strides=[2,2])",
                       channels, size, window);
  };
  CHECK(reorders(each(96, 56, 5), "x86-64-v3").first == 2);
  CHECK(reorders(each(192, 28, 3), "x86-64-v3").first == 2);
  CHECK(reorders(each(261, 112, 5), "x86-64-v3").first == 2);
  CHECK(reorders(each(64, 224, 3), "x86-64-v3").first == 0);
  CHECK(reorders("Conv(f32[1,96,56,56], const f32[96,1,3,3]; group=96)", "x86-64-v3").first == 0);
  CHECK(reorders("Conv(f32[1,96,14,14], const f32[96,1,3,3]; group=96)", "x86-64-v3").first == 2);
  CHECK(reorders("Conv(f32[1,96,56,56], const f32[96,1,7,7]; group=96)", "x86-64-v3").first == 2);
  CHECK(reorders("Conv(f32[1,48,28,28], const f32[48,24,3,3]; group=2, strides=[2,2])", "x86-64-v3").first ==
        0);
}

TEST_CASE("with the widest vectors images are reordered where weights don't stay near a core") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.target.l2_bytes = 2 << 20;
  options.target.l3_bytes = 64 << 20;
  options.target.l3_bytes_per_cycle = 9;
  const auto reordered = [&](const std::string& spec) {
    const CompiledModel m = partition_model(load(spec), options);
    return std::any_of(m.graph.nodes.begin(), m.graph.nodes.end(),
                       [](const Node& n) { return n.op == "Reorder"; });
  };
  const std::string deep = "Conv(f32[1,384,36,36], const f32[54,384,7,7]; strides=[2,2], pads=[3,3,3,3])";
  CHECK(reordered(deep));
  CHECK(reordered("Conv(f32[1,320,14,14], const f32[40,320,7,7]; pads=[3,3,3,3])"));
  CHECK_FALSE(reordered("Conv(f32[1,96,14,14], const f32[64,96,7,7]; pads=[3,3,3,3])"));  // they stay
  CHECK_FALSE(reordered("Conv(f32[1,4000,40,40], const f32[128,4000,1,1])"));  // the copy takes as long
  CHECK(reordered("Conv(f32[1,96,30,30], const f32[16,96,7,7]; strides=[2,2], pads=[3,3,3,3])"));
  CHECK_FALSE(reordered("Conv(f32[1,96,30,30], const f32[16,96,3,3]; strides=[2,2], pads=[1,1,1,1])"));
  CHECK_FALSE(reordered("Conv(f32[1,320,56,56], const f32[16,320,5,5]; strides=[2,2], pads=[2,2,2,2])"));
  options.target.l3_bytes_per_cycle = 20;
  CHECK_FALSE(reordered(deep));
}

TEST_CASE("results that rows would take one by one are made in blocks, and copied") {
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) {
    INFO(target);
    const auto copies = [&](const std::string& spec) { return reorders(spec, target).first; };
    const std::string deep = "ConvTranspose(f32[1,16,4,16,5], const f32[16,192,4,4,4]; strides=[3,3,3])";
    CHECK(copies(deep) == 2);
    CHECK(reorders(deep, target, true).first == 0);  // they are
    // Of an image of few channels only the result.
    CHECK(copies("ConvTranspose(f32[1,2,8,8,5], const f32[2,45,4,4,4]; strides=[2,2,2], "
                 "pads=[1,1,1,1,1,1])") == 1);
    // Rows that fill vectors; no stride; less than a copy; mostly what no tap reaches.
    CHECK(copies("ConvTranspose(f32[1,18,64,31], const f32[18,128,3,3]; strides=[2,2])") == 0);
    CHECK(copies("ConvTranspose(f32[1,18,64,9], const f32[18,128,1,1])") == 0);
    CHECK(copies("ConvTranspose(f32[1,2,64,48], const f32[2,45,2,2]; strides=[2,2])") == 0);
    CHECK(copies("ConvTranspose(f32[1,4,8,8,7], const f32[4,45,3,3,3]; strides=[2,2,2], "
                 "dilations=[2,2,2])") == 0);
  }
}

TEST_CASE("what stands behind a convolution in one function doesn't keep its result from blocks") {
  for (const bool transposed : {true, false}) {
    Model m;
    m.opsets[""] = 17;
    if (transposed)
      m.inputs.push_back({"x", DType::f32, {{1, ""}, {16, ""}, {9, ""}, {4, ""}}});
    else
      m.inputs.push_back({"x", DType::f32, {{9, ""}, {16, ""}, {3, ""}, {2, ""}}});
    m.outputs.push_back({"y", DType::f32, {}, false, false});
    m.initializers.emplace_back(
        "w", Tensor::random(
                 DType::f32,
                 transposed ? std::vector<int64_t>{16, 27, 3, 3} : std::vector<int64_t>{27, 16, 5, 5}, 3));
    const Attrs attrs = transposed ? Attrs{{"strides", std::vector<int64_t>{2, 2}}}
                                   : Attrs{{"pads", std::vector<int64_t>{2, 2, 2, 2}}};
    m.nodes.push_back({transposed ? "ConvTranspose" : "Conv", "", "", {"x", "w"}, {"t"}, attrs, {}});
    m.nodes.push_back({"Sigmoid", "", "", {"t"}, {"u"}, {}, {}});
    m.nodes.push_back({"Mul", "", "", {"t", "u"}, {"y"}, {}, {}});
    const Target target = to_run(parse_target("x86-64-v3"));
    NamedTensors results[2];
    for (const bool fuse : {true, false}) {
      CompileOptions options;
      options.target = target;
      options.fuse = fuse;
      options.schedules = default_schedules();
      const CompiledModel c = compile_model({build_graph(m), std::nullopt}, options);
      if (fuse) CHECK(c.funcs.size() == 3);  // two copies
      const Value& image = c.graph.values[static_cast<size_t>(c.graph.inputs[0])];
      results[fuse] = make_executor(c)->run({{image.name, Tensor::random(DType::f32, image.type.shape, 5)}});
    }
    const Tensor &got = results[1].at("y"), &want = results[0].at("y");
    REQUIRE(got.shape() == want.shape());
    for (int64_t i = 0; i < got.size(); ++i) CHECK(got.get(i) == Approx(want.get(i)).margin(1e-3));
  }
}

TEST_CASE("many small images are reordered") {
  const auto copies = [&](const std::string& spec) { return reorders(spec, "x86-64-v4").first; };
  CHECK(copies("Conv(f32[16,64,3,2], const f32[384,64,5,5]; pads=[2,2,2,2])") == 2);
  CHECK(copies("Conv(f32[16,4,3,2], const f32[384,4,5,5]; pads=[2,2,2,2])") == 1);
  CHECK(copies("Conv(f32[2,64,3,2], const f32[384,64,5,5]; pads=[2,2,2,2])") == 0);  // few
  CHECK(copies("Conv(f32[16,64,7,7], const f32[384,64,5,5])") == 0);                 // nothing is padding
  CHECK(copies("Conv(f32[16,64,9,9], const f32[384,64,5,5]; pads=[2,2,2,2])") == 0);
  CHECK(copies("Conv(f32[154,2,4,4], const f32[128,2,3,3]; pads=[1,1,1,1])") == 0);  // less than a copy
}

TEST_CASE("images along whose rows two results stand are reordered") {
  const auto copies = [](int images, int channels, int filters, int width, int kernel) {
    return reorders(fmt::format("Conv(f32[{},{},14,{}], const f32[{},{},{},{}]; strides=[2,2])", images,
                                channels, width, filters, channels, kernel, kernel),
                    "x86-64-v4")
        .first;
  };
  CHECK(copies(8, 96, 64, 5, 3) == 2);
  CHECK(copies(2, 96, 64, 5, 3) == 0);  // few images
  CHECK(copies(8, 96, 64, 3, 3) == 0);  // one
  CHECK(copies(8, 96, 64, 7, 3) == 0);  // three
  CHECK(copies(8, 96, 64, 3, 1) == 0);  // a point
  CHECK(copies(8, 96, 16, 6, 3) == 0);  // copies take as long as is saved
}

TEST_CASE("with the widest vectors, images whose rows fill them badly are reordered") {
  const auto groups = [](int64_t channels, int64_t size, int64_t of, int64_t window, int64_t stride) {
    const std::string spec =
        fmt::format("Conv(f32[1,{0},{1},{1}], const f32[{0},{2},{3},{3}]; group={4}, strides=[{5},{5}])",
                    channels, size, of, window, channels / of, stride);
    return reorders(spec, "x86-64-v4").first;
  };
  CHECK(groups(384, 47, 1, 5, 2) == 2);
  CHECK(groups(96, 56, 1, 7, 1) == 2);
  CHECK(groups(384, 47, 1, 3, 2) == 0);  // small windows
  CHECK(groups(384, 6, 1, 3, 1) == 2);   // but short rows
  CHECK(groups(384, 3, 1, 2, 1) == 0);   // of more than a few taps
  CHECK(groups(384, 7, 1, 3, 1) == 0);
  CHECK(groups(320, 100, 1, 5, 1) == 0);  // more than the caches hold
  CHECK(groups(320, 100, 1, 5, 2) == 2);  // but strides
  CHECK(groups(8, 56, 1, 5, 1) == 0);     // half of a block
  CHECK(groups(216, 19, 4, 3, 1) == 2);
  CHECK(groups(216, 34, 4, 3, 1) == 0);  // full rows
  CHECK(groups(256, 19, 16, 3, 1) == 0);
}

TEST_CASE("convolutions of reordered images are right with the widest vectors") {
  for (const char* spec :
       {"Conv(f32[1,40,23,23], const f32[40,1,5,5], const f32[40]; group=40, strides=[2,2], pads=[2,1,2,1])",
        "Conv(f32[1,60,17,17], const f32[60,4,3,3]; group=15, pads=[1,1,1,1])",
        "Conv(f32[5,40,9,4], const f32[40,40,3,3], const f32[40]; strides=[2,2], pads=[1,1,1,1])",
        "Conv(f32[5,48,3,2], const f32[48,1,3,3], const f32[48]; group=48, pads=[1,1,1,1])"}) {
    INFO(spec);
    CHECK(reorders(spec, "x86-64-v4").first == 2);
    check_default(spec, parse_target("x86-64-v4"));
  }
}

TEST_CASE("convolutions of reordered images are right") {
  for (const char* spec :
       {"ConvTranspose(f32[1,16,9,4], const f32[16,27,3,3], const f32[27]; strides=[2,2])",
        "ConvTranspose(f32[2,9,3,4,3], const f32[9,24,4,3,4]; strides=[2,2,3], pads=[1,0,1,0,1,1])",
        "Conv(f32[5,19,3,2], const f32[21,19,5,5], const f32[21]; pads=[2,2,2,2])",
        "Conv(f32[1,35,17,19], const f32[20,35,7,5], const f32[20]; pads=[2,2,2,2])",
        "Conv(f32[1,35,17,19], const f32[20,35,5,5], const f32[20]; strides=[2,2], pads=[2,2,2,2])",
        "Conv(f32[2,32,40], const f32[96,32,7]; strides=[3], pads=[1,4])",
        "Conv(f32[1,8,7,9,8], const f32[68,8,3,3,3]; strides=[2,1,2], dilations=[1,2,1])",
        "Conv(f32[1,19,23,14], const f32[19,1,5,3], const f32[19]; group=19, strides=[2,2], "
        "pads=[2,1,2,1])"}) {
    INFO(spec);
    CHECK(reorders(spec, "x86-64-v3").first == 2);
    check_default(spec, parse_target("x86-64-v3"));
    const Target target = to_run(parse_target("x86-64-v3"));
    const CompiledModel m = compiled(spec, target);
    CompileOptions plain;
    plain.target = target;
    plain.fuse = false;
    const CompiledModel unfused = compile_model(spec, plain);
    NamedTensors inputs;
    for (const ValueId v : m.graph.inputs) {
      const Value& image = m.graph.values[static_cast<size_t>(v)];
      inputs.emplace(image.name, Tensor::random(DType::f32, image.type.shape, 5));
    }
    const NamedTensors results = make_executor(m)->run(inputs), naive = make_executor(unfused)->run(inputs);
    const Tensor &got = results.begin()->second, &want = naive.at(results.begin()->first);
    REQUIRE(got.shape() == want.shape());
    for (int64_t i = 0; i < got.size(); ++i) CHECK(got.get(i) == Approx(want.get(i)).margin(1e-3));
  }
}
