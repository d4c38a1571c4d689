// Large pages under weights, temporaries and scratch: asked for, and nothing else changes.
#include <cstring>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "nestor/runtime.h"

using namespace nestor;

namespace {

// Whether the kernel was told (the flag `hg` of the mapping) that memory at `p` wants large pages.
bool wants_large_pages(const void* p) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(p);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream text(line);
    if (text >> std::hex >> begin >> dash >> end && dash == '-')
      here = begin <= address && address < end;
    else if (here && line.rfind("VmFlags:", 0) == 0)
      return line.find(" hg") != std::string::npos;
  }
  return false;
}

bool system_has_them() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  return setting.good();
}

}  // namespace

TEST_CASE("a large tensor gets large pages and keeps what it holds") {
  Tensor t = Tensor::random(DType::f32, {3, 500, 1001}, 7);
  const Tensor before = t.clone();
  prefer_large_pages(t);
  CHECK(std::memcmp(t.data(), before.data(), static_cast<size_t>(t.bytes())) == 0);
  const auto* middle = static_cast<const char*>(t.data()) + t.bytes() / 2;
  CHECK(wants_large_pages(middle) == system_has_them());
}

TEST_CASE("a megabyte lies in a large page from its first byte to its last") {
  Tensor t(DType::u8, {1 << 20});
  prefer_large_pages(t);
  const auto* first = static_cast<const char*>(t.data());
  CHECK(reinterpret_cast<uintptr_t>(first) % (2 << 20) == 0);
  CHECK(wants_large_pages(first) == system_has_them());
  CHECK(wants_large_pages(first + t.bytes() - 1) == system_has_them());
}

TEST_CASE("small tensors and none stay as they are") {
  Tensor none, small(DType::f32, {1000});
  prefer_large_pages(none);
  prefer_large_pages(small);
  CHECK(!wants_large_pages(small.data()));
}

TEST_CASE("an executor's scratch is in large pages") {
  auto plan = std::make_shared<Plan>();
  plan->kernels = {"where"};
  plan->workspace_bytes = 8 << 20;
  plan->calls.push_back({});
  plan->calls.back().kernel = 0;
  const void* scratch = nullptr;
  Executor executor(plan, {[&](void* const*, void* workspace, void*) {
                      scratch = workspace;
                      return 0;
                    }},
                    nullptr);
  executor.run_raw(nullptr, nullptr);
  REQUIRE(scratch);
  CHECK(wants_large_pages(static_cast<const char*>(scratch) + (4 << 20)) == system_has_them());
}
