// What whole models launch: one kernel a fused function, and one more where a long sum is divided among
// blocks of threads. No kernel leaves most of an A100 idle where its work would give more threads something
// to do.
#include <fmt/format.h>

#include "catch.h"
#include "check.h"
#include "models.h"
#include "nestor/driver.h"
#include "nestor/graph.h"
#include "nestor/walk.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

constexpr int64_t kEnough = 64 * 108;  // threads
constexpr int64_t kSteps = 16;         // of one thread, fewer of which aren't worth another

struct Launch {
  std::string text;
  int64_t threads = 0;
  int64_t elements = 0;  // of the largest tensor that it touches
  int64_t steps = 0;     // stores of the innermost loops, of all threads
};

int64_t steps_of(const Stmt& s, int64_t times) {
  int64_t most = s.as<Store>() ? times : 0;
  if (const auto* f = s.as<For>()) return steps_of(f->body, times * as_int(f->extent).value_or(1));
  if (const auto* a = s.as<Alloc>()) return steps_of(a->body, times);
  if (const auto* l = s.as<LetStmt>()) return steps_of(l->body, times);
  if (const auto* i = s.as<If>())
    return std::max(steps_of(i->then_case, times), i->else_case ? steps_of(i->else_case, times) : 0);
  if (const auto* seq = s.as<Seq>())
    for (const Stmt& inner : seq->stmts) most = std::max(most, steps_of(inner, times));
  return most;
}

// The nests that become kernels.
std::vector<Stmt> nests_of(const Stmt& s) {
  if (const auto* a = s.as<Alloc>(); a && a->decl.scope == Scope::global) return nests_of(a->body);
  const auto* seq = s.as<Seq>();
  if (!seq) return {s};
  std::vector<Stmt> out;
  for (const Stmt& inner : seq->stmts)
    for (const Stmt& nest : nests_of(inner)) out.push_back(nest);
  return out;
}

std::vector<Launch> launches_of(const CompiledFunction& f, const Target& target) {
  std::vector<Launch> out;
  const CudaProgram program = make_cuda(f.lowered, target);
  const std::vector<Stmt> nests = nests_of(f.lowered.body);
  REQUIRE(nests.size() == program.kernels.size());
  std::vector<int64_t> elements;
  for (const Param& p : f.lowered.params) elements.push_back(as_int(p.decl.shape.at(0)).value_or(0));
  for (const int64_t bytes : program.temporary_bytes) elements.push_back(bytes / 4);
  for (size_t i = 0; i < nests.size(); ++i) {
    const CudaKernel& k = program.kernels[i];
    Launch l;
    l.threads = k.grid[0] * k.grid[1] * k.grid[2] * k.block[0] * k.block[1] * k.block[2];
    for (const int a : k.args) l.elements = std::max(l.elements, elements.at(static_cast<size_t>(a)));
    l.steps = steps_of(nests[i], 1);
    l.text = fmt::format("{} <<<({}, {}, {}), ({}, {}, {})>>> {} threads, {:.0f} steps each", k.name,
                         k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1], k.block[2], l.threads,
                         static_cast<double>(l.steps) / static_cast<double>(l.threads));
    out.push_back(l);
  }
  return out;
}

bool has_sum(const PrimFunc& f) {
  for (const std::string& name : block_names(f))
    for (const IterVar& i : find_block(f, name)->iters)
      if (i.kind == IterKind::reduce) return true;
  return false;
}

}  // namespace

TEST_CASE("models launch a kernel a function, or two for a long sum, each with 64 threads a multiprocessor") {
  const NamedModel all[] = {{"MobileNetV2 at 224", mobilenet_v2(224)},
                            {"a block of BERT-base at 128", bert_block(128, 768, 12)},
                            {"an LSTM step of 512", lstm_step(256, 512)}};
  for (const auto& [name, model] : all) {
    CompileOptions options;
    options.target = parse_target("cuda:sm_80");
    options.schedules = default_schedules();
    const CompiledModel compiled = compile_model(Source{build_graph(model, {}), std::nullopt}, options);
    std::string few, list;
    size_t launches = 0, divided = 0;
    for (const CompiledFunction& f : compiled.funcs) {
      const std::vector<Launch> own = launches_of(f, compiled.target);
      for (const Launch& l : own) {
        list += "  " + l.text + "\n";
        const bool does_nothing_else = l.elements >= kEnough && !has_sum(f.func);
        if (l.threads < kEnough && (does_nothing_else || l.steps >= kSteps * kEnough)) few += l.text + "\n";
      }
      launches += own.size();
      divided += own.size() > 1;
      CHECK((own.size() == 1 || (own.size() == 2 && has_sum(f.func))));
    }
    fmt::print("{}: {} functions, {} launches, {} long sums divided\n{}", name, compiled.funcs.size(),
               launches, divided, list);
    INFO(name);
    CHECK(few == "");
  }
}
