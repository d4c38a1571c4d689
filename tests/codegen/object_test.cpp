// Objects and bitcode for this and other architectures.
#include <cstring>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/error.h"

using namespace nestor;

namespace {

PrimFunc copy_func() {
  Buffer x = make_buffer("X", {DType::f32}), y = make_buffer("Y", {DType::f32});
  Var i = make_var("i");
  Stmt body = make::loop(i, 100, make::store(y, {i}, make::load(x, {i})));
  return {"copy",
          {},
          {{Role::in, {x, {100}, Scope::global, {}}}, {Role::out, {y, {100}, Scope::global, {}}}},
          {},
          body};
}

int machine_of(const std::string& elf) {
  REQUIRE(elf.size() > 20);
  REQUIRE(elf.substr(0, 4) ==
          "\x7f"
          "ELF");
  return static_cast<unsigned char>(elf[18]) | static_cast<unsigned char>(elf[19]) << 8;
}

}  // namespace

TEST_CASE("objects are emitted for x86-64 and aarch64, the same bytes each time") {
  for (const auto& [name, machine] : {std::pair{"x86-64-v3", 62}, {"x86-64-v4", 62}, {"aarch64", 183}}) {
    const std::string object = emit_object({copy_func()}, parse_target(name));
    CHECK(machine_of(object) == machine);
    CHECK(emit_object({copy_func()}, parse_target(name)) == object);
    CHECK(object.find("copy") != std::string::npos);
  }
}

TEST_CASE("a copy loop stays the loop that was written") {
  const std::string assembly = emit_asm({copy_func()}, parse_target("x86-64-v4"));
  CHECK(assembly.find("memcpy") == std::string::npos);
  CHECK(assembly.find("zmm") == std::string::npos);
}

TEST_CASE("the thread pool is there as bitcode for the architectures that objects are for") {
  for (const char* name : {"x86-64-v3", "aarch64"})
    CHECK(kernel_rt_bitcode(parse_target(name).arch()).substr(0, 2) == "BC");
  CHECK_THROWS_AS(kernel_rt_bitcode("riscv64"), UserError);
}

TEST_CASE("what the CPU back end can't do is a request's fault") {
  CHECK_THROWS_AS(emit_object({copy_func()}, parse_target("cuda:sm_80")), UserError);
  PrimFunc f = copy_func();
  f.body = make::loop(make_var("t"), 4, f.body, ForKind::thread, ThreadTag::thread_x);
  CHECK_THROWS_AS(emit_object({f}, host_target()), UserError);
  f.body = make::evaluate(make::call(Intrinsic::sync, {}));
  CHECK_THROWS_AS(emit_object({f}, host_target()), UserError);
  f.dims = {make_var("N")};
  CHECK_THROWS_AS(emit_object({f}, host_target()), UserError);
}
