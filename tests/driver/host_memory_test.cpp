// A host that gives an artifact the memory of its runs.
#include "catch.h"
#include "nestor/artifact.h"
#include "nestor/driver.h"
#include "tests/command.h"
#include "tests/graph/files.h"

using namespace nestor;
using nestor::testing::output_of;

TEST_CASE("a host gives the memory of runs, as much as it has room for") {
  Folder folder;
  const std::string model = folder.write("model.json", R"({
    "name": "softmax", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 32]}],
    "outputs": ["y"],
    "nodes": [
      {"op": "Softmax", "inputs": ["x"], "outputs": ["p"]},
      {"op": "Transpose", "inputs": ["p"], "outputs": ["t"]},
      {"op": "MatMul", "inputs": ["p", "t"], "outputs": ["m"]},
      {"op": "MatMul", "inputs": ["m", "p"], "outputs": ["y"]}
    ]
  })");
  CompileOptions options;
  options.schedules = default_schedules();
  options.build.symbolic = true;
  const CompiledModel compiled = compile_model(model, options);
  ArtifactOptions artifact;
  artifact.path = folder / "m.so";
  write_artifact(*compiled.plan, compiled.lowered(), compiled.target, artifact);
  folder.write("main.c", R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "m.h"
static float run(struct m* model, int64_t n, float* x, float* y) {
  const struct m_input_shapes shapes = {{n, 32}};
  const struct m_inputs in = {x};
  const struct m_outputs out = {y};
  if (m_fit(model, &shapes, NULL)) return -1;
  return m_run(model, &in, &out) ? -2 : y[n * 32 - 1];
}
int main(void) {
  enum { N = 50, GUARD = 256 };
  static float x[N * 32], y[N * 32];
  for (int i = 0; i < N * 32; ++i) x[i] = (float)(i % 7);
  struct m* model = m_create(NULL);
  const float large = run(model, N, x, y), small = run(model, 3, x, y);
  const struct m_input_shapes shapes = {{N, 32}};
  const int64_t bytes = m_memory_size(&shapes);
  for (int shift = 0; shift < 3; ++shift) {  /* from any address */
    unsigned char* memory = malloc((size_t)bytes + GUARD);
    memset(memory, 77, (size_t)bytes + GUARD);
    if (m_use_memory(model, memory + shift, bytes)) return 1;
    struct m_inputs in = {x};
    struct m_outputs out = {y};
    if (m_run(model, &in, &out) != M_BAD_SIZES) return 2;  /* nothing was fitted since */
    if (run(model, 3, x, y) != small || run(model, N, x, y) != large) return 3;
    for (int i = 0; i < shift; ++i) if (memory[i] != 77) return 4;
    for (int i = shift; i < GUARD; ++i) if (memory[bytes + i] != 77) return 5;
    if (m_use_memory(model, memory, bytes - 1)) return 6;
    if (run(model, 3, x, y) != small || run(model, N, x, y) != -1) return 7;
    printf("%d\n", strstr(m_why(model), "bytes of memory, the host gave") != NULL);
    if (m_use_memory(model, NULL, 0)) return 8;
    free(memory);
    if (run(model, N, x, y) != large || run(model, 3, x, y) != small) return 9;
  }
  m_destroy(model);
  return 0;
}
)");
  const std::string main = folder / "main";
  output_of("cc -std=c11 -Wall -Wextra -Werror -I" + (folder / "") + " " + main + ".c " + artifact.path +
            " -Wl,-rpath," + (folder / "") + " -o " + main);
  CHECK(output_of(main) == "1\n1\n1\n");
}
