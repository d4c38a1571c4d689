#include "nestor/emulate.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <utility>

#include "nestor/embedded.h"
#include "nestor/error.h"
#include "nestor/read_text.h"
#include "runtime/temporaries.h"

namespace nestor {

namespace {

namespace fs = std::filesystem;

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// As a pointer to what the launch provides: C++ has no array whose extent is known later.
std::string without_dynamic_shared(const std::string& source) {
  static const std::regex declared(R"(extern __shared__ (__align__\(\d+\) )?(\w[\w ]*?) (\w+)\[\];)");
  return std::regex_replace(source, declared, "$2* const $3 = ($2*)nestor_emulation->dynamic_shared;");
}

std::string text_of(const std::vector<EmulatedCode::Part>& parts) {
  std::string out = "#define NESTOR_EMULATED\n";
  for (const EmbeddedFile& f : emulation_files()) out += f.text;
  for (size_t i = 0; i < parts.size(); ++i) {
    out += "namespace program_" + std::to_string(i) +
           " {\nstatic const char nestor_text[] = R\"nestor_text(" + parts[i].source +
           ")nestor_text\";\n#line 1 \"kernels\"\n" + without_dynamic_shared(parts[i].source) + "\n";
    for (const CudaKernel& k : parts[i].kernels)
      out += "NESTOR_EMULATE(" + k.name + ", " + (k.waits ? "true" : "false") + ")\n";
    out += "}\n";
  }
  return out;
}

const std::string kOptions = " -std=c++17 -O1 -w -ffp-contract=off -fPIC ";

std::string plain_command(const std::string& compiler, const std::string& source, const std::string& made) {
  return compiler + kOptions + "-shared -x c++ " + source + " -o " + made;
}

// The compiler instruments, but doesn't link ThreadSanitizer: its functions are in emulation_trace.h. Clang
// leaves out the first access where a value is read and written back, unless it is told not to.
std::string traced_command(const std::string& compiler, const std::string& source, const std::string& made) {
  return "clang=; if " + compiler +
         " --version | grep -q clang; then clang='-mllvm -tsan-instrument-read-before-write'; fi; " +
         compiler + kOptions + "-DNESTOR_TRACED -fsanitize=thread $clang -g1 -c -x c++ " + source + " -o " +
         made + " && " + compiler + " -shared -x none -o " + made + ".so " + made + " && mv " + made +
         ".so " + made;
}

// A file that goes when this does, or by a signal that ends the process.
struct Temporary {
  std::string path = (fs::temp_directory_path() / "nestor-emulation-XXXXXX").string();
  Temporary() {
    const int descriptor = temporaries::create(path);
    if (descriptor < 0) throw UserError("there is no room for compiled kernels in " + path);
    close(descriptor);
  }
  ~Temporary() {
    if (!path.empty()) temporaries::remove(path);
  }
  Temporary(const Temporary&) = delete;
};

std::vector<CudaKernel> kernels_of(const CudaModule& module) {
  std::vector<CudaKernel> out;
  for (const CudaProgram& f : module.functions) out.insert(out.end(), f.kernels.begin(), f.kernels.end());
  return out;
}

}  // namespace

EmulatedCode::EmulatedCode(const CudaModule& module, Tracing tracing)
    : EmulatedCode(std::vector<Part>{{module.source, kernels_of(module)}}, tracing) {}

EmulatedCode::EmulatedCode(const std::vector<Part>& parts, Tracing tracing) {
  const char* given = std::getenv("NESTOR_CXX");
  const std::string compiler = given && *given ? given : "c++";
  const Temporary source, log;
  Temporary made;
  std::ofstream(source.path, std::ios::binary) << text_of(parts);
  const std::string command = "(" +
                              (tracing == Tracing::on ? traced_command : plain_command)(
                                  in_quotes(compiler), in_quotes(source.path), in_quotes(made.path)) +
                              ") >" + in_quotes(log.path) + " 2>&1";
  if (std::system(command.c_str()) != 0)
    throw UserError(Diagnostic{"the C++ compiler " + compiler + " can't compile the kernels for emulation",
                               {},
                               {read_text(log.path)},
                               "install g++ or clang++, or set NESTOR_CXX to a C++ compiler"});
  library_ = std::exchange(made.path, "");
}

EmulatedCode::~EmulatedCode() {
  temporaries::remove(library_);
}

}  // namespace nestor
