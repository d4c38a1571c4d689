// Transposed convolutions by the default schedules: a register tile for each class of residues, the weights
// packed once for all of them; and convolutions to few channels, which they share their tiles with.
#include <fmt/format.h>

#include <algorithm>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/driver.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

CompileOptions options_for(const Target& target, bool blocked_io) {
  CompileOptions options;
  options.target = target;
  options.blocked_io = blocked_io;
  options.schedules = default_schedules();
  options.lowering.check = true;
  return options;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// The default schedule of the last of so many functions that the operator becomes.
std::string last_schedule(const std::string& spec, const CompileOptions& options, size_t functions) {
  const CompiledModel m = partition_model(load(spec), options);
  REQUIRE(m.partition.funcs.size() == functions);
  return print(default_schedule(m.partition.funcs.back(), options.target));
}

// Twice as large, normalized by channel, a residual added, clipped below.
Graph with_epilogue(int64_t group) {
  const auto dims = [](const std::vector<int64_t>& shape) {
    std::vector<ModelDim> out;
    for (const int64_t n : shape) out.push_back({n, ""});
    return out;
  };
  Model m;
  m.opsets[""] = 17;
  m.inputs.push_back({"x", DType::f32, dims({1, 16, 5, 6})});
  m.inputs.push_back({"residual", DType::f32, dims({1, 32, 10, 12})});
  m.outputs.push_back({"y", DType::f32, {}, false, false});
  const auto constant = [&](const std::string& name, std::vector<int64_t> shape, double least) {
    Tensor t(DType::f32, std::move(shape));
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, least + static_cast<double>(i * 7 % 11) / 11);
    m.initializers.emplace_back(name, std::move(t));
  };
  constant("w", {16, 32 / group, 4, 4}, -0.5);
  for (const char* name : {"scale", "bias", "mean"}) constant(name, {32}, -0.5);
  constant("var", {32}, 0.5);
  const Attrs attrs{
      {"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"group", group}};
  m.nodes.push_back({"ConvTranspose", "", "", {"x", "w"}, {"t"}, attrs, {}});
  m.nodes.push_back({"BatchNormalization", "", "", {"t", "scale", "bias", "mean", "var"}, {"n"}, {}, {}});
  m.nodes.push_back({"Add", "", "", {"n", "residual"}, {"s"}, {}, {}});
  m.nodes.push_back({"Relu", "", "", {"s"}, {"y"}, {}, {}});
  return build_graph(m);
}

std::string schedule_of(const std::string& spec, bool blocked_io) {
  return default_text(spec, parse_target("x86-64-v4"), blocked_io);
}

}  // namespace

TEST_CASE("default schedules of transposed convolutions") {
  Target shares_all = host_target();
  shares_all.parallel_us = 0;
  for (const Target& target : {shares_all, parse_target("x86-64-v3")})
    for (const bool blocked : {false, true})
      for (const char* spec :
           {"ConvTranspose(f32[1,20,5,6], const f32[20,35,4,4], const f32[35]; strides=[2,2], "
            "pads=[1,1,1,1])",
            "ConvTranspose(f32[1,16,6,5], const f32[16,32,3,3]; strides=[2,2], pads=[1,1,1,1], "
            "output_padding=[1,1])",
            "ConvTranspose(f32[2,16,6,5], f32[16,32,2,2]; strides=[2,2])",
            "ConvTranspose(f32[1,16,9], const f32[16,16,8], const f32[32]; group=2, strides=[4], pads=[2,2])",
            "ConvTranspose(f32[1,16,4,5], const f32[16,1,2,2]; group=16, strides=[3,2])",
            "ConvTranspose(f32[1,16,6,6], const f32[16,16,3,3]; pads=[1,1,1,1])",
            "ConvTranspose(bf16[1,8,6], const bf16[8,16,4]; strides=[2])",
            "ConvTranspose(f32[1,3,2,4,3], const f32[3,17,3,2,2]; strides=[2,2,1], dilations=[2,1,1])"})
        for (const CompiledFunction& f : compile_model(spec, options_for(target, blocked)).funcs) {
          INFO(spec << " for " << target.name << (blocked ? ", in blocks" : ""));
          CHECK(verify_schedule(f.func, f.scheduled, {.seconds = 60}).ok());
          for (const OutputCheck& c : check_function(f, Against::oracle, target)) {
            INFO(describe(c.comparison, c.name, c.want));
            CHECK(c.comparison.ok());
          }
        }
}

TEST_CASE("what follows a transposed convolution is done where its results are written") {
  Target shares_all = host_target();
  shares_all.parallel_us = 0;
  for (const Target& target : {shares_all, parse_target("x86-64-v3")})
    for (const bool blocked : {false, true})
      for (const int64_t group : {1, 2}) {
        const CompiledModel m =
            compile_model({with_epilogue(group), std::nullopt}, options_for(target, blocked));
        INFO("group " << group << " for " << target.name << (blocked ? ", in blocks" : ""));
        const auto sums = [](const CompiledFunction& f) { return f.func.name.find("conv") == 0; };
        REQUIRE(std::count_if(m.funcs.begin(), m.funcs.end(), sums) == 1);  // beside copies
        if (blocked) REQUIRE(m.funcs.size() == 1);
        const CompiledFunction& f = *std::find_if(m.funcs.begin(), m.funcs.end(), sums);
        CHECK(count(print(f.func), "max(") == 4);
        CHECK(count(print(default_schedule(f.func, target)), "= reverse_compute_at") == 4);
        CHECK(verify_schedule(f.func, f.scheduled, {.seconds = 60}).ok());
        for (const OutputCheck& c : check_function(f, Against::oracle, target)) {
          INFO(describe(c.comparison, c.name, c.want));
          CHECK(c.comparison.ok());
        }
      }
}

TEST_CASE("classes are tiles of their own also where what follows isn't done with each of them") {
  Model m;
  m.opsets[""] = 17;
  m.inputs.push_back({"x", DType::f32, {{1, ""}, {16, ""}, {5, ""}, {6, ""}}});
  m.outputs.push_back({"y", DType::f32, {}, false, false});
  m.initializers.emplace_back("w", Tensor::random(DType::f32, {16, 32, 4, 4}, 3));
  const Attrs attrs{{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  m.nodes.push_back({"ConvTranspose", "", "", {"x", "w"}, {"t"}, attrs, {}});
  m.nodes.push_back({"Mul", "", "", {"t", "t"}, {"u"}, {}, {}});
  m.nodes.push_back({"Mul", "", "", {"u", "u"}, {"v"}, {}, {}});
  m.nodes.push_back({"Mul", "", "", {"v", "v"}, {"y"}, {}, {}});
  const Target target = parse_target("x86-64-v3");
  const CompiledModel c = compile_model({build_graph(m), std::nullopt}, options_for(target, true));
  REQUIRE(c.funcs.size() == 1);
  const std::string schedule = print(default_schedule(c.funcs[0].func, target));
  INFO(schedule);
  CHECK(count(schedule, "= reverse_compute_at") >= 4);
}

TEST_CASE("each class of a transposed convolution is a tile in registers, and weights are packed once") {
  const std::string spec =
      "ConvTranspose(f32[1,64,14,14], const f32[64,128,4,4]; strides=[2,2], pads=[1,1,1,1])";
  const std::string schedule = schedule_of(spec, true);
  INFO(schedule);
  CHECK(count(schedule, "transform_layout W") == 1);
  CHECK(count(schedule, "= reverse_compute_at Y") == 4);
  CHECK(count(schedule, "= decompose_reduction T") == 4);
  CHECK(count(schedule, "skip_zeros T") == 4);
}

TEST_CASE("a transposed convolution whose stride divides its kernel is one nest") {
  const std::string schedule =
      schedule_of("ConvTranspose(f32[1,64,14,14], const f32[64,128,2,2]; strides=[2,2])", true);
  INFO(schedule);
  CHECK(count(schedule, "= decompose_reduction T") == 1);
}

TEST_CASE("what stride and dilation leave out between outputs is filled, in one nest for each dimension") {
  const std::string spec =
      "ConvTranspose(f32[1,4,5,9,12], const f32[4,20,4,4,4]; strides=[4,4,4], dilations=[2,2,2])";
  const CompiledModel m = partition_model(load(spec), options_for(parse_target("x86-64-v4"), false));
  const std::string func = print(m.partition.funcs.at(0)), schedule = schedule_of(spec, false);
  INFO(func << schedule);
  CHECK(count(func, "block T") == 1);
  CHECK(count(func, "block Y") == 4);
  CHECK(count(schedule, "vectorize Y") == 4);  // one behind the sum, three that fill
}

TEST_CASE("two phases aren't the rows of a tile where a line of the image could be") {
  const std::string schedule =
      schedule_of("ConvTranspose(f32[1,256,16,20], const f32[256,8,4,4]; group=8, strides=[2,2])", true);
  INFO(schedule);
  CHECK(count(schedule, "unroll T.px") == 0);
  CHECK(count(schedule, "unroll T.x1") == 1);
}

TEST_CASE(
    "phases that fill the lines of the output are put together there also where a vector is left over") {
  const std::string schedule =
      schedule_of("ConvTranspose(f32[1,32,8,60], const f32[32,8,2,2]; group=8, strides=[2,2])", false);
  INFO(schedule);
  CHECK(count(schedule, "vectorize T.x") == 1);
  CHECK(count(schedule, "unroll Y.wpx") == 1);
}

TEST_CASE("two phases beside each other in a row of the output are rows of a tile with those of filters") {
  const std::string spec =
      "ConvTranspose(f32[1,20,4,72], const f32[20,63,2,2], const f32[63]; strides=[2,2])";
  const std::string schedule = schedule_of(spec, false);
  INFO(schedule);
  CHECK(count(schedule, "unroll T.px") == 1);
  CHECK(count(schedule, "unroll T.o1") == 1);
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) check_default(spec, parse_target(name));
}

TEST_CASE("groups of which eight share a block of results stay row major") {
  const CompiledModel m =
      partition_model(load("ConvTranspose(f32[1,32,9,16], const f32[32,2,3,3]; group=8, strides=[2,2])"),
                      options_for(parse_target("x86-64-v4"), true));
  const std::string nests = print(m.partition.funcs.at(0));
  INFO(nests);
  CHECK(count(nests, "(in X: f32[1,8,4,9,16]") == 1);
}

TEST_CASE("phases that lie between rows in a large output are written in its order") {
  const std::string schedule =
      schedule_of("ConvTranspose(f32[1,2,52,32], const f32[2,90,4,4]; strides=[4,4])", true);
  INFO(schedule);
  CHECK(count(schedule, "reorder T (n ob0 y py x0 px c ") == 1);
}

TEST_CASE("every output of a transposed convolution is written once, whatever its taps reach") {
  for (const char* spec :
       {"ConvTranspose(f32[1,2,5,4], const f32[2,3,2,1], const f32[3]; strides=[6,4], dilations=[4,2])",
        "ConvTranspose(f32[1,2,5,4], const f32[2,3,3,3], const f32[3]; strides=[4,6], dilations=[6,3], "
        "pads=[1,2,0,1], output_padding=[3,3])",
        "ConvTranspose(f32[2,6,3,2,4], const f32[6,2,2,3,1]; group=3, strides=[3,2,4], dilations=[3,2,1], "
        "pads=[2,1,1,1,2,0])",
        "ConvTranspose(f32[1,2,1], const f32[2,3,1], const f32[3]; strides=[4], dilations=[4], pads=[1,0], "
        "output_padding=[3])",  // nothing reaches any
        "ConvTranspose(f32[1,2,3], const f32[2,3,2]; strides=[3], dilations=[3], pads=[3,6])"}) {
    INFO(spec);
    for (const CompiledFunction& f : compiled(spec, host_target()).funcs) {
      check_proof(f);
      check_results(f, host_target());
    }
  }
}

TEST_CASE("rows that share nothing keep an FMA's latency busy where a few vectors don't") {
  // A result a channel: 42 columns are three vectors, too few accumulators.
  const std::string schedule =
      schedule_of("Conv(f32[1,128,20,41], f32[8,16,2,2]; group=8, pads=[0,0,0,1])", true);
  INFO(schedule);
  CHECK(count(schedule, "unroll Y.y") == 1);
  CHECK(count(schedule, "vectorize Y.x") == 1);
}

TEST_CASE("a constant is packed for lanes only where they alone are an index of it") {
  const std::string spec =
      "ConvTranspose(f32[1,4,24,31], const f32[4,8,5,5]; strides=[4,4], output_padding=[3,3])";
  const std::string schedule = schedule_of(spec, true);
  INFO(schedule);
  CHECK(count(schedule, "vectorize T3.x") == 1);  // its filters and residues are one iterator
}

TEST_CASE("convolutions with few filters are products of matrices and a Col2Im, whose schedules are proved") {
  Target shares_all = host_target();
  shares_all.parallel_us = 0;
  for (const Target& target : {shares_all, parse_target("x86-64-v3")})
    for (const char* spec :
         {"ConvTranspose(f32[2,128,7,21], const f32[128,3,5,5], const f32[3]; strides=[3,2], "
          "dilations=[2,1], "
          "pads=[1,2,0,1], output_padding=[1,1])",
          "ConvTranspose(f32[1,192,9,20], const f32[192,2,4,4]; group=2, strides=[2,2], pads=[1,1,1,1])",
          "ConvTranspose(f32[1,96,4,3,18], const f32[96,1,3,3,3]; strides=[2,2,2], output_padding=[1,1,0])",
          "ConvTranspose(f32[1,96,40], const f32[96,1,5]; strides=[5], dilations=[3])",
          // Columns that no tap reaches have nothing but the bias.
          "ConvTranspose(f32[1,96,16,1], const f32[96,2,1,2], const f32[2]; dilations=[1,2])",
          "ConvTranspose(f32[1,200,7,5], const f32[200,3,4,1], const f32[3]; strides=[1,3])",
          "Conv(f32[1,96,10,10], const f32[1,96,3,3], const f32[1]; pads=[1,1,1,1])"}) {
      const CompiledModel model = compile_model(spec, options_for(target, true));
      INFO(spec << " for " << target.name);
      CHECK(model.funcs.size() == 2);
      for (const CompiledFunction& f : model.funcs) {
        INFO(f.func.name);
        CHECK(verify_schedule(f.func, f.scheduled, {.seconds = 60}).ok());
        for (const OutputCheck& c : check_function(f, Against::oracle, target)) {
          INFO(describe(c.comparison, c.name, c.want));
          CHECK(c.comparison.ok());
        }
      }
    }
}

TEST_CASE("columns are added up by lanes along the image, and written interleaved") {
  const CompileOptions options = options_for(parse_target("x86-64-v4"), true);
  const CompiledModel m = partition_model(
      load("ConvTranspose(f32[1,192,9,40], const f32[192,2,4,4]; strides=[2,2], pads=[1,1,1,1])"), options);
  REQUIRE(m.partition.funcs.size() == 2);
  const std::string schedule = print(default_schedule(m.partition.funcs[1], options.target));
  INFO(schedule);
  CHECK(count(schedule, "unroll Y.p") == 1);
  CHECK(count(schedule, "vectorize Y.x") == 1);
}

TEST_CASE("lines of an image that lie beside each other are put together, whole strides of them") {
  const CompileOptions options = options_for(parse_target("x86-64-v4"), true);
  const std::string schedule = last_schedule(
      "ConvTranspose(f32[1,192,9,20], const f32[192,2,5,5]; strides=[3,3], pads=[1,1,1,1])", options, 2);
  INFO(schedule);
  CHECK(count(schedule, "y_rows = sample_choice [3, 16] -> 3") == 1);
  CHECK(count(schedule, "unroll Y.y1") == 1);
  CHECK(count(schedule, "reorder Y (n o y0 x0 p y1 x1)") == 1);
}

TEST_CASE("columns that are added up aren't asked for ahead, and lines are put together from left to right") {
  CompileOptions options = options_for(with_far_l3("x86-64-v4", 1 << 20), true);
  options.target.cores = 1;
  const std::string schedule = last_schedule(
      "Col2Im(f32[1,72,4096], const i64[2]{129,129}, const i64[2]{3,3}; strides=[2,2])", options, 1);
  INFO(schedule);
  CHECK(count(schedule, " X distance=") == 0);
  CHECK(count(schedule, "prefetch Y.x0 Y distance=2") == 1);
  CHECK(count(schedule, "reorder Y (n o y0 x0 p y1 x1)") == 1);
}

TEST_CASE("five taps along each of three dimensions are added up in one expression") {
  const CompileOptions options = options_for(parse_target("x86-64-v4"), true);
  const CompiledModel m = compile_model(
      "Col2Im(f32[1,250,36], const i64[3]{20,14,12}, const i64[3]{5,5,5}; strides=[2,2,2], "
      "dilations=[2,2,2])",
      options);
  const std::string nests = print(m.funcs[0].func);
  INFO(nests);
  CHECK(count(nests, "alloc") == 0);
  for (const OutputCheck& c : check_function(m.funcs[0], Against::oracle, to_run(options.target))) {
    INFO(describe(c.comparison, c.name, c.want));
    CHECK(c.comparison.ok());
  }
}

TEST_CASE("whether taps reach a line of the image is asked once for all columns that fall on it") {
  const CompileOptions options = options_for(parse_target("x86-64-v4"), true);
  const CompiledModel m = partition_model(
      load("ConvTranspose(f32[1,74,8,8,5], const f32[74,17,4,4,4]; strides=[2,2,2], dilations=[2,2,2])"),
      options);
  REQUIRE(m.partition.funcs.size() == 2);
  const std::string nests = print(m.partition.funcs[1]);
  INFO(nests);
  CHECK(count(nests, "vz % 2 == 0") == 2);  // whole strides of the last dimension, and the rest
  CHECK(count(nests, "vz < 16") == 2);      // of tap 0, not of each of 16 windows that begin with it
}

TEST_CASE("planes of channels stand around the taps within one, in whichever order they are added up") {
  const std::string planes =
      "ConvTranspose(f32[1,256,16,13,16], const f32[256,8,3,3,3]; strides=[2,2,2], "
      "pads=[1,1,1,1,1,1], dilations=[2,2,2])";
  CHECK(count(schedule_of(planes, false), " c q r s o z1 x)") == 1);
  // Channels that lie beside each other stay inside.
  const std::string blocks = "ConvTranspose(f32[1,64,9,9], const f32[64,48,3,3]; strides=[2,2])";
  CHECK(count(schedule_of(blocks, true), "r s c") > 0);
}

TEST_CASE("filters share their iterator with residues where rows fill the lanes much better") {
  const auto joined = [](const std::string& spec, const char* cpu) {
    const CompiledModel m = partition_model(load(spec), options_for(parse_target(cpu), true));
    const std::string nests = print(m.partition.funcs.back());
    INFO(nests);
    return count(nests, "vo/3") > 0;  // three residues have one tap
  };
  const std::string eight = "ConvTranspose(f32[1,16,9,15], const f32[16,8,5,5]; strides=[4,4])",
                    short_rows = "ConvTranspose(f32[1,16,9,7], const f32[16,8,5,5]; strides=[4,4])",
                    twelve = "ConvTranspose(f32[1,4,9,16], const f32[4,12,5,5]; strides=[4,4])",
                    of_one = "ConvTranspose(f32[1,8,5,{}], const f32[8,1,5,5]; strides=[4,4], group=8)";
  CHECK(!joined(eight, "x86-64-v3"));  // its filters fill the lanes
  CHECK(joined(eight, "x86-64-v4"));
  CHECK(!joined(short_rows, "x86-64-v4"));
  CHECK(!joined(twelve, "x86-64-v4"));
  CHECK(joined("ConvTranspose(f32[1,16,9,7], f32[16,8,5,5]; strides=[4,4])", "x86-64-v4"));  // no constant
  for (const int row : {7, 16}) {  // filters of groups of one are no lanes
    const std::string spec = fmt::format(fmt::runtime(of_one), row);
    CHECK(joined(spec, "x86-64-v4") == (row == 16));
    check_default(spec, parse_target("x86-64-v4"), false);
  }
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    for (const std::string& spec : {eight, short_rows, twelve}) check_default(spec, parse_target(cpu), true);
    check_default("ConvTranspose(f32[1,24,5,4,6], const f32[24,8,3,3,3], const f32[8]; strides=[2,2,2])",
                  parse_target(cpu), true);
  }
}

TEST_CASE("nests of a transposed convolution share outer loops where its output leaves the cache") {
  const std::string spec =
      "ConvTranspose(f32[1,4,12,14], const f32[4,128,3,3]; strides=[3,3], output_padding=[2,2])";
  const std::string one_nest = "ConvTranspose(f32[1,4,9,17], const f32[4,64,2,2]; strides=[2,2])";
  for (const int cores : {1, 2}) {
    Target target = with_l2("x86-64-v3", 64 << 10);
    target.parallel_us = 0;
    target.cores = cores;
    const std::string schedule = last_schedule(spec, options_for(target, true), 1);
    INFO(cores << " cores\n" << schedule);
    for (const char* nest : {"T1", "T2", "T3"})
      CHECK(count(schedule, fmt::format("merge T.ob0 {}.ob0", nest)) == 1);
    CHECK(count(last_schedule(one_nest, options_for(target, true), 1), "merge") == 0);
    for (const bool blocked : {false, true}) {
      check_default(spec, target, blocked);
      check_default("ConvTranspose(f32[1,5,13,12], const f32[5,128,3,3]; strides=[2,2], pads=[1,1,1,1])",
                    target, blocked);
    }
    target.l2_bytes = 1 << 20;
    CHECK(count(last_schedule(spec, options_for(target, true), 1), "merge") == 0);
  }
}
