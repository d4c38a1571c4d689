// Every barrier and shuffle of emitted kernels is needed: the text without any one of them gives a wrong
// result, or the race check and the emulator's warps report it. The table is printed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "catch.h"
#include "kernels.h"
#include "nestor/error.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Site {
  size_t at, size;
  std::string instead;
  std::string what;
};

// From the bracket that opens at `at` to behind the one that closes it.
size_t behind_bracket(const std::string& text, size_t at) {
  int depth = 0;
  do {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    ++at;
  } while (depth > 0);
  return at;
}

// The second argument of a call whose bracket opens at `at`.
std::string second_argument(const std::string& text, size_t at) {
  int depth = 0;
  size_t from = 0;
  for (size_t i = at;; ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    const bool ends = (text[i] == ',' && depth == 1) || depth == 0;
    if (ends && from) return text.substr(from, i - from);
    if (ends) from = i + 1;
  }
}

std::vector<Site> sites_of(const std::string& text) {
  std::vector<Site> out;
  for (const std::string name : {"__syncthreads", "__syncwarp", "__shfl_"})
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const size_t open = text.find('(', at), end = behind_bracket(text, open);
      const bool shuffle = name == "__shfl_";
      out.push_back({at, end - at, shuffle ? "(" + second_argument(text, open) + ")" : "",
                     shuffle ? "shuffle" : "barrier"});
    }
  return out;
}

// The program without one of them, under other names.
CudaProgram without(const CudaProgram& program, const Site& site, size_t number) {
  CudaProgram out = program;
  out.source.replace(site.at, site.size, site.instead);
  for (CudaKernel& k : out.kernels) {
    const std::string other = k.name + "_without_" + std::to_string(number);
    for (size_t at = 0; (at = out.source.find("\n" + k.name + "(", at)) != std::string::npos; ++at)
      out.source.replace(at + 1, k.name.size(), other);
    k.name = other;
  }
  return out;
}

// With the case's own inputs, or for other seeds with the same numbers in other places: a maximum may be
// found although half of the values are left out.
std::vector<Tensor> run(const Emulator& emulator, const CudaCase& c, const CudaProgram& p, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<Tensor> args;
  for (const Tensor& t : c.lowered_inputs) {
    args.push_back(t.clone());
    if (seed == 0 || !is_float(t.dtype())) continue;
    for (int64_t i = t.size() - 1; i > 0; --i) {
      const auto j = static_cast<int64_t>(rng() % static_cast<uint64_t>(i + 1));
      const double x = args.back().get(i), y = args.back().get(j);
      args.back().set(i, y);
      args.back().set(j, x);
    }
  }
  emulator.run(p, args, seed == 0 ? LoopOrder::forward : LoopOrder::random, seed);
  return args;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t p = 0; p < a.size(); ++p)
    for (int64_t i = 0; i < a[p].size(); ++i)
      if (a[p].get(i) != b[p].get(i) && !(a[p].get(i) != a[p].get(i) && b[p].get(i) != b[p].get(i)))
        return false;
  return true;
}

// How it is noticed; "" if it isn't.
std::string notice(const Emulator& emulator, const CudaCase& c, const CudaProgram& p,
                   const std::vector<std::vector<Tensor>>& wanted) {
  try {
    for (uint64_t seed = 0; seed < wanted.size(); ++seed)
      if (!same(run(emulator, c, p, seed), wanted[seed])) return "wrong result";
  } catch (const UserError& e) {
    return std::string(e.what()).find("a race in") != std::string::npos ? "race" : "threads part";
  }
  return "";
}

}  // namespace

TEST_CASE("without any one barrier or shuffle of an emitted kernel its emulation fails") {
  fmt::print("{:24} {:>8} {:>8}  noticed by\n", "kernel", "barriers", "shuffles");
  int waiting = 0;
  for (const NamedCase& k : waiting_kernels()) {
    const CudaProgram& whole = k.made.program;
    const std::vector<Site> sites = sites_of(whole.source);
    std::vector<CudaProgram> programs = {whole};
    for (const Site& s : sites) programs.push_back(without(whole, s, programs.size()));
    const Emulator emulator(programs, Tracing::on);
    std::vector<std::vector<Tensor>> wanted;
    for (uint64_t seed = 0; seed < 4; ++seed) wanted.push_back(run(emulator, k.made, whole, seed));
    std::map<std::string, int> count, ways;
    for (size_t i = 0; i < sites.size(); ++i) {
      ++count[sites[i].what];
      const std::string way = notice(emulator, k.made, programs[i + 1], wanted);
      ++ways[way];
      const size_t line = static_cast<size_t>(
          std::count(whole.source.begin(), whole.source.begin() + static_cast<long>(sites[i].at), '\n'));
      INFO(k.name << ": the " << sites[i].what << " of line " << line + 1 << " is redundant\n"
                  << whole.source);
      CHECK(way != "");
    }
    std::string noticed;
    for (const auto& [way, n] : ways) noticed += fmt::format("{}{} {}", noticed.empty() ? "" : ", ", way, n);
    fmt::print("{:24} {:>8} {:>8}  {}\n", k.name, count["barrier"], count["shuffle"], noticed);
    waiting += !sites.empty();
  }
  CHECK(waiting >= 15);
}
