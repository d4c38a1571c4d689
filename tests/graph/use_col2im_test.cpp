// A convolution with few filters is a product of matrices and a Col2Im, where that is less work.
#include "catch.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

struct Case {
  std::string op, attrs;
  std::vector<int64_t> x, w;
  int64_t filters = 0;  // of the bias; 0: there is none
  bool columns = true;
  std::string type = "f32";
};

std::string list(const std::vector<int64_t>& shape) {
  std::string out;
  for (const int64_t n : shape) out += (out.empty() ? "[" : ",") + std::to_string(n);
  return out + "]";
}

void check(const Case& c) {
  INFO(c.op << " of " << list(c.x) << " with " << list(c.w) << " " << c.attrs);
  Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": ")" + c.type + R"(", "shape": )" +
                     list(c.x) + R"(}], "outputs": ["y"], "nodes": [{"op": ")" + c.op +
                     R"(", "inputs": ["x", "w")" + (c.filters ? R"(, "b")" : "") +
                     R"(], "outputs": ["y"], "attrs": {)" + c.attrs + "}}]}");
  const DType type = c.type == "bf16" ? DType::bf16 : DType::f32;
  m.initializers.emplace_back("w", Tensor::random(type, c.w, 3));
  if (c.filters) m.initializers.emplace_back("b", Tensor::random(type, {c.filters}, 5));
  Graph g = build_graph(m);
  const Values inputs = {{"x", Tensor::random(type, c.x, 4)}}, before = run_unfused(g, inputs);
  use_col2im(g, evaluate_by_interpreter);
  CHECK(count(g, "Col2Im") == c.columns);
  CHECK(count(g, "MatMul") == c.columns);
  CHECK(count(g, c.op) == !c.columns);
  check_close(run_unfused(g, inputs), before, 1e-5);
  check_close(run(g, partition(g), inputs), before, 1e-5);
}

}  // namespace

TEST_CASE("A convolution with few filters is a product of matrices and a Col2Im") {
  for (const Case& c : std::vector<Case>{
           {"ConvTranspose", R"("strides": [2,2])", {1, 96, 4, 5}, {96, 2, 3, 3}},
           {"ConvTranspose",
            R"("group": 2, "strides": [3,2], "dilations": [2,4], "pads": [1,2,0,1], "output_padding": [1,0])",
            {2, 192, 3, 4},
            {192, 1, 3, 2},
            2},
           {"ConvTranspose", R"("strides": [2], "auto_pad": "SAME_LOWER")", {1, 96, 7}, {96, 3, 4}, 3},
           {"ConvTranspose", R"("strides": [3], "output_shape": [19])", {1, 96, 6}, {96, 1, 3}},
           {"ConvTranspose",
            R"("strides": [2,1,3], "pads": [0,1,1,1,1,0])",
            {1, 96, 2, 3, 4},
            {96, 1, 2, 3, 3}},
           {"ConvTranspose", R"("dilations": [2])", {1, 96, 5}, {96, 1, 3}},
           {"Conv", R"("pads": [1,2,1,0], "dilations": [1,2])", {2, 96, 4, 6}, {2, 96, 3, 2}, 2},
           {"Conv", R"("auto_pad": "SAME_UPPER", "group": 2)", {1, 192, 9}, {2, 96, 4}, 2},
           {"Conv", "", {1, 96, 3, 4, 5}, {1, 96, 2, 3, 2}},
           {"ConvTranspose", "", {1, 96, 2, 3, 2}, {96, 1, 5, 5, 5}}})  // 125 terms
    check(c);
}

TEST_CASE("Residues of a stride that would be too many nests are a product of matrices and a Col2Im") {
  // Five residues along each dimension, two of which two taps reach.
  Case c{"ConvTranspose", R"("strides": [5,5,5], "dilations": [3,3,3])", {1, 2, 2, 1, 2}, {2, 16, 7, 7, 7}};
  check(c);
  c = {"ConvTranspose", R"("strides": [5,5], "dilations": [3,3])", {1, 2, 2, 2}, {2, 16, 7, 7}};
  c.columns = false;  // 25 nests
  check(c);
}

TEST_CASE("A convolution stays where columns are no gain, or none make the image") {
  const auto kept = [](Case c) {
    c.columns = false;
    check(c);
  };
  kept({"ConvTranspose", R"("strides": [2,2])", {1, 96, 4, 5}, {96, 32, 3, 3}});  // filters fill lanes
  kept({"ConvTranspose", R"("strides": [2,2])", {1, 4, 4, 5}, {4, 2, 3, 3}});     // few products an element
  kept({"ConvTranspose",
        R"("strides": [2], "dilations": [4], "output_padding": [3])",
        {1, 96, 6},
        {96, 1, 3}});
  kept({"ConvTranspose", R"("strides": [2], "pads": [5,5])", {1, 96, 5}, {96, 1, 2}});  // no outputs
  kept({"Conv", R"("strides": [2,2])", {1, 96, 4, 5}, {1, 96, 3, 3}});
  kept({"Conv", R"("pads": [3,3])", {1, 96, 9}, {1, 96, 3}});  // windows in the padding alone
  kept({"Conv", "", {1, 96, 9}, {1, 96, 1}});
  Case narrow{"ConvTranspose", R"("strides": [2])", {1, 96, 5}, {96, 1, 3}};
  narrow.type = "bf16";  // rounded once, behind all sums
  kept(narrow);
}

TEST_CASE(
    "a convolution with few filters behind one that may be Winograd's stays, as its input comes in blocks") {
  const auto columns = [](const std::string& strides) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,32,24,24]}],
      "outputs": ["y"], "nodes": [
      {"op": "Conv", "inputs": ["x", "v"], "outputs": ["a"], "attrs": {"pads": [1,1,1,1], "strides": )" +
                       strides + R"(}},
      {"op": "Relu", "inputs": ["a"], "outputs": ["b"]},
      {"op": "ConvTranspose", "inputs": ["b", "w"], "outputs": ["y"], "attrs": {"strides": [2,2]}}]})");
    m.initializers.emplace_back("v", Tensor::random(DType::f32, {96, 32, 3, 3}, 3));
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {96, 1, 3, 3}, 4));
    Graph g = build_graph(m);
    use_col2im(g, evaluate_by_interpreter);
    return count(g, "Col2Im");
  };
  CHECK(columns("[1,1]") == 0);
  CHECK(columns("[2,2]") == 1);
}

TEST_CASE("narrow vectors take longer to multiply, not to wait: fewer convolutions become columns") {
  const auto columns = [](const std::string& image, int64_t lanes) {
    Model m =
        model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,64,)" + image + R"(]}],
      "outputs": ["y"], "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"], "attrs": {"pads": [1,1,1,1]}}]})");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {3, 64, 3, 3}, 3));
    Graph g = build_graph(m);
    use_col2im(g, evaluate_by_interpreter, {.lanes = lanes});
    return count(g, "Col2Im");
  };
  CHECK(columns("224,224", 16) == 1);  // channels 49 pages apart meet in few sets of the cache
  CHECK(columns("224,224", 8) == 0);
  CHECK(columns("4,5", 8) == 1);  // rows that leave most lanes empty
}

TEST_CASE(
    "where filters fill too little of a block, more become columns on a narrow core far from its memory") {
  const auto columns = [](const std::string& op, const std::string& x, const std::vector<int64_t>& w,
                          const std::string& attrs, bool waits) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": )" + x +
                       R"(}], "outputs": ["y"], "nodes": [{"op": ")" + op +
                       R"(", "inputs": ["x", "w"], "outputs": ["y"], "attrs": {)" + attrs + "}}]}");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, w, 3));
    Graph g = build_graph(m);
    use_col2im(g, evaluate_by_interpreter, {.waits = waits});
    return count(g, "Col2Im");
  };
  const auto transposed = [&](int64_t filters, bool waits) {
    return columns("ConvTranspose", "[1,384,70,20]", {384, filters, 3, 3}, R"("strides": [2,2])", waits);
  };
  CHECK(transposed(20, false) == 1);  // by any core: residues of filters that are no block
  CHECK(transposed(20, true) == 1);
  CHECK(transposed(24, true) == 0);  // three quarters of two blocks
  CHECK(transposed(32, true) == 0);

  // A window is computed in the padding too, which columns don't know.
  const std::string cube = "[1,11,8,9,6]", twice = R"("dilations": [2,2,2])";
  CHECK(columns("ConvTranspose", cube, {11, 20, 3, 3, 3}, twice, false) == 0);
  CHECK(columns("ConvTranspose", cube, {11, 20, 3, 3, 3}, twice, true) == 1);

  const auto same = [&](const std::string& x, int64_t channels, bool waits) {
    return columns("Conv", x, {11, channels, 5, 5}, R"("pads": [2,2,2,2])", waits);
  };
  CHECK(same("[1,192,38,38]", 192, false) == 0);
  CHECK(same("[1,192,38,38]", 192, true) == 1);
  CHECK(same("[1,16,64,64]", 16, true) == 0);  // there is less to multiply than to write
  // Windows that stay inside have no padding to waste products on.
  CHECK(columns("Conv", "[1,421,43,43]", {9, 421, 7, 7}, "", true) == 0);
  const auto grouped = [&](bool waits) {
    return columns("ConvTranspose", "[1,384,70,20]", {384, 20, 3, 3}, R"("strides": [2,2], "group": 2)",
                   waits);
  };
  CHECK(grouped(true) == grouped(false));
}

TEST_CASE("residues with nests of their own that pass over an image of short rows become columns") {
  const auto columns = [](int64_t row, int64_t kernel, bool waits) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,10,4,8,)" +
                       std::to_string(row) + R"(]}], "outputs": ["y"], "nodes": [{"op": "ConvTranspose",
                 "inputs": ["x", "w"], "outputs": ["y"], "attrs": {"strides": [4,4,4]}}]})");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {10, 8, kernel, kernel, kernel}, 3));
    Graph g = build_graph(m);
    use_col2im(g, evaluate_by_interpreter, {.waits = waits});
    return count(g, "Col2Im");
  };
  CHECK(columns(4, 5, false) == 0);
  CHECK(columns(4, 5, true) == 1);
  CHECK(columns(64, 5, true) == 0);
  CHECK(columns(4, 4, true) == 0);  // one nest
}

TEST_CASE("rows of a residue that hide no latency are slower than columns, where channels are many") {
  const auto columns = [](const std::string& image, int64_t filters) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,256,)" + image +
                       R"(]}],
      "outputs": ["y"], "nodes": [{"op": "ConvTranspose", "inputs": ["x", "w"], "outputs": ["y"],
      "attrs": {"strides": [2,2]}}]})");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {256, filters, 5, 5}, 3));
    Graph g = build_graph(m);
    use_col2im(g, evaluate_by_interpreter);
    return count(g, "Col2Im");
  };
  CHECK(columns("20,4", 16) == 1);  // 5.5 accumulators on average
  CHECK(columns("20,4", 32) == 0);  // two vectors of filters
  CHECK(columns("20,12", 16) == 0);
}

TEST_CASE("residues of filters that are no block of lanes become columns") {
  const auto columns = [](int64_t filters, int64_t stride, int64_t lanes) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,192,41,8]}],
      "outputs": ["y"], "nodes": [{"op": "ConvTranspose", "inputs": ["x", "w"], "outputs": ["y"],
      "attrs": {"strides": [)" +
                       std::to_string(stride) + "," + std::to_string(stride) + "]}}]}");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {192, filters, 5, 5}, 3));
    Graph g = build_graph(m);
    use_col2im(g, evaluate_by_interpreter, {.lanes = lanes});
    return count(g, "Col2Im");
  };
  for (const int64_t lanes : {8, 16}) {
    CHECK(columns(lanes - 1, 3, lanes) == 1);  // one iterator stands for filters and residues
    CHECK(columns(lanes, 3, lanes) == 0);
    CHECK(columns(lanes + lanes / 4, 2, lanes) == 1);  // blocks would be filled by less than three quarters
    CHECK(columns(2 * lanes, 2, lanes) == 0);
  }
}

TEST_CASE("taps that reach few outputs of a row's tile are slower than columns") {
  const auto columns = [](int64_t image, int64_t kernel) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,128,)" +
                       std::to_string(image) + "," + std::to_string(image) + R"(]}], "outputs": ["y"],
      "nodes": [{"op": "ConvTranspose", "inputs": ["x", "w"], "outputs": ["y"], "attrs": {}}]})");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {128, 128, kernel, kernel}, 3));
    Graph g = build_graph(m);
    use_col2im(g, evaluate_by_interpreter, {.lanes = 8});
    return count(g, "Col2Im");
  };
  CHECK(columns(5, 5) == 1);  // rows of 9, of which a tap reaches 5: one at one end of a tile
  CHECK(columns(5, 2) == 0);
  CHECK(columns(14, 5) == 0);
}

TEST_CASE("a convolution whose filters fill most of a block is left to Winograd, in blocks of them") {
  const auto made = [](int64_t filters, const std::string& image, const char* columns, bool waits,
                       bool winograd = true) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,128,)" + image +
                       R"(]}],
      "outputs": ["y"], "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"],
      "attrs": {"pads": [1,1,1,1]}}]})");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {filters, 128, 3, 3}, 3));
    Graph g = build_graph(m);
    use_col2im(g, evaluate_by_interpreter, {.waits = waits, .winograd = winograd});
    INFO(filters << " filters, " << image);
    CHECK((count(g, "Col2Im") == 1) == (std::string(columns) == "columns"));
    return partition(g, {.channel_block = kWidestVector, .blocked_io = true, .winograd = winograd})
        .blocked.size();
  };
  CHECK(made(23, "30,30", "no columns", true) == 2);
  CHECK(made(11, "30,30", "no columns", true) == 2);
  CHECK(made(9, "30,30", "columns", true) == 0);
  CHECK(made(18, "30,30", "columns", true) == 0);
  CHECK(made(23, "20,20", "columns", true) == 0);         // few tiles
  CHECK(made(23, "30,30", "columns", false) == 0);        // not measured there
  CHECK(made(23, "30,30", "columns", true, false) == 0);  // exact convolutions
}
