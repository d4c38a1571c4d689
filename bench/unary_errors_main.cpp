// The worst error of each unary f32 operator over all 2^32 inputs: `./dev bench errors [--target=T]
// [--stride=N] [NAME ...]`.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>

#include "bench/unary_errors.h"

int main(int argc, char** argv) try {
  nestor::Target target = nestor::host_target();
  uint64_t stride = 1;
  std::set<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.starts_with("--target="))
      target = nestor::parse_target(arg.substr(9));
    else if (arg.starts_with("--stride="))
      stride = std::max<uint64_t>(1, std::strtoull(arg.c_str() + 9, nullptr, 10));
    else
      names.insert(arg);
  }
  std::printf("# %s, every %llu of the 2^32 floats\n%-16s %-22s %8s %8s %16s %16s\n", target.name.c_str(),
              static_cast<unsigned long long>(stride), "operator", "attributes", "ulp", "bound", "x",
              "result");
  bool within = true;
  for (const nestor::UnaryOperator& op : nestor::unary_operators()) {
    if (!names.empty() && names.count(op.name) == 0) continue;
    const nestor::WorstError w = nestor::worst_error(op, target, stride);
    std::printf("%-16s %-22s %8.3f %8.2f %16a %16a\n", op.name, op.attrs, w.ulps, op.ulps,
                static_cast<double>(w.x), static_cast<double>(w.got));
    std::fflush(stdout);
    within = within && w.ulps <= op.ulps;
  }
  return within ? 0 : 3;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
