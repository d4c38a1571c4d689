// Default schedules for machines with more cores than this one: how many threads, what they share, and
// whether long reductions are taken apart.
#include <fmt/format.h>

#include <algorithm>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

Target with_cores(int cores) {
  Target t = parse_target("x86-64-v4");
  t.cores = cores;
  t.l3_bytes = 32 << 20;
  return t;
}

struct Shared {
  int64_t iterations = 0, threads = 0;
  double busy() const {  // share of the time in which no thread waits
    return static_cast<double>(iterations) / static_cast<double>(ceil_div(iterations, threads) * threads);
  }
};

// The parallel loops of the default, and the threads that it wants for them.
std::vector<Shared> shared_by(const Target& target, const std::string& spec) {
  std::vector<Shared> out;
  for (const CompiledFunction& f : compiled(spec, target).funcs)
    for_each_stmt(f.scheduled.body, [&](const Stmt& s) {
      const auto* loop = s.as<For>();
      if (!loop || loop->kind != ForKind::parallel) return;
      const auto it = loop->annotations.find("threads");
      out.push_back({as_int(loop->extent).value_or(0),
                     it == loop->annotations.end() ? target.cores : std::get<int64_t>(it->second)});
    });
  return out;
}

bool is_factored(const Target& target, const std::string& spec) {
  bool found = false;
  for (const CompiledFunction& f : compiled(spec, target).funcs)
    found |= print(f.scheduled).find("_parts") != std::string::npos;
  return found;
}

}  // namespace

TEST_CASE("short loops beside one that threads share are shared as well") {
  const Target two = with_cores(2);
  // The transforms around the products, and the padding before the groups.
  CHECK(shared_by(two, "Conv(f32[1,512,7,7], const f32[512,512,3,3]; pads=[1,1,1,1])").size() == 3);
  CHECK(shared_by(two, "Conv(f32[1,128,28,28], const f32[128,4,5,5]; group=32, pads=[2,2,2,2])").size() == 2);
  // Nothing else wakes the threads.
  CHECK(shared_by(two, "Conv(f32[1,64,7,7], const f32[64,4,3,3]; group=16, pads=[1,1,1,1])").empty());
}

TEST_CASE("nests that take turns are shared if all of them together are worth threads") {
  // Four of about 10, 5, 5 and 2 us.
  const std::string spec =
      "ConvTranspose(f32[1,4,12,24], const f32[4,128,3,3]; strides=[3,3], output_padding=[2,2])";
  for (const double worth : {4, 8, 15, 40}) {
    Target target = with_l2("x86-64-v3", 64 << 10);
    target.cores = 2;
    target.parallel_us = worth;
    INFO(worth);
    for (const char* nest : {"T1", "T2", "T3"})
      CHECK(default_has(spec, fmt::format("merge T.ob0 {}.ob0", nest), target));
    CHECK(default_has(spec, "parallel T.ob0", target) == (worth < 40));
    check_default(spec, target);
  }
}

TEST_CASE("less is worth threads where the third level is far") {
  Target near = with_cores(2);
  near.parallel_us = 20;
  Target far = near;
  far.l3_bytes_per_cycle = 9;
  for (const char* spec : {"Relu(f32[250,1000])", "MatMul(f32[1,768], const f32[768,768])"}) {
    INFO(spec);
    CHECK(shared_by(near, spec).empty());
    CHECK(shared_by(far, spec).size() == 1);
  }
  CHECK(shared_by(far, "Relu(f32[100,1000])").empty());  // in the second-level cache
}

TEST_CASE("the model: a loop gets the threads on which it takes the least") {
  using library::threads_for;
  using library::Work;
  for (const int cores : {2, 8, 64, 192}) {
    const Target t = with_cores(cores);
    const library::Threads best = threads_for(Work{130, 0}, INT64_MAX, t);
    CHECK(best.count == std::min(cores, 21));  // sqrt(130 / 0.3)
    for (int p = 2; p <= cores; ++p)
      CHECK(best.microseconds <= library::microseconds_on(Work{130, 0}, p, INT64_MAX, t));
    CHECK(threads_for(Work{1e6, 0}, INT64_MAX, t).count == cores);
    CHECK(threads_for(Work{1e6, 0}, 2, t).count == 2);
  }
  // 96 iterations on 64 cores: two turns, for which 48 are enough.
  CHECK(threads_for(Work{1e6, 0}, 96, with_cores(64)).count == 48);
}

TEST_CASE("the model: cores beyond those that fill the memory bring nothing") {
  using library::threads_for;
  using library::Work;
  const Target t = with_cores(64);
  const library::Threads bound = threads_for(Work{100, 4000}, INT64_MAX, t);
  CHECK(bound.memory_binds);
  CHECK(bound.count == 12);
  CHECK(threads_for(Work{100, 4000}, INT64_MAX, with_cores(192)).count == 38);
  CHECK(threads_for(Work{100, 4000}, INT64_MAX, with_cores(8)).count == 4);
  CHECK(!threads_for(Work{100, 0}, INT64_MAX, t).memory_binds);
}

TEST_CASE("threads are kept busy on any number of cores") {
  for (const int cores : {2, 8, 64, 192})
    for (const char* spec : {"MatMul(f32[1024,1024], const f32[1024,1024])", "Softmax(f32[4096,1000])",
                             "Conv(f32[1,64,56,56], const f32[64,64,1,1])", "Gelu(f32[512,3072])",
                             "Conv(f32[8,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])"}) {
      INFO(spec << " on " << cores << " cores");
      const std::vector<Shared> loops = shared_by(with_cores(cores), spec);
      REQUIRE(!loops.empty());
      for (const Shared& l : loops) {
        INFO(l.iterations << " iterations for " << l.threads);
        CHECK(l.threads >= std::min(cores, 8));
        CHECK(l.threads <= cores);
        CHECK(l.busy() >= 0.75);
      }
    }
}

TEST_CASE("what memory binds asks for no more threads than memory has use for") {
  const Target t = with_cores(64);
  for (const char* spec : {"ReduceSum(f32[8192,8192], const i64[1]{1})", "Add(f32[8192,4096], f32[4096])"})
    for (const Shared& l : shared_by(t, spec)) {
      CHECK(l.threads >= 12);
      CHECK(l.threads <= 24);
    }
}

TEST_CASE("long reductions with few results are taken apart, others aren't") {
  for (const int cores : {2, 8, 64}) {
    const Target t = with_cores(cores);
    for (const char* spec :
         {"ReduceSum(f32[1,16777216], const i64[1]{1})", "MatMul(f32[6,1048576], f32[1048576,16])",
          "ReduceMax(f32[1048576,16], const i64[1]{0})"}) {
      INFO(spec << " on " << cores << " cores");
      CHECK(is_factored(t, spec));
      const std::vector<Shared> loops = shared_by(t, spec);
      REQUIRE(!loops.empty());
      CHECK(loops[0].busy() >= 0.9);
    }
    for (const char* spec :
         {"ReduceSum(f32[1,1000], const i64[1]{1})", "ReduceSum(f32[4096,4096], const i64[1]{1})",
          "MatMul(f32[1024,1024], const f32[1024,1024])",
          "ReduceSum(f32[1,15485863], const i64[1]{1})" /* a prime: no equal parts */})
      CHECK(!is_factored(t, spec));
  }
  CHECK(!is_factored(with_cores(1), "ReduceSum(f32[1,16777216], const i64[1]{1})"));
}

TEST_CASE("reductions taken apart compute what they did") {
  for (const int cores : {2, 8, 192}) {
    CompileOptions options = checking_options(host_target());
    options.target.cores = cores;
    options.target.parallel_us = 1;
    options.threads = 3;
    for (const char* spec :
         {"ReduceSum(f32[1,220000], const i64[1]{1})", "ReduceMean(f32[3,999990], const i64[1]{1})",
          "ReduceMax(f32[32768,5], const i64[1]{0})", "ReduceSum(f32[9,2000,33], const i64[2]{0,1})",
          "MatMul(f32[5,6000], f32[6000,19])", "MatMul(f32[16,4096], const f32[4096,16])",
          "GlobalAveragePool(f32[1,2,300,500])", "ReduceL2(f32[2,131072], const i64[1]{1})"}) {
      INFO(spec << " on " << cores << " cores");
      int factored = 0;
      for (const CompiledFunction& f : compile_model(spec, options).funcs) {
        factored += print(f.scheduled).find("_parts") != std::string::npos;
        check_proof(f);
        check_results(f, options.target);
      }
      if (cores > 2) CHECK(factored == 1);  // two cores have enough with two rows or three
    }
  }
}
