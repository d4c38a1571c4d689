// Reductions over the same rows, wherever the rows lie: each computed by vectors, proved, and right at sizes
// that fill no tile.
#include <fmt/format.h>

#include <algorithm>

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

// The default schedule's steps, after a check of everything else about it.
std::string checked(const std::string& spec, const Target& target) {
  const CompiledModel m = compiled(spec, target);
  INFO(spec);
  REQUIRE(m.funcs.size() == 1);
  const CompiledFunction& f = m.funcs[0];
  const std::string steps = print(default_schedule(f.func, target));
  INFO(steps);
  check_results(f, target);
  check_proof(f);
  return steps;
}

}  // namespace

TEST_CASE("rows that lie beside each other are the lanes of every block") {
  for (const char* name : {"native", "x86-64-v3"})
    for (const char* spec :
         {"Softmax(f32[3,21,77]; axis=1)", "LogSoftmax(f32[10,67]; axis=0)", "Softmax(f32[2,5,7,9]; axis=1)",
          "ReduceLogSumExp(f32[9,130], const i64[1]{0})", "ArgMax(f32[2,21,83]; axis=1)",
          "ArgMin(f32[19,70]; axis=0, select_last_index=1)", "Softmax(f32[50,40]; axis=0)",
          "LogSoftmax(f32[7,30,5]; axis=1)", "ArgMax(f32[60,12]; axis=0)",
          "Softmax(f32[3,12,3,3]; axis=1)"}) {
      const std::string steps = checked(spec, parse_target(name));
      INFO(spec << "\n" << steps);
      const auto count = [&](const char* what) {
        int n = 0;
        for (size_t at = 0; (at = steps.find(what, at)) != std::string::npos; ++at) ++n;
        return n;
      };
      // Each block that was moved, the inits, and the root.
      CHECK(count("vectorize ") == count("compute_at ") + count("decompose_reduction ") + 1);
    }
}

TEST_CASE("a reduction of one step has no rows to go along") {
  for (const char* name : {"native", "x86-64-v2", "x86-64-v3"})
    for (const char* spec : {"ArgMax(f32[1,20]; axis=0)", "ArgMax(i64[16,1,15]; axis=1)",
                             "ArgMin(f32[1,1000]; axis=0)", "ArgMax(f32[5,1,8]; axis=1)"})
      checked(spec, parse_target(name));
}

TEST_CASE("rows that lie one after the other fold their lanes") {
  for (const char* name : {"native", "x86-64-v3"})
    for (const char* spec : {"ArgMax(f32[7,101]; axis=1)", "ArgMin(f32[5,3,33]; axis=-1, keepdims=0)",
                             "ArgMax(i32[6,50]; axis=1)", "Softmax(f32[5,77])"}) {
      const std::string steps = checked(spec, parse_target(name));
      INFO(spec << "\n" << steps);
      CHECK(steps.find(".j\n") != std::string::npos);
    }
}

TEST_CASE("short rows that a reduction and a map work at are written by lanes along them") {
  for (const char* spec :
       {"RMSNormalization(f32[70,16], f32[16])", "RMSNormalization(f32[5,33,31], f32[31])"}) {
    const std::string steps = checked(spec, parse_target("native"));
    INFO(spec << "\n" << steps);
    CHECK(steps.find("vectorize Y.j") != std::string::npos);
    CHECK(steps.find("vectorize Y.w") == std::string::npos);
  }
}

TEST_CASE("one row has results without dimensions") {
  for (const char* spec :
       {"LogSoftmax(f32[70]; axis=0)", "ReduceLogSumExp(f32[70])", "ReduceLogSumExp(f32[4,5]; keepdims=0)",
        "LayerNormalization(f32[70], const f32[70])", "ArgMax(i32[3])", "Softmax(f32[41])"})
    checked(spec, parse_target("native"));
}

TEST_CASE("rows go in groups as the first-level cache has room for, and share what they read alike") {
  Target target = parse_target("native");
  target.l3_bytes_per_cycle = 9;
  const auto steps_at = [&](int64_t l1, const char* spec) {
    target.l1_bytes = l1;
    return checked(spec, target);
  };
  const char* norm = "LayerNormalization(f32[130,200], f32[200], f32[200])";
  const std::string shared = steps_at(32 << 10, norm);
  CHECK(shared.find("i0 i1 = split Y.i") != std::string::npos);
  CHECK(shared.find("reorder Y (j_t i1)\n") != std::string::npos);
  CHECK(steps_at(4 << 10, norm).find("split Y.i ") == std::string::npos);
  const std::string softmax = steps_at(32 << 10, "Softmax(f32[130,200])");
  CHECK(softmax.find("split Y.i [_") != std::string::npos);
  CHECK(softmax.find("reorder Y (j_t i1)\n") == std::string::npos);
  // A load takes a line, and the third level is near: not worth rows that are written side by side.
  const Target lines = with_l2("x86-64-v4", 1 << 20), halves = with_l2("x86-64-v3", 1 << 20);
  CHECK_FALSE(default_has(norm, "reorder Y (j_t i1)", lines));
  CHECK(default_has(norm, "reorder Y (j_t i1)", halves));
  Target twice = lines;
  twice.double_pumped = true;  // a line in two passes
  CHECK(default_has(norm, "reorder Y (j_t i1)", twice));
  check_scheduled_for(norm, lines);
}

TEST_CASE("rows that share what they read take one vector at a time where registers are few") {
  const auto width = [](const char* spec, const char* name, int elements) {
    Target target = parse_target(name);
    target.l1_bytes = 32 << 10;
    return default_has(spec, fmt::format("j_t j_l = split Y.j [_, {}] tail=peel", elements), target);
  };
  const char* norm = "LayerNormalization(f32[130,200], f32[200], f32[200])";
  CHECK(width(norm, "x86-64-v3", 8));
  CHECK(width(norm, "x86-64-v4", 64));
  CHECK(width("LayerNormalization(f32[130,56], f32[56], f32[56])", "x86-64-v3", 32));  // 8 rows: too many
  CHECK(width("Softmax(f32[130,200])", "x86-64-v3", 32));
}

TEST_CASE("long rows that come from far back in the third-level cache go one by one") {
  Target target = parse_target("x86-64-v4");
  target.l2_bytes = 16 << 10;
  const auto grouped = [&](int64_t l3, const char* spec) {
    target.l3_bytes = l3;
    return checked(spec, target).find(" = split Y.i [_") != std::string::npos;
  };
  for (const char* spec : {"LayerNormalization(f32[65,203], f32[203], f32[203])", "Softmax(f32[65,203])"}) {
    CHECK(grouped(1 << 20, spec));
    CHECK_FALSE(grouped(256 << 10, spec));
  }
  CHECK(grouped(64 << 10, "Softmax(f32[131,99])"));  // too short
}

TEST_CASE("short rows fold their lanes together") {
  for (const char* name : {"native", "x86-64-v3", "x86-64-v2"})
    for (const char* spec :
         {"Softmax(f32[69,12])", "ArgMax(f32[131,7]; axis=1)",
          "LayerNormalization(f32[67,16], const f32[16])", "RMSNormalization(f32[67,16], const f32[16])",
          "RMSNormalization(f32[9,300], const f32[300])", "LogSoftmax(f32[2,70,5])",
          "ReduceMean(f32[65,12], const i64[1]{1})", "ReduceMax(f32[33,23], const i64[1]{1})",
          "ReduceProd(f64[37,11], const i64[1]{1})", "ReduceMin(i32[40,50], const i64[1]{1})",
          "ReduceMean(f32[34,3,20], const i64[2]{1,2})", "ReduceSum(f32[3,49,61], const i64[1]{2})"})
      checked(spec, parse_target(name));
  const Target target = parse_target("x86-64-v4");
  CHECK(checked("Softmax(f32[69,12])", target).find(" vectorize Sum.i\n") != std::string::npos);
  CHECK(checked("ReduceMean(f32[65,12], const i64[1]{1})", target).find(" vectorize Sum.i1\n") !=
        std::string::npos);
}

TEST_CASE("sums of columns read whole rows from left to right where these come from behind the caches") {
  Target target = parse_target("x86-64-v4");
  target.l1_bytes = 4 << 10;
  target.l2_bytes = 16 << 10;
  target.cores = 1;
  target.double_pumped = true;
  const auto has = [&](const char* spec, const char* part) {
    return checked(spec, target).find(part) != std::string::npos;
  };
  const char* one = "ReduceSum(f32[60,200], const i64[1]{0})";
  CHECK(has(one, "reorder Y (i j0 j1)"));
  CHECK(has("ReduceMax(f32[3,50,131], const i64[1]{1})", "reorder Y (b i j0 j1)"));
  CHECK(has("ReduceMean(f32[7,9,8,129], const i64[2]{0,2})", "reorder Sum (c n h w0 w1)"));
  // A row of results that doesn't stay in the first level beside what is read: 4 rows at a time, panels as
  // wide as the second level takes.
  const char* four = "ReduceSum(f32[11,5003], const i64[1]{0})";
  CHECK(has(four, "i_rows = sample_choice [2, 4, 8] -> 4"));
  CHECK(has(four, "jp jt = split Y.j0 [_, 16]"));
  CHECK(has("ReduceSum(f32[20,200], const i64[1]{0})", "i_rows = sample_choice [2, 4, 8, 16] -> 8"));  // near
  target.double_pumped = false;  // loads of whole lines: 8 rows, in panels as wide
  CHECK(has(one, "reorder Y (i0 j0 i1 j1)"));
  CHECK(has(one, "i_rows = sample_choice [2, 4, 8, 16] -> 8"));
  CHECK(has(four, "i_rows = sample_choice [2, 4, 8] -> 8"));
  CHECK(has(four, "jp jt = split Y.j0 [_, 16]"));
  target.double_pumped = true;
  target.cores = 2;  // which share the columns, or what stands around the rows
  CHECK(has(one, "i_rows = sample_choice [2, 4, 8, 16] -> 8"));
  CHECK(has("ReduceMax(f32[3,50,131], const i64[1]{1})", "reorder Y (b i j0 j1)"));
}

TEST_CASE(
    "rows that don't stay in the caches are written past them, unless something waited in their place") {
  Target target = parse_target("x86-64-v4");
  target.l3_bytes = 32 << 20;
  const std::string streaming = "annotate Y streaming=1";
  CHECK(default_has("LayerNormalization(f32[1075,3920], f32[3920], f32[3920])", streaming, target));
  CHECK_FALSE(default_has("LayerNormalization(f32[1000,3920], f32[3920], f32[3920])", streaming, target));
  CHECK_FALSE(default_has("Softmax(f32[5000,1024])", streaming, target));
  const std::string folded = "RMSNormalization(f32[1075,3920], f32[3920])";
  target.cores = 2;  // which fill a near last level first
  CHECK_FALSE(default_has(folded, streaming, target));
  CHECK(default_has("RMSNormalization(f32[1700,3920], f32[3920])", streaming, target));
  target.cores = 1;
  CHECK(default_has(folded, streaming, target));
  check_scheduled_for(folded, target);
  CHECK_FALSE(
      default_has("ReduceMean(f32[4500000,64], const i64[1]{1})", "streaming=1", target));  // no vectors
  CHECK_FALSE(default_has("RMSNormalization(f32[1000,3920], f32[3920])", streaming, target));
  CHECK_FALSE(default_has("RMSNormalization(f32[1075,3921], f32[3921])", streaming, target));  // no lines
}

TEST_CASE("rows from memory are added up in one chain where a line is read in two passes") {
  Target target = parse_target("x86-64-v4");
  target.l3_bytes = 64 << 10;
  target.double_pumped = true;
  const auto one_chain = [&](const char* spec) {
    return checked(spec, target).find(" chains=1\n") != std::string::npos;
  };
  CHECK(one_chain("ReduceSum(f32[60,401], const i64[1]{1})"));
  CHECK(one_chain("ReduceMax(f32[20011], const i64[1]{0})"));
  CHECK(one_chain("ReduceMean(f32[7,8,9,80], const i64[2]{2,3})"));
  CHECK_FALSE(one_chain("ReduceSum(f32[30,401], const i64[1]{1})"));  // the third level holds them
  target.double_pumped = false;
  CHECK_FALSE(one_chain("ReduceSum(f32[60,401], const i64[1]{1})"));
}

TEST_CASE("rows from memory, one at a time, are asked for while the one before is written") {
  Target target = with_l2("x86-64-v4", 1 << 20);
  target.l3_bytes = 32 << 20;
  const auto norm = [](const std::string& rows, const std::string& n) {
    return "LayerNormalization(f32[" + rows + "," + n + "], f32[" + n + "], f32[" + n + "])";
  };
  const auto asks = [&](const std::string& spec, const std::string& buffer) {
    return default_has(spec, "prefetch Y.i " + buffer + " distance=1 shares=j_t", target);
  };
  CHECK(asks(norm("4000", "1760"), "X"));
  CHECK_FALSE(asks(norm("4000", "1760"), "Y"));  // which goes past the caches
  CHECK(asks(norm("4000", "1759"), "X"));
  CHECK(asks(norm("4000", "1759"), "Y"));
  CHECK_FALSE(asks(norm("2000", "1760"), "X"));  // stays in the last level
  CHECK_FALSE(asks(norm("10000", "768"), "X"));  // foreseen
  CHECK_FALSE(asks(norm("40001", "161"), "X"));  // short, begin at no line
  CHECK_FALSE(asks(norm("4", "1000001"), "X"));  // gone before they are used
  CHECK_FALSE(asks("LogSoftmax(f32[5000,2000])", "X"));
  CHECK(asks(norm("1500", "1759"), "X"));
  Target twice = target;
  twice.double_pumped = true;  // only what the last level doesn't hold
  CHECK(default_has(norm("4000", "1760"), "prefetch Y.i X", twice));
  CHECK_FALSE(default_has(norm("1500", "1759"), "prefetch Y.i X", twice));
  target.l2_bytes = 64 << 10;
  target.l3_bytes = 96 << 10;
  CHECK(asks(norm("67", "401"), "X"));
  CHECK(asks(norm("67", "401"), "Y"));
  check_scheduled_for(norm("67", "401"), target);
  check_scheduled_for(norm("33", "1101"), target);
}

TEST_CASE("results of a group of rows start right before them, not in a loop over all rows") {
  const Target target = parse_target("x86-64-v4");
  for (const char* spec : {"Softmax(f32[69,12])", "Softmax(f32[69,100])", "ArgMax(f32[131,7]; axis=1)"}) {
    const std::string steps = checked(spec, target);
    INFO(spec << "\n" << steps);
    CHECK(steps.find("_init = decompose_reduction ") != std::string::npos);
    CHECK(steps.find(".i0\n  vectorize") == std::string::npos);
  }
}

TEST_CASE("exponentials of rows of eight vectors and more wait in the output") {
  const auto waits = [&](const char* spec, const char* target) {
    return checked(spec, parse_target(target)).find("annotate Y in_place=Exp\n") != std::string::npos;
  };
  for (const char* name : {"native", "x86-64-v3"}) {
    CHECK(waits("Softmax(f32[9,131])", name));         // groups of rows, a ragged last one
    CHECK(waits("Softmax(f32[2,12,33,1001])", name));  // threads share a loop fused of several
    CHECK(waits("Softmax(f64[3,4099])", name));
    CHECK(waits("Softmax(f32[1,3,1,300])", name));
    CHECK_FALSE(waits("Softmax(f32[9,31])", name));
    CHECK_FALSE(waits("Softmax(f32[2,19,1001]; axis=1)", name));
    CHECK_FALSE(waits("LogSoftmax(f32[9,1001])", name));  // none are kept
  }
}

TEST_CASE("a sum of rows that don't stay in the first-level cache is taken as its elements are made") {
  const auto one_loop = [&](const char* spec, const char* target) {
    return checked(spec, parse_target(target)).find("_t = merge Exp.") != std::string::npos;
  };
  for (const char* name : {"native", "x86-64-v3"}) {
    for (const char* spec : {"Softmax(f32[3,13001])", "Softmax(f32[2,3,12345])", "Softmax(f32[1,1,2,12288])",
                             "Softmax(f64[2,8193])", "Softmax(f32[16001])"})
      CHECK(one_loop(spec, name));
    CHECK_FALSE(one_loop("Softmax(f32[9,1001])", name));
    CHECK_FALSE(one_loop("Softmax(f32[3,13001,2]; axis=1)", name));
    CHECK_FALSE(one_loop("LogSoftmax(f32[3,13001])", name));  // no elements are kept
    CHECK_FALSE(one_loop("LayerNormalization(f32[3,13001], f32[13001], f32[13001])", name));
  }
}

TEST_CASE("rows beyond the second-level cache pass twice, by pieces") {
  for (const char* name : {"native", "x86-64-v3"})
    for (const char* spec : {"Softmax(f32[2,270001])", "Softmax(f32[262144])", "Softmax(f64[1,2,262147])"}) {
      const std::string steps = checked(spec, parse_target(name));
      INFO(steps);
      CHECK(steps.find("reverse_compute_at PartSum PartMax.p") != std::string::npos);
      CHECK(steps.find("vectorize PartSum.l") != std::string::npos);
      CHECK(steps.find("Exp") == std::string::npos);
    }
}

TEST_CASE("rows that are parts of a vector are asked for ahead, beyond the first-level cache") {
  const Target target = parse_target("x86-64-v4");
  const auto asks = [](const char* spec, const Target& t) {
    return checked(spec, t).find("prefetch Sum.i0 X distance=2") != std::string::npos;
  };
  CHECK(asks("ReduceMean(f32[4099,12], const i64[1]{1})", target));
  CHECK(asks("ReduceMean(f32[4099,5], const i64[1]{1})", target));
  CHECK_FALSE(asks("ReduceMean(f32[69,12], const i64[1]{1})", target));
  CHECK_FALSE(asks("ReduceMean(f32[4099,8], const i64[1]{1})", target));
  CHECK_FALSE(asks("ReduceMean(f32[4099,20], const i64[1]{1})", target));
  Target pumped = target;
  pumped.double_pumped = true;
  CHECK_FALSE(asks("ReduceMean(f32[4099,12], const i64[1]{1})", pumped));
}

TEST_CASE("where the third level is far, a norm asks for its next rows as it writes these") {
  const Target far = with_far_l3("x86-64-v4", 2 << 20), near = with_l2("x86-64-v4", 2 << 20);
  const auto norm = [](const std::string& rows, const std::string& n) {
    return "LayerNormalization(f32[" + rows + "," + n + "], const f32[" + n + "], const f32[" + n + "])";
  };
  const std::string ask = " X distance=1 shares=j_t";
  CHECK(default_has(norm("128", "768"), ask, far));
  CHECK(default_has(norm("128", "768"), "i_rows = sample_choice [2, 4, 8, 16] -> 2",
                    far));  // and as many ahead
  CHECK(default_has(norm("500", "256"), ask, far));
  CHECK(default_has(norm("500", "256"), "i_rows = sample_choice [2, 4, 8, 16] -> 4", far));
  CHECK_FALSE(default_has(norm("128", "768"), ask, near));
  CHECK(default_has(norm("128", "768"), "i_rows = sample_choice [2, 4, 8, 16] -> 4", near));
  CHECK_FALSE(default_has(norm("1000", "100"), ask, far));       // little work to hide them behind
  CHECK_FALSE(default_has(norm("64", "2048"), ask, far));        // a row at a time
  CHECK_FALSE(default_has("Softmax(f32[1000,768])", ask, far));  // whose last pass reads what waits
  CHECK_FALSE(default_has(norm("16", "256"), ask, far));         // in the first level
  const std::string planes = "LayerNormalization(f32[4,33,6,100], f32[33,6,1], f32[100]; axis=2)";
  CHECK_FALSE(default_has(planes, "prefetch", far));  // two loops over columns
  const std::string scales = "LayerNormalization(f32[4,64,768], f32[64,1], f32[768])";
  CHECK_FALSE(default_has(scales, " S distance", far));                     // one a row
  for (const auto& [rows, n] : {std::pair{"67", "333"}, {"129", "768"}}) {  // some rows left over
    CHECK(default_has(norm(rows, n), ask, far));
    check_scheduled_for(norm(rows, n), far);
  }
}

TEST_CASE("rows that begin at no line go by tiles that do, where lanes fill a line") {
  const Target wide = with_far_l3("x86-64-v4", 2 << 20), near = with_l2("x86-64-v4", 1 << 20),
               narrow = parse_target("x86-64-v3");
  const std::string lines = " at_lines=Y";
  const auto has = [&](const std::string& spec, const Target& target) {
    return print(default_schedule(compiled(spec, target).funcs[0].func, target)).find(lines) !=
           std::string::npos;
  };
  for (const char* spec :
       {"LayerNormalization(f32[6,401], const f32[401], const f32[401])", "LogSoftmax(f32[5,777])",
        "Add(f32[7,201], f32[201])", "Mul(f32[3,5,333], f32[3,5,1])", "Add(u8[5,1001], u8[1001])",
        "BatchNormalization(f32[1,5,19,13], f32[5], f32[5], f32[5], f32[5])", "Softmax(f32[3,1001])"}) {
    INFO(spec);
    CHECK(has(spec, wide));
    CHECK_FALSE(has(spec, narrow));
    CHECK(has(spec, near) == (std::string(spec).find("Softmax") != std::string::npos));
    for (const Target& t : {wide, near}) checked(spec, t);
  }
  for (const char* spec :
       {"Add(f32[7,208], f32[208])",                                             // they do
        "Add(f32[7,191], f32[191])",                                             // fewer than three tiles
        "Add(f32[7,201], f32[7,201])",                                           // no rows
        "LayerNormalization(f32[6,2501], const f32[2501], const f32[2501])"}) {  // scales from the second
                                                                                 // level
    INFO(spec);
    CHECK_FALSE(has(spec, wide));
  }
}

TEST_CASE("single rows that the machine doesn't foresee are asked for") {
  const Target near = with_l2("x86-64-v4", 1 << 20);  // and 32 MB of the third level
  const auto asks = [&](int64_t rows, int64_t length, const Target& target) {
    const std::string spec =
        fmt::format("LayerNormalization(f32[{0},{1}], const f32[{1}], const f32[{1}])", rows, length);
    return default_text(spec, target, false).find("prefetch Y.i X distance=1") != std::string::npos;
  };
  CHECK(asks(1486, 1371, near));
  CHECK(asks(918, 3664, near));
  CHECK(asks(6000, 1376, near));        // from memory
  CHECK_FALSE(asks(1486, 1376, near));  // of whole lines
  CHECK_FALSE(asks(400, 1371, near));   // near
  CHECK_FALSE(asks(3000, 301, near));   // short
  CHECK_FALSE(asks(1486, 1371, with_l2("x86-64-v3", 1 << 20)));
}

TEST_CASE("a long row's exponentials are made and summed up by tiles that begin at lines") {
  const Target target = parse_target("x86-64-v4");
  const std::string steps =
      print(default_schedule(compiled("Softmax(f32[3,20011])", target).funcs[0].func, target));
  INFO(steps);
  CHECK(steps.find("split Sum.j [_, 64] tail=peel at_lines=Exp") != std::string::npos);
  CHECK(steps.find("split Exp.j [_, 64] tail=peel at_lines=Exp") != std::string::npos);
  checked("Softmax(f32[3,20011])", parse_target("native"));
}
