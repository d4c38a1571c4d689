#include "nestor/artifact.h"

#include <array>
#include <fstream>
#include <thread>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/pinning.h"
#include "runtime/hash_rt.h"
#include "tests/codegen/small_artifact.h"
#include "tests/command.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

// Of this process's memory, what the kernel was told to keep in large pages (the flag `hg` of a mapping), KB.
int64_t in_large_pages() {
  std::ifstream maps("/proc/self/smaps");
  int64_t sum = 0, size = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.rfind("Size:", 0) == 0) size = std::stoll(line.substr(5));
    if (line.rfind("VmFlags:", 0) == 0 && line.find(" hg") != std::string::npos) sum += size;
  }
  return sum;
}

}  // namespace

TEST_CASE("an artifact runs, on two threads with two instances") {
  Scratch scratch;
  const ArtifactFiles files = write_small(scratch / "my-model.so");
  CHECK(files.object_bytes == static_cast<int64_t>(fs::file_size(files.object)));
  auto one = load_artifact(files.object);
  CHECK(one->name() == "my_model");
  CHECK(one->inputs().at(0).shape == std::vector<int64_t>{kSize});
  CHECK(right(*one, 2));
  auto two = load_artifact(files.object, 1);
  std::array<bool, 2> fine{true, true};
  std::thread a([&] {
    for (int i = 0; i < 200; ++i) fine[0] = fine[0] && right(*one, 2);
  });
  std::thread b([&] {
    for (int i = 0; i < 200; ++i) fine[1] = fine[1] && right(*two, 5);
  });
  a.join();
  b.join();
  CHECK(fine[0]);
  CHECK(fine[1]);
}

TEST_CASE("an artifact of many calls makes them all, in order") {
  Scratch scratch;
  for (const int adds : {127, 128, 129, 400}) {
    const auto kernels = two_kernels(kSize);
    Plan plan = plan_of(kernels, 1);
    const int64_t bytes = align_up(4 * kSize);
    plan.arena_bytes = 2 * bytes;
    plan.calls = {{0, {{Region::input, 0}, {Region::weights, 0}, {Region::arena, 0}}, 0, "add"}};
    for (int64_t k = 1; k < adds; ++k)
      plan.calls.push_back(
          {0,
           {{Region::arena, (k + 1) % 2 * bytes}, {Region::weights, 0}, {Region::arena, k % 2 * bytes}},
           0,
           "add"});
    plan.calls.push_back({1, {{Region::arena, (adds - 1) % 2 * bytes}, {Region::output, 0}}, 0, "triple"});
    plan.calls.push_back({-1, {{Region::input, 0}, {Region::output, 1}}, 4 * kSize, "copy"});
    const std::string path = scratch / ("many" + std::to_string(adds) + ".so").c_str();
    const auto model = load_artifact(
        write_artifact(plan, kernels, host_target(), {path, "", WeightsPlace::automatic}).object);
    Tensor x(DType::f32, {kSize});
    for (int64_t i = 0; i < kSize; ++i) x.set(i, static_cast<double>(2 * i));
    const NamedTensors out = model->run({{"x", x}});
    for (const int64_t i : {int64_t{1}, kSize - 1}) {
      CHECK(out.at("y/out").get(i) == 3 * (x.get(i) + static_cast<double>(adds * i)));
      CHECK(out.at("int").get(i) == x.get(i));
    }
  }
}

TEST_CASE("objects and archives of several models link into one program, each with its weights") {
  Scratch scratch;
  const auto kernels = two_kernels(kSize);
  for (const char* name : {"one", "two"}) {
    Plan plan = plan_of(kernels, 1);
    for (int i = 0; i < kSize; ++i)
      static_cast<float*>(plan.weights.data())[i] = static_cast<float>(name[0] == 'o' ? i : 2 * i);
    ArtifactOptions options;
    options.path = (scratch.dir / name).string() + ".o";
    options.forms = {ArtifactForm::object, ArtifactForm::archive};
    const ArtifactFiles files = write_artifact(plan, kernels, host_target(), options);
    CHECK(files.object_bytes == static_cast<int64_t>(fs::file_size(files.object)));
  }
  std::ofstream(scratch / "main.c") << R"(#include <stdio.h>
#include "one.h"
#include "two.h"
int main(void) {
  static float x[1000], y[1000], z[1000];
  const struct one_inputs in = {.x = x};
  const struct one_outputs out = {.y_out = y, .int_ = z};
  struct one* one = one_create(NULL);
  struct two* two = two_create(NULL);
  int bad = one_run(one, &in, &out);
  printf("%d %g ", bad, y[999]);
  bad = two_run(two, (const struct two_inputs*)&in, (const struct two_outputs*)&out);
  printf("%d %g\n", bad, y[999]);
  one_destroy(one);
  two_destroy(two);
  return 0;
}
)";
  const std::string cc = "cc -std=c11 -Wall -Wextra -Werror " + scratch / "main.c";
  for (const char* ending : {".o ", ".a "}) {
    output_of(cc + " " + scratch / "one" + ending + scratch / "two" + ending + "-lm -o " + scratch / "main");
    CHECK(output_of(scratch / "main") == "0 2997 0 5994\n");
    // The other way round, and as a static library's user has it: with what nobody reads left out.
    output_of(cc + " -Wl,--gc-sections " + scratch / "two" + ending + scratch / "one" + ending + "-lm -o " +
              scratch / "main");
    CHECK(output_of(scratch / "main") == "0 2997 0 5994\n");
  }
}

TEST_CASE("weights are bytes of the files that hold them, once") {
  Scratch scratch;
  const auto kernels = two_kernels(kSize);
  Plan plan = plan_of(kernels, 1);
  const std::string_view weights(static_cast<const char*>(plan.weights.data()),
                                 static_cast<size_t>(plan.weights.bytes()));
  ArtifactOptions options;
  options.path = scratch / "m.so";
  options.forms = {ArtifactForm::object, ArtifactForm::archive, ArtifactForm::shared};
  for (const char* target : {"native", "aarch64"}) {
    write_artifact(plan, kernels, parse_target(target), options);
    for (const char* ending : {".o", ".a", ".so"}) {
      const std::string path = scratch / "m" + ending;
      INFO(target << path);
      std::ifstream in(path, std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(in), {});
      const size_t at = bytes.find(weights);
      CHECK(at != std::string::npos);
      CHECK(bytes.find(weights, at + 1) == std::string::npos);
      CHECK(output_of("readelf -SW " + path).find("Warning") == std::string::npos);
    }
  }
}

TEST_CASE("an artifact needs libc and libm only, exports four symbols, has no constructors") {
  Scratch scratch;
  const ArtifactFiles files = write_small(scratch / "m.so");
  std::stringstream needed(output_of("ldd " + files.object));
  for (std::string line; std::getline(needed, line);) {
    INFO(line);
    CHECK((line.find("linux-vdso") != std::string::npos || line.find("libc.so") != std::string::npos ||
           line.find("libm.so") != std::string::npos || line.find("ld-linux") != std::string::npos));
  }
  std::stringstream symbols(output_of("nm -D --defined-only " + files.object));
  std::vector<std::string> names;
  for (std::string line; std::getline(symbols, line);) names.push_back(line.substr(line.rfind(' ') + 1));
  CHECK(names == std::vector<std::string>{"m_create", "m_destroy", "m_run", "nestor_model_v2"});
  CHECK(output_of("readelf -S -W " + files.object).find("init_array") == std::string::npos);
}

TEST_CASE("the same model gives the same bytes") {
  Scratch scratch;
  const auto bytes = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  fs::create_directory(scratch / "a");
  fs::create_directory(scratch / "b");
  CHECK(bytes(write_small(scratch / "a/m.so").object) == bytes(write_small(scratch / "b/m.so").object));
}

TEST_CASE("weights may lie beside the object") {
  Scratch scratch;
  const ArtifactFiles files = write_small(scratch / "m.so", WeightsPlace::beside);
  CHECK(fs::file_size(files.weights) == static_cast<uintmax_t>(align_up(4 * kSize)));
  CHECK(right(*load_artifact(files.object), 2));
  const auto refused = [&](const std::string& why) {
    INFO(why);
    CHECK_THROWS_WITH(load_artifact(files.object), Catch::Matchers::ContainsSubstring(files.weights) &&
                                                       Catch::Matchers::ContainsSubstring(why));
  };
  {  // of another model, or damaged
    std::fstream file(files.weights, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('x');
  }
  refused("the hash of the content");
  fs::resize_file(files.weights, 64);
  refused("the length is 64 bytes, where the object's weights have 4032");
  fs::remove(files.weights);
  refused("No such file");
}

TEST_CASE("weights that don't fit inside lie beside, or are refused where they must be inside") {
  Scratch scratch;
  const auto kernels = two_kernels(kSize);
  ArtifactOptions options;
  options.path = scratch / "m.so";
  options.most_inside = align_up(4 * kSize);
  CHECK(write_artifact(plan_of(kernels, 1), kernels, host_target(), options).weights.empty());
  options.most_inside -= 1;
  const ArtifactFiles files = write_artifact(plan_of(kernels, 1), kernels, host_target(), options);
  CHECK(files.weights == scratch / "m.weights");
  CHECK(right(*load_artifact(files.object), 2));
  options.weights = WeightsPlace::inside;
  CHECK_THROWS_WITH(write_artifact(plan_of(kernels, 1), kernels, host_target(), options),
                    Catch::Matchers::ContainsSubstring("--weights beside"));
}

TEST_CASE("the hash is XXH64") {
  CHECK(content_hash("", 0) == 0xEF46DB3751D8E999u);
  CHECK(content_hash("a", 1) == 0xD24EC4F1A98C6E5Bu);
  CHECK(content_hash("abc", 3) == 0x44BC2CF5AD770999u);
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 7);
  CHECK(content_hash(bytes.data(), 1000) == 0x25275608A9CFC168u);
  CHECK(content_hash(bytes.data(), 77) == 0xC4CE4E3AD65F6DE0u);
}

TEST_CASE("one instance does one run at a time") {
  Scratch scratch;
  const ArtifactFiles files = write_small(scratch / "m.so");
  std::ofstream(scratch / "main.c") << R"(#include <stdio.h>
#include "m.h"
static struct m* model;
static float x[1000], y[1000], z[1000];
static const struct m_inputs in = {.x = x};
static const struct m_outputs out = {.y_out = y, .int_ = z};
static int32_t meanwhile = -1;
static void host(void* unused, int64_t n, m_task task, void* ctx) { /* as another thread would */
  meanwhile = m_run(model, &in, &out);
  task(ctx, 0, n, 0);
  (void)unused;
}
int main(void) {
  const struct m_options options = {.parallel_for = host};
  model = m_create(&options);
  const int32_t first = m_run(model, &in, &out), second = m_run(model, &in, &out);
  m_destroy(model);
  printf("%d %d %d\n", first, second, meanwhile == M_BUSY);
  return 0;
}
)";
  output_of("cc -std=c11 -Wall -Wextra -Werror -pedantic " + scratch / "main.c" + " " + files.object +
            " -Wl,-rpath," + scratch.dir.string() + " -o " + scratch / "main");
  CHECK(output_of(scratch / "main") == "0 0 1\n");
}

TEST_CASE("temporaries of an artifact lie in large pages, if they are more than a few small ones") {
  Scratch scratch;
  const auto kernels = two_kernels(kSize);
  for (const int64_t bytes : {int64_t{4} << 10, int64_t{3} << 20}) {
    Plan plan = plan_of(kernels, 2);
    plan.arena_bytes = bytes;
    const ArtifactFiles files = write_artifact(plan, kernels, host_target(), {scratch / "m.so", "", {}});
    const int64_t before = in_large_pages();
    const auto model = load_artifact(files.object);
    const bool wanted = bytes > (1 << 20) && fs::exists("/sys/kernel/mm/transparent_hugepage/enabled");
    CHECK(in_large_pages() - before == (wanted ? 4 << 10 : 0));
    CHECK(right(*model, 2));
  }
}

TEST_CASE("nothing lies beside a device") {
  Scratch scratch;
  fs::create_symlink("/dev/null", scratch / "m.so");
  const ArtifactFiles files = write_small(scratch / "m.so");
  CHECK(files.header.empty());
  CHECK(files.object_bytes > 0);
  CHECK(std::distance(fs::directory_iterator(scratch.dir), {}) == 1);
  CHECK(fs::is_character_file(scratch / "m.so"));
  CHECK_THROWS_WITH(write_small(scratch / "m.so", WeightsPlace::beside),
                    Catch::Matchers::ContainsSubstring("which isn't a file"));
}

TEST_CASE("memory and weights may be placed near threads that stay") {
  Scratch scratch;
  const std::vector<int32_t> cpus = cpus_for(2, Pinning::spread);
  REQUIRE(memory_nodes_of(cpus) >= 1);
  for (const WeightsPlace weights : {WeightsPlace::inside, WeightsPlace::beside}) {
    const ArtifactFiles files = write_small(scratch / "m.so", weights);
    for (const Placement how : {Placement::anywhere, Placement::parts, Placement::interleave})
      CHECK(right(*load_artifact(files.object, 2, cpus, how), 2));
    CHECK_THROWS_WITH(load_artifact(files.object, 2, {}, Placement::parts),
                      Catch::Matchers::ContainsSubstring("placement needs cpus"));
  }
  const std::string path = write_small(scratch / "m.so").object;
  CHECK_THROWS_WITH(load_artifact(path, 2, {cpus[0], 4000}),
                    Catch::Matchers::ContainsSubstring("no thread can stay on CPU 4000"));
  CHECK_THROWS_WITH(load_artifact(path, -1), Catch::Matchers::ContainsSubstring("threads is negative"));
}

TEST_CASE("a C program uses the header, the object, and its own parallel-for") {
  Scratch scratch;
  const ArtifactFiles files = write_small(scratch / "m.so");
  std::ofstream(scratch / "main.c") << R"(#include <stdio.h>
#include "m.h"
static int loops = 0;
static void twice(void* host, int64_t n, m_task task, void* ctx) {
  loops++;
  *(int*)host += 1;
  task(ctx, n / 2, n, 1);
  task(ctx, 0, n / 2, 0);
}
int main(void) {
  static float x[1000], y[1000], z[1001];
  int seen = 0;
  const struct m_options options = {.parallel_for = twice, .host = &seen};
  struct m* m = m_create(&options);
  for (int i = 0; i < 1000; ++i) x[i] = 1;
  const struct m_inputs in = {.x = x};
  const struct m_outputs out = {.y_out = y, .int_ = z + 1}; /* only aligned as floats are */
  if (!m || m_run(m, &in, &out)) return 1;
  m_destroy(m);
  printf("%d %d %g %g %d\n", loops, seen, y[999], z[1000], M_ARENA_BYTES > 0);
  return 0;
}
)";
  output_of("cc -std=c11 -Wall -Wextra -Werror -pedantic " + scratch / "main.c" + " " + files.object +
            " -Wl,-rpath," + scratch.dir.string() + " -o " + scratch / "main");
  CHECK(output_of(scratch / "main") == "1 1 3000 1 1\n");
  output_of("g++ -fsyntax-only -x c++ -Wall -Wextra -Werror " + files.header);
}

TEST_CASE("a path that can't be written leaves nothing behind") {
  Scratch scratch;
  CHECK_THROWS_WITH(write_small(scratch / "missing/m.so"),
                    Catch::Matchers::ContainsSubstring("can't write") &&
                        Catch::Matchers::ContainsSubstring("missing/m.so"));
  fs::create_directory(scratch / "m.h");  // the header can't replace a directory
  CHECK_THROWS_AS(write_small(scratch / "m.so"), UserError);
  CHECK(std::distance(fs::directory_iterator(scratch.dir), {}) == 1);
  CHECK_THROWS_WITH(load_artifact(scratch / "none.so"),
                    Catch::Matchers::ContainsSubstring("there is no such file"));
  std::ofstream(scratch / "text.so") << "not an object";
  CHECK_THROWS_WITH(load_artifact(scratch / "text.so"),
                    Catch::Matchers::ContainsSubstring("it isn't a shared object"));
}

TEST_CASE("an artifact for another machine is made without its C library") {
  Scratch scratch;
  const auto kernels = two_kernels(kSize);
  const ArtifactFiles files =
      write_artifact(plan_of(kernels, 1), kernels, parse_target("aarch64"), {scratch / "arm.so", "", {}});
  std::ifstream in(files.object, std::ios::binary);
  std::array<char, 20> header{};
  in.read(header.data(), header.size());
  CHECK(static_cast<unsigned char>(header[18]) == 183);  // EM_AARCH64
  if (host_target().arch() != "aarch64")
    CHECK_THROWS_WITH(load_artifact(files.object),
                      Catch::Matchers::ContainsSubstring("it is code for aarch64"));
}
