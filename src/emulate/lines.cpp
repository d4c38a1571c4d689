#include "src/emulate/lines.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

namespace nestor {

namespace {

std::string output_of(const std::string& command) {
  std::string out;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get())) out += part.data();
  return out;
}

}  // namespace

std::string quoted(const EmulatedKernel& kernel, int line) {
  if (line <= 0) return "an unknown line";
  const char* at = kernel.text;
  for (int i = 1; i < line && at; ++i) {
    at = std::strchr(at, '\n');
    if (at) ++at;
  }
  std::string out = "line " + std::to_string(line);
  if (!at || !*at) return out;
  const std::string words(at, std::strcspn(at, "\n"));
  return out + ": `" + words.substr(std::min(words.find_first_not_of(' '), words.size())) + "`";
}

std::vector<int> lines_of(const std::vector<const void*>& sites) {
  std::vector<int> out(sites.size(), 0);
  Dl_info info{};
  if (sites.empty() || !dladdr(sites[0], &info)) return out;
  std::string command = std::string("addr2line -a -i -e '") + info.dli_fname + "'";
  for (const void* s : sites) {
    std::array<char, 32> text{};
    // A return address: the call is before it.
    const uintptr_t in_file =
        reinterpret_cast<uintptr_t>(s) - reinterpret_cast<uintptr_t>(info.dli_fbase) - 1;
    std::snprintf(text.data(), text.size(), " 0x%zx", static_cast<size_t>(in_file));
    command += text.data();
  }
  // For each its address, then FILE:LINE of the function and of what it is inlined into. `kernels` is the
  // text.
  std::istringstream lines(output_of(command + " 2>/dev/null"));
  size_t site = SIZE_MAX;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.rfind(':');
    if (line.compare(0, 2, "0x") == 0 && colon == std::string::npos) {
      ++site;
    } else if (site < out.size() && out[site] == 0 && colon != std::string::npos) {
      const std::string file = line.substr(0, colon);
      const bool text = file == "kernels" || (file.size() > 8 && file.substr(file.size() - 8) == "/kernels");
      if (text) out[site] = std::atoi(line.c_str() + colon + 1);
    }
  }
  return out;
}

}  // namespace nestor
