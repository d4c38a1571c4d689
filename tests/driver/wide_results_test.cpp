// Results that are stored in wider elements than those of the sum: f64 and i64, when a Cast follows.
#include <fmt/format.h>

#include "catch.h"
#include "tests/driver/compiled.h"
#include "tests/graph/files.h"

using namespace nestor;

namespace {

// One operator of `inputs` ("\"a\", \"b\"") of these shapes, and a Cast.
std::string cast_of(const std::string& op, const std::vector<std::string>& shapes, const std::string& attrs,
                    const std::string& dtype) {
  std::string inputs, names;
  for (size_t k = 0; k < shapes.size(); ++k) {
    const char* comma = k ? ", " : "";
    inputs += fmt::format(R"({}{{"name": "x{}", "dtype": "f32", "shape": [{}]}})", comma, k, shapes[k]);
    names += fmt::format("{}\"x{}\"", comma, k);
  }
  return fmt::format(R"({{"name": "c", "opset": 17, "inputs": [{}], "outputs": ["y"], "nodes": [
    {{"op": "{}", "inputs": [{}], "outputs": ["s"], "attrs": {{{}}}}},
    {{"op": "Cast", "inputs": ["s"], "outputs": ["y"], "attrs": {{"to": "{}"}}}}]}})",
                     inputs, op, names, attrs, dtype);
}

}  // namespace

TEST_CASE("sums in registers become wider elements: a register stays one vector") {
  const Folder folder;
  struct Work {
    std::string op;
    std::vector<std::string> shapes;
    std::string attrs;
  };
  const std::vector<Work> works = {{"MatMul", {"37,50", "50,70"}, ""},
                                   {"MatMul", {"4,16", "16,16"}, ""},
                                   {"Conv", {"1,8,9,9", "16,8,3,3"}, ""},
                                   {"Conv", {"1,16,9,9", "16,1,3,3"}, "\"group\": 16"},
                                   {"MaxPool", {"1,8,14,14"}, "\"kernel_shape\": [2,2], \"strides\": [2,2]"},
                                   {"ReduceSum", {"40,130"}, ""},
                                   {"Softmax", {"12,70"}, ""}};
  for (const Work& w : works)
    for (const char* dtype : {"f64", "i64", "i8"})
      for (const char* name : {"native", "x86-64-v3", "x86-64-v2"}) {
        INFO(w.op << " " << w.shapes[0] << " to " << dtype << " on " << name);
        const Target target = parse_target(name);
        const CompiledModel m =
            compiled(folder.write("c.json", cast_of(w.op, w.shapes, w.attrs, dtype)), target);
        REQUIRE(m.funcs.size() == 1);
        check_results(m.funcs[0], target);
        check_proof(m.funcs[0]);
      }
}
