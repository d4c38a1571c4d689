#include "nestor/emulate.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "nestor/embedded.h"
#include "nestor/error.h"
#include "nestor/files.h"
#include "nestor/read_text.h"

namespace nestor {

namespace {

namespace fs = std::filesystem;

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string text_of(const std::vector<EmulatedCode::Part>& parts) {
  std::string out = "#define NESTOR_EMULATED\n" + std::string(emulation_files().at(0).text);
  for (size_t i = 0; i < parts.size(); ++i) {
    out += "namespace program_" + std::to_string(i) + " {\n" + parts[i].source;
    for (const CudaKernel& k : parts[i].kernels)
      out += "NESTOR_EMULATE(" + k.name + ", " + (k.waits ? "true" : "false") + ")\n";
    out += "}\n";
  }
  return out;
}

std::vector<CudaKernel> kernels_of(const CudaModule& module) {
  std::vector<CudaKernel> out;
  for (const CudaProgram& f : module.functions) out.insert(out.end(), f.kernels.begin(), f.kernels.end());
  return out;
}

}  // namespace

EmulatedCode::EmulatedCode(const CudaModule& module)
    : EmulatedCode(std::vector<Part>{{module.source, kernels_of(module)}}) {}

EmulatedCode::EmulatedCode(const std::vector<Part>& parts) {
  const char* given = std::getenv("NESTOR_CXX");
  const std::string compiler = given && *given ? given : "c++";
  folder_ = (fs::temp_directory_path() / "nestor-emulation-XXXXXX").string();
  if (!mkdtemp(folder_.data())) throw UserError("there is no room for compiled kernels in " + folder_);
  library_ = folder_ + "/kernels.so";
  const std::string source = folder_ + "/kernels.cpp", log = folder_ + "/log";
  PendingFiles file;
  file.write(source, text_of(parts));
  file.commit();
  const std::string command = in_quotes(compiler) + " -std=c++17 -O1 -w -ffp-contract=off -fPIC -shared " +
                              in_quotes(source) + " -o " + in_quotes(library_) + " >" + in_quotes(log) +
                              " 2>&1";
  if (std::system(command.c_str()) == 0) return;
  const std::string messages = read_text(log);
  fs::remove_all(folder_);
  throw UserError(Diagnostic{"the C++ compiler " + compiler + " can't compile the kernels for emulation",
                             {},
                             {messages},
                             "install g++ or clang++, or set NESTOR_CXX to a C++ compiler"});
}

EmulatedCode::~EmulatedCode() {
  std::error_code none;
  fs::remove_all(folder_, none);
}

}  // namespace nestor
