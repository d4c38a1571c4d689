#include "nestor/target.h"

#include "catch.h"
#include "nestor/error.h"

using namespace nestor;

TEST_CASE("every known target parses") {
  for (const std::string& name : known_targets()) {
    const Target t = parse_target(name);
    CHECK(t.name == name);
    CHECK(t.lanes(4) >= 4);
    CHECK(t.cores >= 1);
    CHECK((t.kind == TargetKind::cuda) == (name.rfind("cuda:", 0) == 0));
  }
}

TEST_CASE("a server's mesh is known by its cores") {
  const Target host = host_target();
  if (host.cpu == "cascadelake" || host.cpu == "graniterapids") CHECK(host.far_l3());
  if (host.cpu.rfind("znver", 0) == 0) CHECK_FALSE(host.far_l3());
  CHECK_FALSE(parse_target("x86-64-v4").far_l3());
}

TEST_CASE("a processor's name is a target with its instructions and caches") {
  const Target a76 = parse_target("cortex-a76");
  CHECK(a76.name == "cortex-a76");
  CHECK(a76.cpu == "cortex-a76");
  CHECK(a76.arch() == "aarch64");
  CHECK(a76.has_feature("dotprod"));
  CHECK_FALSE(a76.has_feature("sve"));
  CHECK(a76.l2_bytes == 256 << 10);
  CHECK_FALSE(parse_target("cortex-a72").has_feature("dotprod"));
  const Target zen4 = parse_target("znver4");
  CHECK(zen4.arch() == "x86_64");
  CHECK(zen4.vector_bits == 512);
  CHECK(zen4.double_pumped);
  CHECK(zen4.has_feature("avx512vnni"));
  CHECK(parse_target("haswell").vector_bits == 256);
  CHECK(parse_target("haswell").issue_width == 4);
  CHECK(parse_target("nehalem").vector_bits == 128);
  CHECK(parse_target("cascadelake").far_l3());
  for (const char* name : {"generic", "x86-64", "core2", "i386", "cortex-m4", ""})
    CHECK_THROWS_AS(parse_target(name), UserError);
}

TEST_CASE("code for this machine's processor by name runs here") {
  if (const std::string cpu = host_target().cpu; cpu != "generic") CHECK(runs_here(parse_target(cpu)));
  if (host_target().arch() == "x86_64") CHECK_FALSE(runs_here(parse_target("cortex-a76")));
}

TEST_CASE("an unknown target lists those there are") {
  try {
    parse_target("x86-64-v5");
    FAIL("accepted");
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find("x86-64-v4, aarch64, cuda:sm_75") != std::string::npos);
  }
}

TEST_CASE("the issue width is that of LLVM's model of a CPU, or the window's where that is narrower") {
  const std::string x86 = "x86_64-unknown-linux-gnu";
  CHECK(issue_width(x86, "haswell") == 4);
  CHECK(issue_width(x86, "cascadelake") == 4);
  CHECK(issue_width(x86, "sapphirerapids") == 6);
  CHECK(issue_width(x86, "znver4") == 6);
  CHECK(issue_width("aarch64-unknown-linux-gnu", "neoverse-n1") == 8);
  // What names no CPU, or none that LLVM knows.
  for (const char* cpu : {"x86-64-v3", "generic", "warp-drive", ""}) CHECK(issue_width(x86, cpu) == 6);
  CHECK(issue_width("vax-unknown-netbsd", "vax") == 6);
  CHECK(parse_target("x86-64-v3").issue_width == 4);  // of the smaller cores that have its instructions
  CHECK(parse_target("x86-64-v4").issue_width == 6);
  CHECK(parse_target("native").issue_width == issue_width(host_target().triple, host_target().cpu));
}

TEST_CASE("which processors pass their vectors in halves is known by name") {
  CHECK(double_pumped("znver4"));
  for (const char* cpu : {"znver5", "cascadelake", "sapphirerapids", "znver3", "x86-64-v4", ""})
    CHECK_FALSE(double_pumped(cpu));
  CHECK_FALSE(parse_target("x86-64-v4").double_pumped);
  CHECK(host_target().double_pumped == (host_target().vector_bits == 512 && host_target().cpu == "znver4"));
}

TEST_CASE("code for another machine is refused by name") {
  CHECK_NOTHROW(require_runs_here(host_target()));
  CHECK_THROWS_AS(
      require_runs_here(parse_target(host_target().arch() == "aarch64" ? "x86-64-v3" : "aarch64")),
      UserError);
  CHECK_THROWS_AS(require_runs_here(parse_target("cuda:sm_80")), UserError);
  Target t = host_target();
  t.features += ",+warp-drive";
  try {
    require_runs_here(t);
    FAIL("accepted");
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find("lacks warp-drive") != std::string::npos);
  }
}

TEST_CASE("a machine with AVX-512 runs x86-64-v3 and v4") {
  const Target host = host_target();
  if (host.features.find("+avx512vl") == std::string::npos) {
    WARN("SKIPPED: no AVX-512 here");
    return;
  }
  CHECK_NOTHROW(require_runs_here(parse_target("x86-64-v3")));
  CHECK_NOTHROW(require_runs_here(parse_target("x86-64-v4")));
}
