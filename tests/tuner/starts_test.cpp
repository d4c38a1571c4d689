// What a search begins with besides the default: templates, and what was fast for other sizes.
#include "tuner/starts.h"

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "tests/tuner/folder.h"
#include "tuner/space.h"

using namespace nestor;

namespace {

PrimFunc product(const std::string& name, int64_t n, int64_t k) {
  const std::string m = std::to_string(n), r = std::to_string(k);
  return parse_func("func " + name + "(in A: f32[" + m + "," + r + "], in B: f32[" + r + "," + m +
                    "], out Y: f32[" + m + "," + m + "]) {\n  for i in " + m + ", j in " + m + ", k in " + r +
                    " {\n    block Y(vi: S " + m + " = i, vj: S " + m + " = j, vk: R " + r +
                    " = k) {\n      init { Y[vi,vj] = 0.0f32 }\n      Y[vi,vj] += A[vi,vk] * B[vk,vj]\n    "
                    "}\n  }\n}\n");
}

Record record(const PrimFunc& f, const Target& target, const std::string& plan, double ns) {
  Record r;
  r.workload = workload_key(f);
  r.func = print(f);
  r.target = record_target(target);
  r.trace = "# " + plan;
  r.plan = plan;
  r.samples_ns = {ns};
  r.median_ns = ns;
  return r;
}

std::string plan_of_rows(int rows) {
  return "any Y.lanes=j Y.width=2 Y.i.tile=4 Y.i.inner=" + std::to_string(rows);
}

}  // namespace

TEST_CASE("functions of one structure differ in names and numbers only") {
  CHECK(structure_of(print(product("a", 8, 9))) == structure_of(print(product("b_2", 100, 64))));
  std::string other = print(product("a", 8, 9));
  other.replace(other.find("+="), 2, "max=");
  CHECK(structure_of(print(product("a", 8, 9))) != structure_of(other));
  CHECK(structure_of("func f(in A: f32[4])") != structure_of("func f(in A: f64[4])"));
}

TEST_CASE("a search begins with what was fastest for the nearest sizes") {
  const Folder folder;
  const Target target = parse_target("x86-64-v4");
  Database db(folder.file("t.db"), Database::Mode::create);
  db.insert(record(product("far", 512, 512), target, plan_of_rows(6), 10));
  db.insert(record(product("near", 40, 64), target, plan_of_rows(3), 30));
  db.insert(record(product("near", 40, 64), target, plan_of_rows(5), 20));
  db.insert(record(product("near", 40, 64), target, "", 1));  // no plan
  Record failed = record(product("near", 40, 64), target, plan_of_rows(7), 5);
  failed.outcome = Outcome::wrong_result;
  db.insert(failed);
  db.insert(record(product("same", 48, 64), target, plan_of_rows(8), 1));  // the function itself
  Record elsewhere = record(product("near", 47, 64), target, plan_of_rows(2), 5);
  elsewhere.target = "native other";
  db.insert(elsewhere);

  const PrimFunc f = product("f", 48, 64);
  TuneOptions options;
  options.target = target;
  const Proposals proposals(f, {}, options.target, 1, nullptr);
  const std::vector<Candidate> starts = from_nearest(f, db, proposals, options);
  REQUIRE(starts.size() == 2);
  CHECK(starts[0].plan.find("Y.i.inner=5 ") != std::string::npos);
  CHECK(starts[1].plan.find("Y.i.inner=6 ") != std::string::npos);
  const std::vector<std::string> none;  // no family is searched
  CHECK(from_nearest(f, db, Proposals(f, {}, options.target, 1, &none), options).empty());
}

TEST_CASE("a template is a family where it matches, and told of where a step is refused") {
  TuneOptions options;
  options.target = parse_target("x86-64-v4");
  std::string warned;
  options.warn = [&](const std::string& w) { warned += w; };
  options.templates = {
      ScheduleTemplate("rows.sched",
                       "when block C reduction k, spatial i j\nr = sample_choice [2, 4]\ni0 i1 = split C.i "
                       "[_, r]\n"),
      ScheduleTemplate("long_sums.sched", "when block C reduction k >= 1000, spatial i j\nunroll C.i\n"),
      ScheduleTemplate("wrong.sched", "when block C reduction k, spatial i j\n\nunroll C.x\n")};
  const PrimFunc f = product("f", 48, 64);
  std::mt19937_64 rng(1);
  const std::vector<Decisions> own = own_decisions(f, options, rng);
  REQUIRE(own.size() == 1);
  const std::string plan = describe(own[0].family, own[0].trace);
  CHECK((plan == "rows r=2" || plan == "rows r=4"));
  CHECK(
      warned.starts_with("template wrong isn't used for f: wrong.sched:3: `unroll Y.x` breaks requirement"));
  options.families = {"any"};
  CHECK(own_decisions(f, options, rng).empty());

  const Proposals proposals(f, own, options.target, 1, &options.families);
  std::set<std::string> seen;
  std::set<std::string> plans;
  for (const Candidate& c : proposals.next({}, seen, 64, rng)) plans.insert(c.plan.substr(0, 8));
  CHECK(plans.count("rows r=2") + plans.count("rows r=4") > 0);
}
