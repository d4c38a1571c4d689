// Runs of models whose sizes are open: empty ones, hostile ones, and many in turn.
#include "nestor/print.h"
#include "tests/command.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

// Attention over the words before, each with its place, and a mean over all words.
const char* const kWords = R"({
  "name": "words", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "seq", 8]}],
  "outputs": ["y", "mean"],
  "nodes": [
    {"op": "Shape", "inputs": ["x"], "outputs": ["n"], "attrs": {"start": 1, "end": 2}},
    {"op": "Squeeze", "inputs": ["n"], "outputs": ["length"]},
    {"op": "Range", "inputs": ["zero", "length", "one"], "outputs": ["places"]},
    {"op": "Gather", "inputs": ["table", "places"], "outputs": ["embedded"]},
    {"op": "Add", "inputs": ["x", "embedded"], "outputs": ["e"]},
    {"op": "Transpose", "inputs": ["e"], "outputs": ["k"], "attrs": {"perm": [0, 2, 1]}},
    {"op": "MatMul", "inputs": ["e", "k"], "outputs": ["scores"]},
    {"op": "Softmax", "inputs": ["scores"], "outputs": ["p"], "attrs": {"axis": -1}},
    {"op": "MatMul", "inputs": ["p", "e"], "outputs": ["y"]},
    {"op": "ReduceSum", "inputs": ["y", "axis"], "outputs": ["mean"]}
  ],
  "weights": {
    "zero": {"dtype": "i64", "shape": [], "data": [0]},
    "one": {"dtype": "i64", "shape": [], "data": [1]},
    "axis": {"dtype": "i64", "shape": [1], "data": [1]},
    "table": {"dtype": "f32", "shape": [512, 8], "data": TABLE}
  }
})";

const char* const kImages = R"({
  "name": "images", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 1, "height", "width"]}],
  "outputs": ["y"],
  "nodes": [
    {"op": "Conv", "inputs": ["x", "w"], "outputs": ["c"], "attrs": {"pads": [1, 1, 1, 1]}},
    {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
    {"op": "GlobalAveragePool", "inputs": ["r"], "outputs": ["y"]}
  ],
  "weights": {"w": {"dtype": "f32", "shape": [1, 1, 3, 3], "data": [1, -2, 3, -4, 5, -6, 7, -8, 9]}}
})";

// y is a with the rows of b: its columns are what is left.
const char* const kRows = R"({
  "name": "rows", "opset": 17,
  "inputs": [{"name": "a", "dtype": "f32", "shape": ["n", "m"]}, {"name": "b", "dtype": "f32", "shape": ["k", 2]}],
  "outputs": ["y", "z"],
  "nodes": [
    {"op": "Shape", "inputs": ["b"], "outputs": ["rows"], "attrs": {"end": 1}},
    {"op": "Concat", "inputs": ["rows", "left"], "outputs": ["shape"], "attrs": {"axis": 0}},
    {"op": "Reshape", "inputs": ["a", "shape"], "outputs": ["y"]},
    {"op": "Relu", "inputs": ["b"], "outputs": ["z"]}
  ],
  "weights": {"left": {"dtype": "i64", "shape": [1], "data": [-1]}}
})";

std::string words() {
  std::string text = kWords, values = "[";
  for (int i = 0; i < 512 * 8; ++i) values += (i ? "," : "") + std::to_string((i * 7 % 23 - 11) * 0.1);
  return text.replace(text.find("TABLE"), 5, values + "]");
}

NamedTensors input(std::vector<int64_t> shape) {
  return {{"x", Tensor::random(DType::f32, std::move(shape), 3)}};
}

}  // namespace

TEST_CASE("what a word's place decides is computed for all words, not for each as if it were the first") {
  const OpenModel m(words());
  auto executor = make_executor(m.compiled());
  for (const auto& [batch, seq] : {std::pair{1, 1}, {2, 7}, {1, 130}})
    check_equal(executor->run(input({batch, seq, 8})), m.fixed(input({batch, seq, 8})));
}

TEST_CASE("a run on no samples, or no words, gives outputs without elements, or sums of nothing") {
  const OpenModel m(words());
  const CompiledModel model = m.compiled();
  const std::unique_ptr<Runnable> executor = make_executor(model), artifact = artifact_of(m, model);
  for (Runnable* r : {executor.get(), artifact.get()})
    for (const auto& [batch, seq] : {std::pair{0, 5}, {3, 4}, {2, 0}, {0, 0}, {3, 4}}) {
      INFO(batch << " texts of " << seq);
      const NamedTensors got = r->run(input({batch, seq, 8}));
      CHECK(got.at("y").shape() == std::vector<int64_t>{batch, seq, 8});
      CHECK(got.at("mean").shape() == std::vector<int64_t>{batch, 1, 8});
      check_equal(got, m.fixed(input({batch, seq, 8})));
    }

  const OpenModel images(kImages);
  auto of_images = make_executor(images.compiled());
  CHECK(of_images->run(input({0, 1, 9, 9})).at("y").shape() == std::vector<int64_t>{0, 1, 1, 1});
  check_equal(of_images->run(input({2, 1, 9, 5})), images.fixed(input({2, 1, 9, 5})));
}

TEST_CASE("a sum of nothing is what it starts from, whatever the schedule") {
  OpenModel m(R"({
    "name": "sum", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "seq", 8]}],
    "outputs": ["y"],
    "nodes": [{"op": "ReduceSum", "inputs": ["x", "axis"], "outputs": ["s"]},
              {"op": "Exp", "inputs": ["s"], "outputs": ["y"]}],
    "weights": {"axis": {"dtype": "i64", "shape": [1], "data": [1]}}
  })");
  for (const char* steps : {"", "parallel Y.b", "wb wi wj = reverse_compute_at Y reduce_sum.b",
                            "i0 i1 = split reduce_sum.i [_, 4] tail=mask\nreorder reduce_sum (i1 i0 j)",
                            "i0 i1 = split reduce_sum.i [_, 2]\ni00 i01 = split reduce_sum.i0 [_, 2]\n"
                            "decompose_reduction reduce_sum.i00"}) {
    INFO(steps);
    m.options.schedules = [&](const PrimFunc& f, const Target&) {
      Trace trace = parse_trace(steps);
      return f.name.starts_with("reduce_sum") ? std::optional(ScheduleChoice{trace, "given"}) : std::nullopt;
    };
    auto executor = make_executor(m.compiled());
    for (const int64_t seq : {5, 0, 4}) {
      const NamedTensors got = executor->run(input({3, seq, 8}));
      if (seq > 0)
        check_equal(got, m.fixed(input({3, seq, 8})));
      else
        for (const float y : got.at("y").as<float>()) CHECK(y == 1.0f);
    }
  }
}

TEST_CASE("elements from the last to the first are none where there are none") {
  const OpenModel m(R"({
    "name": "backward", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 3]}],
    "outputs": ["all", "first"],
    "nodes": [
      {"op": "Slice", "inputs": ["x", "last", "before", "axis", "step"], "outputs": ["all"]},
      {"op": "Slice", "inputs": ["x", "zero", "before", "axis", "step"], "outputs": ["first"]}
    ],
    "weights": {
      "last": {"dtype": "i64", "shape": [1], "data": [100]},
      "before": {"dtype": "i64", "shape": [1], "data": [-100]},
      "zero": {"dtype": "i64", "shape": [1], "data": [0]},
      "axis": {"dtype": "i64", "shape": [1], "data": [0]},
      "step": {"dtype": "i64", "shape": [1], "data": [-1]}
    }
  })");
  auto executor = make_executor(m.compiled());
  for (const int64_t n : {4, 0, 1}) {
    CHECK(executor->fit({{n, 3}}) == std::vector<Runnable::Shape>{{n, 3}, {std::min<int64_t>(n, 1), 3}});
    check_equal(executor->run(input({n, 3})), m.fixed(input({n, 3})));
  }
}

TEST_CASE("sizes as half precision numbers are given by the model") {
  const OpenModel m(R"({
    "name": "halves", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [4, "n"]}],
    "outputs": ["y"],
    "nodes": [{"op": "Shape", "inputs": ["x"], "outputs": ["s"]},
              {"op": "Cast", "inputs": ["s"], "outputs": ["y"], "attrs": {"to": "f16"}}]
  })");
  auto executor = make_executor(m.compiled());
  for (const int64_t n : {7, 0}) check_equal(executor->run(input({4, n})), m.fixed(input({4, n})));
}

TEST_CASE("bounds keep a run on no samples out") {
  OpenModel m(kImages);
  m.options.build.open["batch"] = {1, 8, 1};
  auto executor = make_executor(m.compiled());
  CHECK_THROWS_WITH(executor->fit({{0, 1, 9, 9}}),
                    ContainsSubstring("(batch) is 0, it was compiled for 1 to 8"));
}

TEST_CASE("sizes that no model can have end with a message, in this process and as an artifact") {
  const OpenModel m(kRows), w(words());
  const CompiledModel rows = m.compiled(), of_words = w.compiled();
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  for (const bool in_artifact : {false, true}) {
    const std::unique_ptr<Runnable> r = in_artifact ? artifact_of(m, rows) : make_executor(rows);
    const auto refuses = [](Runnable& of, const std::vector<Runnable::Shape>& shapes, const char* why) {
      INFO(why);
      CHECK_THROWS_WITH(of.fit(shapes), ContainsSubstring(why));
    };
    refuses(*r, {{-1, 4}, {2, 2}}, "(n) is -1");
    refuses(*r, {{least, 4}, {2, 2}}, "(n) is -9223372036854775808");
    refuses(*r, {{3, most}, {2, 2}}, "(m) is 9223372036854775807");
    refuses(*r, {{int64_t{1} << 31, int64_t{1} << 31}, {2, 2}}, "too large");
    refuses(*r, {{3, 4}, {0, 2}}, "k >= 1 must hold");  // 12 elements by 0 rows
    refuses(*r, {{3, 4}, {5, 2}}, "what is left");
    refuses(*r, {{3, 4}, {3, 3}}, "dimension 1 of input 'b' is 3, it must be 2");
    CHECK(r->fit({{3, 4}, {6, 2}}) == std::vector<Runnable::Shape>{{6, 2}, {6, 2}});

    const std::unique_ptr<Runnable> t = in_artifact ? artifact_of(w, of_words) : make_executor(of_words);
    refuses(*t, {{int64_t{1} << 31, int64_t{1} << 31, 8}}, "too large");
    CHECK(t->fit({{1, 2, 8}}) == std::vector<Runnable::Shape>{{1, 2, 8}, {1, 1, 8}});
  }
}

// Its own allocator counts; the most memory that it had is what the system says.
const char* const kMain = R"(
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "m.h"
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_memalign(size_t, size_t);
static long taken;
void* malloc(size_t n) { ++taken; return __libc_malloc(n); }
void* calloc(size_t n, size_t size) { ++taken; return __libc_calloc(n, size); }
void* aligned_alloc(size_t alignment, size_t n) { ++taken; return __libc_memalign(alignment, n); }
static float x[100000 * 4 * 8], y[100000 * 4 * 8], sum[100000 * 8];
int main(int count, char** args) {
  const int runs = atoi(args[1]), most = 100000;
  const struct m_options options = {.threads = 1};
  struct m* model = m_create(&options);
  const struct m_inputs in = {x};
  const struct m_outputs out = {y, sum};
  unsigned drawn = 1;
  long at_most = 0;
  for (int run = 0; run <= runs; ++run) {
    drawn = drawn * 1103515245u + 12345u;
    const int largest = run == runs / 2;
    const int64_t batch = largest ? most : drawn / 65536 % (most / 64) + 1;
    const struct m_input_shapes shapes = {{batch, 4, 8}};
    if (m_fit(model, &shapes, NULL) || m_run(model, &in, &out)) return 1;
    if (largest) at_most = taken;
  }
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf("%ld %ld\n", taken - at_most, used.ru_maxrss);
  m_destroy(model);
  return count - 2;
}
)";

TEST_CASE("1000 sizes in turn take no more memory than the largest, and none once it was seen") {
  std::string text = words();
  text.replace(text.find("[512, 8]"), 8, "[1, 8]");  // one place for all words
  text.replace(text.find("\"data\": [-1.1"), text.rfind("]}") + 1 - text.find("\"data\": [-1.1"),
               "\"data\": [1, 2, 3, 4, 5, 6, 7, 8]");
  const OpenModel m(text);
  const CompiledModel model = m.compiled();
  artifact_of(m, model);
  const std::string folder = m.folder / "";
  m.folder.write("main.c", kMain);
  output_of("cc -std=c11 -O1 -I" + folder + " " + folder + "main.c " + folder + "m.so -Wl,-rpath," + folder +
            " -o " + folder + "main");
  const auto measured = [&](int runs) {
    std::istringstream printed(output_of(folder + "main " + std::to_string(runs)));
    long taken = -1, kilobytes = 0;
    printed >> taken >> kilobytes;
    CHECK(taken == 0);
    return kilobytes;
  };
  const long alone = measured(0), many = measured(1000);
  INFO(alone << " KiB for the largest alone, " << many << " KiB for all");
  CHECK(alone > 16 << 10);
  CHECK(static_cast<double>(many) <= 1.05 * static_cast<double>(alone));
}

TEST_CASE("a signal of any length is transformed frame by frame") {
  const OpenModel m(R"({
  "name": "frames", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "samples", 1]}],
  "outputs": ["y"],
  "nodes": [{"op": "STFT", "inputs": ["x", "step", "", "length"], "outputs": ["y"]}],
  "weights": {"step": {"dtype": "i64", "shape": [], "data": [3]}, "length": {"dtype": "i64", "shape": [], "data": [8]}}
})");

  auto executor = make_executor(m.compiled());
  for (const auto& [batch, samples] : {std::pair{1, 8}, {2, 10}, {3, 100}, {0, 20}})
    check_equal(executor->run(input({batch, samples, 1})), m.fixed(input({batch, samples, 1})), {1e-5, 1e-5});
  CHECK_THROWS_WITH(executor->run(input({1, 7, 1})), ContainsSubstring("a frame fits into the signal"));
}

TEST_CASE("an image of any size shrinks with antialiasing, and grows without") {
  for (const std::string mode : {"linear", "cubic"}) {
    const OpenModel m(R"({
  "name": "shrunk", "opset": 18,
  "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, "height", "width"]}],
  "outputs": ["y"],
  "nodes": [{"op": "Resize", "inputs": ["x", "", "", "sizes"], "outputs": ["y"], "attrs": {"antialias": 1, "mode": ")" +
                      mode + R"("}}],
  "weights": {"sizes": {"dtype": "i64", "shape": [4], "data": [1, 2, 4, 5]}}
})");

    auto executor = make_executor(m.compiled());
    for (const auto& [h, w] : {std::pair{9, 7}, {4, 5}, {2, 3}, {20, 1}, {33, 64}}) {
      INFO(mode << " " << h << " x " << w);
      check_equal(executor->run(input({1, 2, h, w})), m.fixed(input({1, 2, h, w})), {1e-5, 1e-5});
    }
  }
}
