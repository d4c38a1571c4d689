// Schedules are input: what they name lies in their folder, what records hold is primitives, and none is too
// deep or too long.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "schedules/sched_file.h"

using namespace nestor;
namespace fs = std::filesystem;

namespace {

const char* const kSecret = "secret_word is here\n";
const char* const kDefinitions = "define threads(T, i) {\n  parallel T.i\n}\n";

// A folder with a schedule's folder in it, and files that aren't the schedule's business.
struct Folders {
  fs::path root, own;
  Folders() {
    std::string pattern = (fs::temp_directory_path() / "nestor-input-XXXXXX").string();
    root = mkdtemp(pattern.data());
    own = root / "own";
    fs::create_directories(own / "below");
    write(root / "secret.sched", kSecret);
    write(root / "fine.sched", kDefinitions);
    write(root / "own2" / "secret.sched", kSecret);  // whose path begins as the folder's
  }
  ~Folders() { fs::remove_all(root); }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;
  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string error(const std::string& text) const {
    try {
      parse_trace(text, (own / "main.sched").string());
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

const char* const kMap =
    "func f(in X: f32[32], out Y: f32[32]) {\n  for i in 32 {\n    block Y(vi: S 32 = i) {\n"
    "      Y[vi] = X[vi]\n    }\n  }\n}\n";

}  // namespace

TEST_CASE("an include stays in the schedule's folder, and shows no line of another file") {
  const Folders f;
  fs::create_symlink(f.root / "secret.sched", f.own / "link.sched");
  fs::create_directory_symlink(f.root, f.own / "up");
  fs::create_symlink("loop.sched", f.own / "loop.sched");
  fs::create_directory_symlink("below", f.own / "inside");
  Folders::write(f.own / "below" / "deep.sched", "include \"../beside.sched\"\n");
  Folders::write(f.own / "below" / "out.sched", "include \"../../fine.sched\"\n");
  Folders::write(f.own / "beside.sched", kDefinitions);
  for (const std::string& name :
       {std::string("../secret.sched"), std::string("../fine.sched"), std::string("below/../../secret.sched"),
        (f.root / "secret.sched").string(), std::string("link.sched"), std::string("up/secret.sched"),
        std::string("up/own2/secret.sched"), std::string("../own2/secret.sched"),
        std::string("../none.sched"), std::string("below/out.sched")}) {
    const std::string error = f.error("include \"" + name + "\"\n");
    INFO(name << ": " << error);
    CHECK(error.find("is outside of the schedule's folder") != std::string::npos);
    CHECK(error.find("secret_word") == std::string::npos);
  }
  for (const char* name : {"/etc/passwd", "..", "/dev/zero", "below"})
    CHECK_THAT(f.error("include \"" + std::string(name) + "\"\n"), Catch::Contains("doesn't end in .sched"));
  CHECK(f.error("include \"loop.sched\"\n") != "");
  fs::create_directory(f.own / "folder.sched");
  CHECK_THAT(f.error("include \"folder.sched\"\n"), Catch::Contains("isn't a regular file"));
  REQUIRE(mkfifo((f.own / "pipe.sched").c_str(), 0600) == 0);  // reading it would wait forever
  CHECK_THAT(f.error("include \"pipe.sched\"\n"), Catch::Contains("isn't a regular file"));
  for (const char* name : {"beside.sched", "below/deep.sched", "below/../beside.sched", "inside/deep.sched"})
    CHECK(f.error("include \"" + std::string(name) + "\"\napply threads(Y, i)\n") == "");
  CHECK(f.error("include \"" + (f.own / "beside.sched").string() + "\"\n") == "");
}

TEST_CASE("a file of instructions lies in the schedule's folder too") {
  const Folders f;
  Folders::write(f.root / "secret.nest", kSecret);
  Folders::write(f.own / "bad.nest", "nonsense\n");
  fs::create_symlink(f.root / "secret.nest", f.own / "link.nest");
  Folders::write(f.own / "more.sched", "define d(T) {\n  tensorize T.i mine from=\"bad.nest\"\n}\n");
  const auto error = [&](const std::string& name) {
    return error_of([&] {
      apply(parse_func(kMap),
            parse_trace("tensorize Y.i mine from=\"" + name + "\"\n", f.own / "main.sched"));
    });
  };
  for (const std::string& name :
       {std::string("../secret.nest"), std::string("link.nest"), (f.root / "secret.nest").string()}) {
    CHECK_THAT(error(name), Catch::Contains("is outside of the schedule's folder"));
    CHECK(error(name).find("secret_word") == std::string::npos);
  }
  CHECK_THAT(error("/etc/passwd"), Catch::Contains("doesn't end in .nest"));
  CHECK_THAT(error("none.nest"), Catch::Contains("isn't there"));
  CHECK_THAT(error("bad.nest"), Catch::Contains("nonsense"));  // a file of the schedule's own
  CHECK_THAT(
      f.error("include \"more.sched\"\napply d(Y)\n"),
      Catch::Contains("more.sched:2:22: error: a file of instructions is named by the schedule itself"));
}

TEST_CASE("a record is read as primitives only") {
  const auto error = [](const std::string& text) {
    return error_of([&] { schedules::parse_primitives(text, "record"); });
  };
  CHECK(error("") == "");
  CHECK(error("schedule f for native {\n  a b = split Y.i [_, 4]\n}\n") == "");
  CHECK(error("parallel Y.i\nw = sample_choice [4, 8] -> 8\n") == "");
  CHECK_THAT(error("include \"x.sched\"\n"), Catch::Contains("primitives only, and `include` is none"));
  CHECK_THAT(error("schedule f {\ninclude \"x.sched\"\n"), Catch::Contains("`include` is none"));
  CHECK_THAT(error("define d(T) {\n}\n"), Catch::Contains("`define` is none"));
  CHECK_THAT(error("apply elementwise(Y)\n"),
             Catch::Contains("record:1:1: error: a record holds primitives only"));
  CHECK_THAT(error("a b = apply gemm_cpu(Y, B)\n"), Catch::Contains("`apply` is none"));
  CHECK_THAT(error("T_o = tensorize Y.i fma_row16 from=\"x.nest\"\n"),
             Catch::Contains("a file of instructions"));
  CHECK_THAT(error("T_o = tensorize Y.i fma_row16 from=x\n"), Catch::Contains("a file of instructions"));
  CHECK_THAT(error("schedule a {\n}\nschedule b {\n}\n"), Catch::Contains("2 schedules"));
}

TEST_CASE("files include each other, and definitions apply each other, up to a depth") {
  const Folders f;
  const auto chain = [&](int files) {
    for (int i = 0; i < files; ++i)
      Folders::write(f.own / "below" / (std::to_string(i) + ".sched"),
                     i + 1 < files ? "include \"" + std::to_string(i + 1) + ".sched\"\n" : kDefinitions);
    return f.error("include \"below/0.sched\"\napply threads(Y, i)\n");
  };
  CHECK(chain(64) == "");
  CHECK_THAT(chain(65), Catch::Contains("63.sched:1:1: error: files include each other more than 64 deep"));
  CHECK_THAT(chain(3000), Catch::Contains("more than 64 deep"));

  const auto applied = [&](int definitions, const std::string& argument) {
    std::string text = "define d0(T) {\n  annotate Y.i x=1\n}\n";
    for (int i = 1; i < definitions; ++i)
      text += "define d" + std::to_string(i) + "(T) {\n  apply d" + std::to_string(i - 1) + "(" + argument +
              ")\n}\n";
    return f.error(text + "apply d" + std::to_string(definitions - 1) + "(Y)\n");
  };
  CHECK(applied(64, "T") == "");
  CHECK_THAT(applied(65, "T"), Catch::Contains("definitions apply each other more than 64 deep"));
  CHECK_THAT(applied(50000, "T"), Catch::Contains("more than 64 deep"));
  CHECK_THAT(applied(60, "[T T]"), Catch::Contains("an argument comes to more than 4096 characters"));
}

TEST_CASE("a schedule has an end") {
  const Folders f;
  std::string text;
  for (int i = 0; i < 100001; ++i) text += "unroll Y.i\n";
  CHECK_THAT(f.error(text),
             Catch::Contains("main.sched:100001:1: error: a schedule has at most 100000 steps"));
  CHECK_THAT(f.error("split Y.i [" + std::string(70000, '1') + "]\n"),
             Catch::Contains("at most 65536 characters"));
  std::string define = "define d(T) {\n";  // long lines, many times over
  for (int i = 0; i < 30; ++i) define += "  annotate T.i x=1 #" + std::string(60000, '.') + "\n";
  define += "}\n";
  for (int i = 0; i < 80; ++i) define += "apply d(Y)\n";
  CHECK_THAT(f.error(define), Catch::Contains("come to more than 128 MiB"));
}

TEST_CASE("steps don't nest loops without end") {
  const PrimFunc map = parse_func(kMap);
  const auto ones = [](int n) {
    std::string out = "[_";
    for (int i = 1; i < n; ++i) out += ", 1";
    return out + "]";
  };
  CHECK_NOTHROW(apply(map, parse_trace("split Y.i " + ones(64))));
  CHECK_THAT(error_of([&] { apply(map, parse_trace("split Y.i " + ones(65))); }),
             Catch::Contains("breaks requirement 2 of split: there are 2 to 64 factors") &&
                 Catch::Contains("there are 65 factors"));
  const QuietRefusals quiet;
  const std::string many_factors = error_of([&] { apply(map, parse_trace("split Y.i " + ones(20000))); });
  CHECK_THAT(many_factors, Catch::Contains("2 of split"));
  CHECK(many_factors.size() < 1500);  // of 60,000 characters only what is around the fault
  CHECK_THAT(
      error_of([&] { apply(map, parse_trace("f g = sample_factors Y.i parts=2000000000 -> [32, 1]")); }),
      Catch::Contains("1 of sample_factors"));
  std::string many = "(n) -> (n";
  for (int i = 0; i < 64; ++i) many += ", 0";
  CHECK_THAT(error_of([&] { apply(map, parse_trace("transform_layout Y " + many + ")")); }),
             Catch::Contains("breaks requirement A"));
  const auto units = [&](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "add_unit_loop Y\n";
    return error_of([&] { apply(map, parse_trace(text)); });
  };
  CHECK(units(254) == "");  // the loop and the block are there already
  CHECK_THAT(
      units(255),
      Catch::Contains("requirement F of every step: the result stays within limits: 256 nested loops"));
  CHECK_THAT(units(5000), Catch::Contains("requirement F"));
}

TEST_CASE("steps don't make expressions without end") {
  const QuietRefusals quiet;
  const PrimFunc f = parse_func(
      "func f(in X: f32[64,50], out Y: f32[50,64]) {\n  for i in 50, j in 64 {\n"
      "    block Y(vi: S 50 = i, vj: S 64 = j) {\n      Y[vi,vj] = X[vj,vi]\n    }\n  }\n}\n");
  std::string text, i = "i",
                    j = "j";  // loops shuffled like cards: an index of each is of all that were before
  for (int k = 0; k < 200; ++k) {
    const std::string n = std::to_string(k);
    text += "x" + n + " y" + n + " = split Y." + j + " [_, " + std::to_string(3 + k % 4) + "]\np" + n +
            " = fuse Y (" + i + " x" + n + ")\n";
    i = "p" + n, j = "y" + n;
    if (k % 2 == 0) continue;
    text += "reorder Y (" + j + " " + i + ")\n";
    std::swap(i, j);
  }
  CHECK_THAT(error_of([&] { apply(f, parse_trace(text)); }), Catch::Contains("requirement F of every step"));

  std::string chain = "func g(in X: f32[4], out Y: f32[4]) {\n", allocs, loops, steps;
  for (int k = 0; k < 40; ++k) {  // each reads the one before twice
    const std::string n = std::to_string(k), from = k ? "T" + std::to_string(k - 1) : "X",
                      to = k < 39 ? "T" + n : "Y";
    if (k < 39) allocs += "  alloc T" + n + ": f32[4]\n";
    loops += "  for i" + n + " in 4 {\n    block B" + n + "(v: S 4 = i" + n + ") {\n      " + to +
             "[v] = " + from + "[v] * " + from + "[v]\n    }\n  }\n";
    if (k < 39) steps += "compute_inline B" + n + "\n";
  }
  const PrimFunc g = parse_func(chain + allocs + loops + "}\n");
  CHECK_THAT(error_of([&] { apply(g, parse_trace(steps)); }), Catch::Contains("requirement F of every step"));
}

TEST_CASE("steps look at the places of a loop all at once") {
  const PrimFunc f = parse_func(R"(func f(in A: f32[129], out B: f32[1]) {
  for b in 1, n in 129 {
    block B(vb: S 1 = b, vn: R 129 = n) {
      init { B[vb] = 0.0f32 }
      B[vb] += A[vn]
    }
  }
}
)");
  // 2^31 places one by one took minutes.
  const PrimFunc g = apply(f, parse_trace("no ni = split B.n [_, 2147483647]\nBF = rfactor B.ni\n"));
  CHECK_THAT(print(g), Catch::Contains("f32[1,129]"));
}
