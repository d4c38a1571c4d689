#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/driver.h"
#include "nestor/parse.h"
#include "tests/own_file.h"

using namespace nestor;

namespace {

struct File {
  std::string path = own_file("schedules_test.sched");
  explicit File(const std::string& text) { std::ofstream(path) << text; }
  ~File() { std::filesystem::remove(path); }
};

PrimFunc func(const std::string& name) {
  return parse_func("func " + name + R"((in X: f32[8], out Y: f32[8]) {
  for i in 8 {
    block Y(vi: S 8 = i) {
      Y[vi] = X[vi]
    }
  }
})");
}

}  // namespace

TEST_CASE("a schedule file answers for the functions it names") {
  File file("schedule a {\n  i0 i1 = split Y.i [_, 4]\n}\n\nschedule b {\n  vectorize Y.i\n}\n");
  const ScheduleProvider p = file_schedules(file.path);
  const Target t = host_target();
  CHECK(p(func("a"), t)->trace.steps.at(0).primitive == "split");
  CHECK(p(func("b"), t)->trace.steps.at(0).primitive == "vectorize");
  CHECK(p(func("b"), t)->trace.steps.at(0).loc.line == 6);
  CHECK(p(func("b"), t)->origin == file.path);
  CHECK_FALSE(p(func("c"), t));
  CHECK(first_of({p, naive_schedules()})(func("c"), t)->origin == "naive");
  CHECK_NOTHROW(p.check({func("a"), func("b")}));
  CHECK_THROWS_WITH(first_of({p}).check({func("a"), func("c")}),
                    Catch::Matchers::ContainsSubstring("schedule for 'b', which isn't a function") &&
                        Catch::Matchers::ContainsSubstring("a, c"));
}

TEST_CASE("a schedule without a header is for every function") {
  File file("vectorize Y.i\n");
  CHECK(file_schedules(file.path)(func("anything"), host_target())->trace.steps.size() == 1);
}

TEST_CASE("a folder is no schedule file") {
  CHECK_THROWS_WITH(file_schedules(NESTOR_SOURCE_DIR "/tests"), Catch::Matchers::Contains("can't read"));
}

TEST_CASE("a default schedule that is refused is told, and a plain one takes its place") {
  const PrimFunc f = parse_func(R"(func f(in X: f32[64,96], out Y: f32[64]) {
  for i in 64, k in 96 {
    block Y(vi: S 64 = i, vk: R 96 = k) {
      init { Y[vi] = 0.0f32 }
      Y[vi] += X[vi,vk]
    }
  }
})");
  std::string steps;
  CompileOptions options;
  options.schedules = [&](const PrimFunc&, const Target&) {
    return ScheduleChoice{parse_trace(steps, "test"), "default"};
  };
  for (const char* refused : {"vectorize Y.j", "cache_write Y local"}) {  // by the step, by lowering
    steps = refused;
    options.refused = nullptr;
    CHECK_THROWS_WITH(compile_function(f, options),
                      Catch::Matchers::ContainsSubstring("function f (default"));
    std::string told;
    options.refused = [&](const PrimFunc& func, const ScheduleError& why) { told = func.name + why.what(); };
    const CompiledFunction c = compile_function(f, options);
    CHECK_THAT(told, Catch::Matchers::StartsWith("f"));
    CHECK(c.choice.origin == "plain");
    CHECK(lower(c.scheduled, options.target).name == "f");
  }
}

TEST_CASE("two schedules for one function, and a missing file, are refused") {
  File file("schedule a {\n  vectorize Y.i\n}\nschedule a {\n}\n");
  CHECK_THROWS_WITH(file_schedules(file.path), Catch::Matchers::ContainsSubstring("two schedules for 'a'"));
  CHECK_THROWS_AS(file_schedules(file.path + ".none"), UserError);
}
