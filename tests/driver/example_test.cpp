// The C program of examples/c, built with the system's compiler against nothing but the artifact, reads real
// digits.
#include <sstream>

#include "catch.h"
#include "nestor/artifact.h"
#include "nestor/driver.h"
#include "nestor/npz.h"
#include "tests/command.h"
#include "tests/graph/files.h"

using namespace nestor;
using nestor::testing::output_of;

TEST_CASE("the C example says what the network says in process, image by image") {
  const std::string source = NESTOR_SOURCE_DIR;
  const Folder folder;
  CompileOptions options;
  options.build.dims["batch"] = 1;
  const CompiledModel model = compile_model(source + "/examples/digits/digits.json", options);
  const ArtifactFiles files = write_artifact(*model.plan, model.lowered(), model.target,
                                             {folder / "digits.so", "", WeightsPlace::automatic});
  CHECK(files.weights.empty());

  const auto data = read_npz(source + "/examples/digits/heldout.npz");
  const Tensor& images = data.at("image");
  std::ostringstream grey;
  std::string expected;
  auto executor = make_executor(model);
  auto artifact = load_artifact(files.object);
  for (int i = 0; i < 50; ++i) {
    Tensor image(DType::f32, {1, 1, 8, 8});
    for (int k = 0; k < 64; ++k) {
      image.set(k, images.get(64 * i + k));
      grey << 16 * images.get(64 * i + k) << ' ';
    }
    const Tensor p = executor->run({{"image", image}}).at("probability");
    const Tensor q = artifact->run({{"image", image}}).at("probability");
    int best = 0;
    for (int d = 0; d < 10; ++d) {
      CHECK(p.get(d) == q.get(d));  // the same kernels, bit for bit
      if (p.get(d) > p.get(best)) best = d;
    }
    expected += std::to_string(best) + "\n";
  }
  const std::string program = folder / "program", dir = folder / "";
  output_of("cc -std=c11 -Wall -Wextra -Werror -I" + dir + " " + source + "/examples/c/digits.c " +
            files.object + " -Wl,-rpath," + dir + " -o " + program);
  CHECK(output_of(program + " < " + folder.write("grey.txt", grey.str())) == expected);

  std::istringstream needed(output_of("ldd " + program));
  for (std::string line; std::getline(needed, line);) {
    INFO(line);
    bool known = false;
    for (const char* name : {"linux-vdso", "digits.so", "libc.so", "libm.so", "ld-linux"})
      known = known || line.find(name) != std::string::npos;
    CHECK(known);
  }
}
