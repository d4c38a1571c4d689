// Winograd's convolutions of several images: those of one tile along a side, and blocks of whole images.
#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "tests/driver/compiled.h"
#include "tests/driver/winograd_layer.h"

using namespace nestor;

namespace {

// The default schedule of the convolution.
std::string schedule_of(const CompiledModel& m, const Target& target) {
  for (const CompiledFunction& f : m.funcs)
    if (print(f.func).find(" V(") != std::string::npos) return print(default_schedule(f.func, target));
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Images of one of Winograd's tiles along a side are planned as others are") {
  const std::vector<WinogradLayer> layers = {
      {.n = 5, .height = 4, .width = 4},
      {.n = 6, .height = 4, .width = 11, .tail = "Add"},
      {.n = 3, .height = 10, .width = 4, .tail = ""},
      {.n = 4, .channels = 32, .filters = 48, .height = 3, .width = 3},
      {.n = 2, .channels = 13, .filters = 29, .height = 2, .width = 9},
      {.height = 4, .width = 16},  // of one image: all tiles are one row
      {.height = 19, .width = 3},  // or one column
  };
  for (const Target& target : {parse_target("x86-64-v4"), parse_target("x86-64-v3")})
    for (const WinogradLayer& l : layers) {
      INFO(target.name << ": " << l.n << "x" << l.channels << "x" << l.height << "x" << l.width << " to "
                       << l.filters << ", tail " << l.tail);
      const CompiledModel m = forced_winograd(l, 4, target);
      REQUIRE(count_winograd(m) == 1);
      const std::string steps = schedule_of(m, target);
      CHECK(has(steps, "compute_at R Y."));
      CHECK(has(steps, "unroll V."));
      for (const CompiledFunction& f : m.funcs) {
        check_proof(f);
        check_results(f, target);
      }
    }
}

TEST_CASE("A block of Winograd's tiles is of several images where each has few") {
  const auto images = [](const WinogradLayer& l, int cores) {
    Target target = with_l2("x86-64-v3", 512 << 10);
    target.cores = cores;
    const CompiledModel m = forced_winograd(l, 4, target);
    for (const CompiledFunction& f : m.funcs) {
      check_proof(f);
      check_results(f, target);
    }
    const std::string steps = schedule_of(m, target), split = "n_b n_r = split Y.n [_, ";
    const size_t at = steps.find(split);
    return at == std::string::npos ? 0 : std::stoi(steps.substr(at + split.size()));
  };
  // As few as fill a register tile of the products; 0: each image, or all of them, are one block.
  CHECK(images({.n = 64, .channels = 16, .filters = 32, .height = 4, .width = 4}, 1) == 8);
  CHECK(images({.n = 64, .channels = 16, .filters = 32, .height = 4, .width = 4}, 2) == 8);
  CHECK(images({.n = 60, .channels = 16, .filters = 32, .height = 4, .width = 8}, 1) == 3);
  CHECK(images({.n = 8, .channels = 16, .filters = 32, .height = 16, .width = 16}, 1) == 0);
  CHECK(images({.n = 6, .channels = 16, .filters = 32, .height = 4, .width = 4}, 1) == 0);
}

TEST_CASE("Rows of Winograd's results are asked for ahead where the second-level cache doesn't hold them") {
  const auto steps = [](const WinogradLayer& l, const Target& target) {
    const CompiledModel m = forced_winograd(l, 4, target);
    for (const CompiledFunction& f : m.funcs) check_results(f, target);
    return schedule_of(m, target);
  };
  Target near = with_l2("x86-64-v3", 512 << 10), far = with_far_l3("x86-64-v3", 512 << 10);
  near.cores = far.cores = 1;
  const WinogradLayer wide{.channels = 16, .filters = 32, .height = 52, .width = 56};
  const WinogradLayer few{.n = 3, .channels = 16, .filters = 8, .height = 60, .width = 56};
  CHECK(has(steps(wide, near), "prefetch Y.cb Y distance=1 shares=w0"));
  CHECK(has(steps(few, near), "prefetch Y.w0 Y distance=1"));  // of one block of filters
  CHECK_FALSE(has(steps(wide, far), "prefetch Y."));
  CHECK_FALSE(has(steps({.channels = 16, .filters = 32, .height = 40, .width = 40}, near), "prefetch Y."));
}

TEST_CASE("Winograd's results that are rounded to bytes are made block by block as others are") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const Target target = with_l2(name, 512 << 10);
    const WinogradLayer l{.channels = 16, .filters = 32, .height = 20, .width = 20, .tail = "Bytes"};
    const CompiledModel m = forced_winograd(l, 4, target);
    REQUIRE(count_winograd(m) == 1);
    for (const CompiledFunction& f : m.funcs) check_results(f, target);
    const auto f = std::find_if(m.funcs.begin(), m.funcs.end(), [](const CompiledFunction& c) {
      return c.func.name.starts_with("winograd");
    });
    REQUIRE(f != m.funcs.end());
    CHECK(f->func.params.back().decl.buffer->type.dtype == DType::u8);
    CHECK(has(print(f->choice.trace), "unroll M."));
  }
}

TEST_CASE(
    "Winograd isn't chosen near the third level where channels are so few that results are most of it") {
  const auto chosen = [](int64_t channels, double l3_bytes_per_cycle) {
    CompileOptions o = checking_options(parse_target("x86-64-v3"));
    o.threads = 1;
    o.target.l3_bytes_per_cycle = l3_bytes_per_cycle;
    return count_winograd(partition_model(
               {graph_of({.n = 8, .channels = channels, .filters = 64, .height = 32, .width = 32}), {}}, o)) >
           0;
  };
  CHECK_FALSE(chosen(4, 16));
  CHECK(chosen(8, 16));
  CHECK(chosen(4, 9));  // behind a far one that wasn't seen
}
