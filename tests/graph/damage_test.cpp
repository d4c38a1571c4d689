// Damaged files: whatever a byte does, the answer is a graph or a UserError, never a crash or an internal
// error.
#include <random>

#include "catch.h"
#include "nestor/graph.h"
#include "tests/graph/files.h"

using namespace nestor;

namespace {

std::string example(const std::string& extension) {
  std::ifstream in(std::string(NESTOR_SOURCE_DIR) + "/examples/digits/digits" + extension, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// True where a graph came of it.
bool survives(const Folder& folder, const std::string& bytes) {
  try {
    Graph g = build_graph(read_model(folder.write("m.bin", bytes)), {{{"batch", 1}}, {}});
    optimize(g, evaluate_by_interpreter);
    partition(g);
    return true;
  } catch (const UserError& e) {
    CHECK_FALSE(std::string(e.what()).empty());
    return false;
  }
}

}  // namespace

TEST_CASE("Truncated models are refused") {
  const Folder folder;
  for (const char* extension : {".json", ".onnx"}) {
    const std::string whole = example(extension);
    REQUIRE(survives(folder, whole));
    for (size_t n = 0; n + 20 < whole.size(); n += 1 + whole.size() / 60) {
      INFO(extension << " cut to " << n << " bytes");
      CHECK_FALSE(survives(folder, whole.substr(0, n)));
    }
  }
}

TEST_CASE("Models with damaged bytes give a graph or an error") {
  const Folder folder;
  std::mt19937 rng(20);
  int refused = 0;
  for (const char* extension : {".json", ".onnx"}) {
    const std::string whole = example(extension);
    for (int i = 0; i < 150; ++i) {
      std::string damaged = whole;
      const auto at = rng() % (whole.size() / 3);  // the weights lie behind
      damaged[at] =
          static_cast<char>(extension[1] == 'j' ? "0\"[]{}:,-9"[rng() % 10] : static_cast<char>(rng()));
      INFO(extension << " damaged at " << at << " with " << static_cast<int>(damaged[at]));
      refused += !survives(folder, damaged);
    }
  }
  CHECK(refused > 20);
}
