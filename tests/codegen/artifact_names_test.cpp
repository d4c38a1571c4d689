// Names of models, tensors and kernels, which may be anything, in an artifact's symbols and its header.
#include <fstream>

#include "catch.h"
#include "tests/codegen/small_artifact.h"
#include "tests/command.h"

using namespace nestor;
using namespace nestor::testing;

TEST_CASE("no name of a kernel or a model meets another") {
  Scratch scratch;
  for (const std::string& model : std::vector<std::string>{"m", "nestor_instance", "nestor_pool", "pthread",
                                                           "nestor_model_v2", "kernel"})
    for (const std::string& kernel :
         {model + "_run", model + "_create", std::string("nestor_model_v2"), std::string("nestor_parallel"),
          std::string("malloc"), std::string("main"), std::string("artifact_calls"), std::string("tanh")}) {
      INFO(model << " " << kernel);
      auto kernels = two_kernels(kSize);
      kernels[1].name = kernel;
      const ArtifactFiles files = write_artifact(plan_of(kernels, 2), kernels, host_target(),
                                                 {scratch / "m.so", model, WeightsPlace::automatic});
      CHECK(right(*load_artifact(files.object), 2));
    }
}

TEST_CASE("a tensor's name is no code in the header, whatever it is") {
  Scratch scratch;
  Plan plan = plan_of(two_kernels(kSize), 1);
  plan.inputs.clear();
  for (const char* name : {"*/ int injected(void); /*",
                           "/*",
                           "**/",
                           "/",
                           "a\nb",
                           "\\",
                           "class",
                           "nullptr",
                           "NULL",
                           "noexcept",
                           "1x",
                           "a b",
                           "a.b",
                           "",
                           "INT64_MAX",
                           "UINT8_MAX",
                           "INT8_C",
                           "SIZE_MAX",
                           "WCHAR_MIN",
                           "CHAR_BIT",
                           "FLT_MAX",
                           "int64_t",
                           "uint16_t",
                           "int8_t",
                           "m_inputs",
                           "M_THREADS",
                           "M_BUSY",
                           "NESTOR_m_H",
                           "EOF",
                           "errno",
                           "stdin",
                           "I",
                           "complex",
                           "bool",
                           "linux",
                           "unix",
                           "__func__",
                           "_Bool",
                           "\xff\xfe",
                           "\xc3\x28",
                           "\xc3\xa9",
                           "a_b",
                           "a_b_2",
                           "m_create",
                           "none",
                           "import",
                           "wchar_t",
                           "xor"})
    plan.inputs.push_back({name, DType::f32, {1}});
  std::ofstream(scratch / "m.h") << artifact_header(plan, "m", host_target());
  // Behind the headers whose macros they might be, and in front of them.
  const std::string headers =
      "#include <stdio.h>\n#include <errno.h>\n#include <limits.h>\n#include <float.h>\n#include "
      "<stdint.h>\n";
  std::ofstream(scratch / "a.c") << headers
                                 << "#include <complex.h>\n#include <stdbool.h>\n#include \"m.h\"\n";
  std::ofstream(scratch / "b.c") << "#include \"m.h\"\n#include \"m.h\"\n" << headers;
  std::ofstream(scratch / "a.cpp") << headers << "#include <wchar.h>\n#include \"m.h\"\n";
  for (const char* file : {"a.c", "b.c"})
    for (const char* standard : {"-std=c99", "-std=c11", "-std=gnu17"})
      output_of(std::string("cc -fsyntax-only -pedantic -Wall -Wextra -Werror ") + standard + " " +
                scratch / file);
  for (const char* standard : {"-std=c++11", "-std=gnu++20"})
    for (const char* file : {"a.cpp", "m.h"})
      output_of(
          std::string(
              "g++ -fsyntax-only -pedantic -x c++ -Wall -Wextra -Werror -Wno-pragma-once-outside-header ") +
          standard + " " + scratch / file);
  std::ofstream(scratch / "main.c") << "#include \"m.h\"\nint injected = 0;\n";
  output_of("cc -fsyntax-only -Wall -Werror " + scratch / "main.c");
}

TEST_CASE("a name in C stays as it is made") {
  for (const char* name :
       {"my-model.v2", "1x", "class", "INT64_MAX", "pthread", "timer", "_a", "", "\xff", "a"}) {
    INFO(name);
    CHECK(c_identifier(c_identifier(name)) == c_identifier(name));
    CHECK(artifact_name(artifact_name(name)) == artifact_name(name));
  }
  CHECK(artifact_name("my-model.v2") == "my_model_v2");
  CHECK(artifact_name("pthread") == "pthread_");
  CHECK(artifact_name("timer") == "timer_");
  CHECK(c_identifier("INT64_MAX") == "INT64_MAX_");
  CHECK(c_identifier("x_t") == "x_t");
}
