// Winograd's convolutions through the whole compiler: what they compute is the direct sum within their bound,
// which is no wider than it has to be; they are chosen where the model of their cost says so, and nowhere
// else.
#include <algorithm>

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "nestor/walk.h"
#include "tests/driver/compiled.h"
#include "tests/driver/winograd_layer.h"

using namespace nestor;

namespace {

using Ints = std::vector<int64_t>;
using Layer = WinogradLayer;

// Of the convolution, 0 for the direct sum.
int64_t chosen_tile(const Layer& l, const CompileOptions& o) {
  const CompiledModel m = partition_model({graph_of(l), std::nullopt}, o);
  for (const Node& n : m.graph.nodes)
    if (n.op == "WinogradConv") return std::get<int64_t>(n.attrs.at("tile"));
  return 0;
}

bool chooses_winograd(const Layer& l, bool exact = false, int64_t* tile = nullptr, int threads = 1) {
  CompileOptions o = checking_options(parse_target("x86-64-v4"));
  o.exact_conv = exact;
  o.threads = threads;
  const CompiledModel m = partition_model({graph_of(l), std::nullopt}, o);
  for (const Node& n : m.graph.nodes)
    if (n.op == "WinogradConv" && tile) *tile = std::get<int64_t>(n.attrs.at("tile"));
  return count_winograd(m) > 0;
}

// For one thread of a server's core: 1 MB of second-level cache, 36 of third, which is near or far.
CompileOptions server_options(double l3_bytes_per_cycle) {
  CompileOptions o = checking_options(parse_target("x86-64-v4"));
  o.threads = 1;
  o.target.l2_bytes = 1 << 20;
  o.target.l3_bytes = 36 << 20;
  o.target.l3_bytes_per_cycle = l3_bytes_per_cycle;
  return o;
}

}  // namespace

TEST_CASE("Winograd's convolutions are the direct ones within their bound, at all sizes") {
  const std::vector<Layer> layers = {
      {.height = 8, .width = 12},
      {.channels = 32, .filters = 48, .height = 15, .width = 17},
      {.n = 2, .height = 7, .width = 7, .tail = "Add"},
      {.n = 3, .channels = 16, .filters = 32, .height = 9, .width = 5, .pads = {0, 0, 0, 0}, .tail = ""},
      {.height = 14, .width = 14, .pads = {0, 1, 2, 3}},
      {.height = 6, .width = 6, .pads = {0, 0, 0, 0}},
      {.height = 2, .width = 2},  // of one column two taps of a row would be cut off
      {.height = 3, .width = 40, .pads = {0, 0, 0, 0}},
      {.n = 2, .height = 30, .width = 3, .tail = "Add"},
      {.channels = 13, .filters = 29, .height = 9, .width = 10},  // blocks that aren't full
      {.n = 2, .channels = 15, .filters = 15, .height = 10, .width = 6, .tail = "Add"},
      {.channels = 30, .filters = 16, .height = 8, .width = 9, .tail = ""},
  };
  for (const Target& target : {host_target(), parse_target("x86-64-v3")})
    for (const int64_t tile : {2, 3, 4})
      for (const Layer& l : layers) {
        const CompiledModel m = forced_winograd(l, tile, target);
        INFO(target.name << ": tile " << tile << ", " << l.n << "x" << l.channels << "x" << l.height << "x"
                         << l.width << " to " << l.filters << ", tail " << l.tail);
        REQUIRE(count_winograd(m) == 1);
        int checked = 0;
        for (size_t call = 0; call < m.partition.calls.size(); ++call)
          for (const OutputCheck& c : check_algorithm(m, call)) {
            INFO(describe(c.comparison, c.name, c.want));
            CHECK(c.comparison.ok());
            ++checked;
          }
        CHECK(checked == 1);
        for (const CompiledFunction& f : m.funcs) {
          if (tile >= 3 && target.vector_bits == host_target().vector_bits) {  // proofs take a while
            const Proof proof = verify_schedule(f.func, f.scheduled, {.seconds = 60});
            INFO(f.func.name << ": " << describe(proof));
            CHECK(proof.ok());
          }
          for (const OutputCheck& c : check_function(f, Against::lowered, to_run(target))) {
            INFO(describe(c.comparison, c.name, c.want));
            CHECK(c.comparison.ok());
          }
        }
      }
}

TEST_CASE("A Winograd convolution that loses more than its bound is found out") {
  CompiledModel m =
      forced_winograd({.channels = 64, .filters = 32, .height = 15, .width = 14}, 4, host_target());
  size_t call = 0;
  while (check_algorithm(m, call).empty()) ++call;
  const OutputCheck right = check_algorithm(m, call)[0];
  CHECK(right.comparison.ok());
  // The bound holds for every rounding that there could be, so that it is wide; yet 2e-4 of the weights
  // aren't lost in it.
  for (const Node& n : m.graph.nodes)
    if (n.op == "WinogradConv") {
      Tensor& u = m.graph.values[static_cast<size_t>(n.inputs[1])].constant;
      u = u.clone();
      for (int64_t i = 0; i < u.size(); ++i) u.set(i, u.get(i) * (1 + 2e-4));
    }
  CHECK_FALSE(check_algorithm(m, call)[0].comparison.ok());
}

TEST_CASE("Winograd is chosen for large 3x3 layers only, and where rounding may be worse") {
  const Layer large{.channels = 64, .filters = 64, .height = 28, .width = 28};
  int64_t tile = 0;
  CHECK(chooses_winograd(large, false, &tile));
  CHECK(tile == 4);
  CHECK_FALSE(chooses_winograd(large, true));
  const auto with = [&](auto change) {
    Layer l = large;
    change(l);
    return chooses_winograd(l);
  };
  CHECK_FALSE(with([](Layer& l) { l.constant_weights = false; }));
  CHECK_FALSE(with([](Layer& l) { l.more["strides"] = Ints{2, 2}; }));
  CHECK_FALSE(with([](Layer& l) { l.more["dilations"] = Ints{2, 2}; }));
  CHECK(with([](Layer& l) { l.channels = 60; }));  // the last block is filled up
  CHECK(with([](Layer& l) { l.filters = 60; }));
  CHECK_FALSE(with([](Layer& l) { l.channels = 4; }));          // too little of it
  CHECK_FALSE(with([](Layer& l) { l.height = l.width = 2; }));  // a tile hangs over on all sides
  const Layer many{.channels = 256, .filters = 256, .height = 7, .width = 7};  // weights come from behind L2
  for (const int threads : {1, 2, 8}) CHECK(chooses_winograd(many, false, nullptr, threads));
}

TEST_CASE("Winograd isn't chosen where a vector of channels is transformed in pieces") {
  const auto chosen = [](const char* cpu, int64_t channels) {
    const Layer l{.channels = channels, .filters = 16, .height = 124, .width = 124};
    return chosen_tile(l, checking_options(parse_target(cpu))) > 0;
  };
  for (const int64_t channels : {5, 6, 7}) CHECK_FALSE(chosen("x86-64-v3", channels));
  for (const int64_t channels : {8, 12}) CHECK(chosen("x86-64-v3", channels));
  CHECK(chosen("x86-64-v4", 12));  // stores have masks
}

TEST_CASE("Winograd's tiles are as large as fit the image, and smaller where weights come from far away") {
  const auto tile = [](int64_t channels, int64_t size, double l3_bytes_per_cycle = 16) {
    const Layer l{.channels = channels, .filters = channels, .height = size, .width = size};
    return chosen_tile(l, server_options(l3_bytes_per_cycle));
  };
  for (const double far : {16, 9}) {
    for (const int64_t channels : {64, 128, 256}) {
      CHECK(tile(channels, 9, far) == 3);   // 3 x 3 tiles of 25 products, not 3 x 3 of 36
      CHECK(tile(channels, 16, far) == 4);  // 4 x 4 of 36, not 6 x 6 of 25
    }
    CHECK(tile(64, 28, far) == 4);
    CHECK(tile(64, 56, far) == 4);
    CHECK(tile(64, 3, far) != 3);  // one tile: nothing shares its weights
    CHECK(tile(512, 7, far) == 2);
  }
  for (const int64_t channels : {128, 192, 256, 384}) CHECK(tile(channels, 14, 9) == 3);
  for (const int64_t channels : {64, 128, 256}) CHECK(tile(channels, 14, 16) == 4);
  CHECK(tile(64, 45, 9) == 3);  // rows of tiles of 4 would leave the second-level cache
}

TEST_CASE("How far weights come from decides among Winograd's tiles, not between them and the direct sum") {
  const CompileOptions o = server_options(9);
  CHECK(chosen_tile({.n = 4, .channels = 32, .filters = 512, .height = 7, .width = 7}, o) == 4);
}

TEST_CASE("Winograd's products are register tiles whose weights lie as they read them") {
  const Target target = parse_target("x86-64-v4");
  for (const Layer& l : {Layer{.channels = 64, .filters = 64, .height = 28, .width = 28},
                         Layer{.channels = 128, .filters = 96, .height = 15, .width = 17}}) {
    int found = 0;
    for (const CompiledFunction& f : forced_winograd(l, 4, target).funcs) {
      const std::string steps = print(default_schedule(f.func, target));
      if (steps.find("transform_layout U") == std::string::npos) continue;
      ++found;
      CHECK(steps.find("compute_at M ") != std::string::npos);
      CHECK(steps.find("compute_at R ") != std::string::npos);
    }
    CHECK(found == 1);
  }
}

TEST_CASE("Winograd's products go by blocks of channels, also where these don't fill the last one") {
  const Target target = parse_target("x86-64-v4");
  int found = 0;
  for (const CompiledFunction& f :
       forced_winograd({.channels = 45, .filters = 32, .height = 28, .width = 56}, 4, target).funcs) {
    const std::string steps = print(default_schedule(f.func, target));
    if (steps.find("transform_layout U") == std::string::npos) continue;
    ++found;
    CHECK(steps.find("c0 c1 = split M.c [_, 16] tail=peel") != std::string::npos);
    const Proof proof = verify_schedule(f.func, f.scheduled, {.seconds = 60});
    INFO(f.func.name << ": " << describe(proof));
    CHECK(proof.ok());
  }
  CHECK(found == 1);
}

TEST_CASE("Rows of Winograd's tiles go by blocks that threads share, as small as fill a register tile") {
  const auto blocks = [](const Layer& l, const Target& target) {
    std::string found;
    for (const CompiledFunction& f : forced_winograd(l, 4, target).funcs) {
      const Proof proof = verify_schedule(f.func, f.scheduled, {.seconds = 60});
      INFO(f.func.name << ": " << describe(proof));
      CHECK(proof.ok());
      for (const OutputCheck& c : check_function(f, Against::lowered, to_run(target)))
        CHECK(c.comparison.ok());
      for_each_stmt(f.scheduled.body, [&](const Stmt& s) {
        const auto* loop = s.as<For>();
        if (!loop || !loop->var->name.ends_with("_b")) return;
        found += loop->kind == ForKind::parallel ? "parallel " : "serial ";
        found += print(loop->extent);
      });
    }
    return found;
  };
  Target target = parse_target("x86-64-v4");
  target.cores = 1;
  target.parallel_us = 0;
  const Layer wide{.height = 32, .width = 56};  // 8 rows of 14 tiles
  CHECK(blocks(wide, target) == "parallel 8");
  const Layer narrow{.height = 48, .width = 16};  // 12 rows of 4
  CHECK(blocks(narrow, target) == "parallel 3");
  target.cores = 2;
  CHECK(blocks(narrow, target) == "parallel 2");
}

TEST_CASE(
    "Rows of Winograd's tiles go by blocks that stay; behind a far third level also if some are left over") {
  // Rows of the image in a block, 0: all of them are one.
  const auto rows = [](int64_t channels, int64_t filters, int64_t size, double l3_bytes_per_cycle,
                       int64_t n = 1, int cores = 1, int issue_width = 4) {
    Target target = parse_target("x86-64-v4");
    target.cores = cores;
    target.issue_width = issue_width;
    target.l2_bytes = 1 << 20;
    target.l3_bytes_per_cycle = l3_bytes_per_cycle;
    const Layer l{.n = n, .channels = channels, .filters = filters, .height = size, .width = size};
    for (const CompiledFunction& f : forced_winograd(l, 4, target).funcs) {
      const std::string steps = print(default_schedule(f.func, target));
      const size_t split = steps.find("_r = split ");
      if (split != std::string::npos) return std::stoi(steps.substr(steps.find("[_, ", split) + 4));
    }
    return 0;
  };
  CHECK(rows(192, 64, 56, 9) == 4);
  CHECK(rows(192, 64, 56, 16) == 4);
  CHECK(rows(256, 256, 56, 16) == 4);  // a panel of weights hides behind 14 tiles
  CHECK(rows(16, 256, 112, 16) == 4);  // what a row has doesn't quite stay, more has still less room
  CHECK(rows(128, 128, 28, 9) == 12);  // 3 of 7 rows of tiles
  CHECK(rows(128, 128, 28, 16) == 0);  // not behind 7
  CHECK(rows(128, 128, 28, 9, 4) == 0);
  CHECK(rows(128, 128, 28, 9, 1, 2) == 8);     // two blocks for each thread
  CHECK(rows(128, 128, 28, 9, 1, 2, 6) == 0);  // a wide core gets others' part while it works on
  CHECK(rows(64, 64, 28, 9, 1, 2, 6) == 4);    // unless weights stay
  CHECK(rows(128, 128, 28, 9, 1, 1, 6) == 0);  // one core leaves none over
  CHECK(rows(256, 256, 28, 9) == 0);           // whose weights are more than what is transformed
}

TEST_CASE("Winograd's schedules are proved within the limit of their time, whatever their tiles' divisors") {
  CompileOptions options = checking_options(parse_target("x86-64-v4"));
  options.threads = 2;
  options.blocked_io = true;
  for (const char* spec : {"Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])",
                           "Conv(f32[1,128,28,28], const f32[128,128,3,3]; pads=[1,1,1,1])",
                           "Conv(f32[3,60,64,41], const f32[64,60,3,3]; pads=[1,2,1,2])"}) {
    const CompiledModel m = compile_model(spec, options);
    CHECK(count_winograd(m) == 1);
    for (const CompiledFunction& f : m.funcs) {
      const Proof proof = verify_schedule(f.func, f.scheduled);
      INFO(f.func.name << ": " << describe(proof));
      CHECK(proof.ok());
    }
  }
}

TEST_CASE("A block of rows of Winograd's tiles transforms only its own, whatever the products' tile leaves") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    Target target = parse_target(name);
    for (const int64_t tiles : {23, 32, 37}) {
      target.cores = 1;
      INFO(name << ", " << tiles << " tiles");
      const Layer l{.channels = 32, .filters = 32, .height = 32, .width = 4 * tiles};
      std::string text;
      for (const CompiledFunction& f : forced_winograd(l, 4, target).funcs)
        if (print(f.scheduled).find(" V(") != std::string::npos) text = print(f.lowered);
      const std::string of_row = "alloc V: f32[" + std::to_string(36 * tiles * 32) + "]";
      CHECK(text.find(of_row) != std::string::npos);
      CHECK(text.find("for v_t0 in") == std::string::npos);  // nothing for the next block
      target.cores = 2;
      target.parallel_us = 0;
      for (const CompiledFunction& f : forced_winograd(l, 4, target).funcs) text += print(f.scheduled);
      CHECK(text.find("parallel h_b in 8") != std::string::npos);  // which threads share
    }
  }
}

TEST_CASE("Weights that are asked for ahead keep no layer of few tiles from a larger tile") {
  const CompileOptions o = server_options(16);
  for (const auto& [channels, filters] :
       {std::pair<int64_t, int64_t>{96, 160}, {160, 96}, {128, 128}, {192, 128}}) {
    INFO(channels << " to " << filters);
    CHECK(chosen_tile({.channels = channels, .filters = filters, .height = 14, .width = 14}, o) == 4);
  }
  // 4 tiles of 4 x 4 would use each line too rarely.
  CHECK(chosen_tile({.channels = 256, .filters = 256, .height = 7, .width = 7}, o) == 2);
}

TEST_CASE("Products that go behind the second-level cache are no gain where channels or filters are few") {
  // The tile, 0 for the direct sum.
  const auto chosen = [](int64_t filters, double l3_bytes_per_cycle, int64_t channels = 16,
                         int64_t l2_bytes = 2 << 20, int64_t size = 104) {
    CompileOptions o = checking_options(parse_target("x86-64-v4"));
    o.target.l2_bytes = l2_bytes;
    o.target.l3_bytes_per_cycle = l3_bytes_per_cycle;
    const Layer l{.channels = channels, .filters = filters, .height = size, .width = size};
    return chosen_tile(l, o);
  };
  CHECK(chosen(192, 4));
  CHECK_FALSE(chosen(384, 4));
  CHECK(chosen(384, 16, 32));  // a near third level
  CHECK_FALSE(chosen(384, 4, 32));
  CHECK(chosen(384, 16));  // there those of few channels are made for a few filters at a time
  CHECK_FALSE(chosen(256, 9, 16, 1 << 20));
  CHECK_FALSE(chosen(16, 9, 256, 1 << 20));    // what is transformed, likewise
  CHECK(chosen(64, 9, 128, 1 << 20));          // more channels share it
  CHECK(chosen(64, 9, 64, 1 << 20, 56) == 4);  // a row of tiles stays
}

TEST_CASE("Weights are transformed here for targets that can't run here") {
  const CompiledModel m = compile_model("Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])",
                                        checking_options(parse_target("aarch64")));
  CHECK(count_winograd(m) == 1);
  for (const Node& n : m.graph.nodes)
    if (n.op == "WinogradConv") CHECK(m.graph.values[static_cast<size_t>(n.inputs[1])].constant.defined());
}

TEST_CASE("A naive compilation has no Winograd") {
  Layer l{.channels = 64, .filters = 64, .height = 28, .width = 28};
  const CompiledModel m = partition_model({graph_of(l), std::nullopt}, CompileOptions::naive());
  CHECK(count_winograd(m) == 0);
}
