#include "src/graph/elements.h"

#include <algorithm>

#include "nestor/walk.h"
#include "src/graph/edit.h"
#include "src/ops/size_arithmetic.h"

namespace nestor {

namespace {

constexpr int64_t kMostElements = 256, kMostSteps = 20000;

struct Undecided {};  // control flow, an index or an extent

// Runs statements over expressions. Variables that are bound have numbers, or expressions over symbols.
class Run : public Rewriter {
 public:
  explicit Run(Symbols& symbols) : facts_(symbols.facts()), symbols_(symbols) {}

  std::vector<Expr>& elements(const BufferDecl& decl) {
    int64_t size = 1;
    std::vector<int64_t>& shape = shapes_[decl.buffer];
    for (const Expr& extent : decl.shape) {
      shape.push_back(number(extent));
      size *= shape.back();
    }
    if (size > kMostSteps) throw Undecided{};
    return memory_[decl.buffer] = std::vector<Expr>(static_cast<size_t>(size));
  }
  const std::vector<Expr>& elements(const Buffer& b) const { return memory_.at(b); }

  void run(const Stmt& s) {
    if (++steps_ > kMostSteps) throw Undecided{};
    match(
        s,
        [&](const Seq& seq) {
          std::for_each(seq.stmts.begin(), seq.stmts.end(), [&](const Stmt& x) { run(x); });
        },
        [&](const For& loop) {
          const int64_t extent = number(loop.extent);
          for (int64_t i = 0; i < extent; ++i) {
            values_[loop.var] = Expr(i);
            run(loop.body);
          }
        },
        [&](const Block& block) { run_block(block); },
        [&](const Store& store) { at(store.buffer, store.indices) = value(store.value); },
        [&](const Update& update) {
          Expr& here = at(update.buffer, update.indices);
          here = simplify(make::binary(binary_of(update.op), here, value(update.value)), facts_);
        },
        [&](const If& branch) {
          if (number(branch.cond) != 0)
            run(branch.then_case);
          else if (branch.else_case)
            run(branch.else_case);
        },
        [&](const Alloc& alloc) {
          elements(alloc.decl);
          run(alloc.body);
        },
        [&](const LetStmt& let) {
          values_[let.var] = value(let.value);
          run(let.body);
        },
        [&](const Evaluate&) {});
  }

 private:
  void run_block(const Block& block) {
    bool first = true;
    for (const IterVar& iter : block.iters) {
      const int64_t place = number(iter.binding);
      if (place < 0 || place >= number(iter.extent)) return;
      values_[iter.var] = Expr(place);
      first = first && (iter.kind == IterKind::spatial || place == 0);
    }
    if (block.where && number(block.where) == 0) return;
    if (block.init && first) run(block.init);
    run(block.body);
  }

  Expr value(const Expr& e) {
    const Expr simple = simplify(expr(e), facts_);
    return as_int(simple) || simple.as<VarRef>() ? simple : in_integers(simple, symbols_);
  }
  int64_t number(const Expr& e) {
    const auto n = as_int(value(e));
    if (!n) throw Undecided{};
    return *n;
  }
  Expr& at(const Buffer& b, const std::vector<Expr>& indices) {
    const std::vector<int64_t>& shape = shapes_.at(b);
    int64_t place = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      const int64_t index = number(indices[d]);
      if (index < 0 || index >= shape[d]) throw Undecided{};
      place = place * shape[d] + index;
    }
    return memory_.at(b).at(static_cast<size_t>(place));
  }
  Expr expr(const Expr& e) override {
    if (const auto* var = e.as<VarRef>()) {
      const auto it = values_.find(var->var);
      return it == values_.end() ? e : it->second;
    }
    if (const auto* load = e.as<Load>()) {
      const Expr& found = at(load->buffer, load->indices);
      if (!found) throw Undecided{};
      return found;
    }
    if (const auto* select = e.as<Select>()) {  // lazy: the other side may be out of range
      const Expr cond = value(select->cond);
      if (const auto known = as_int(cond)) return expr(*known != 0 ? select->a : select->b);
    }
    return children(e);
  }

  const Facts& facts_;
  Symbols& symbols_;
  std::unordered_map<Buffer, std::vector<int64_t>> shapes_;
  std::unordered_map<Buffer, std::vector<Expr>> memory_;
  VarMap values_;
  int64_t steps_ = 0;
};

bool has_symbolic_shape(const Graph& g, ValueId v) {
  return v >= 0 && !value_of(g, v).type.shape.known();
}

bool is_by_sizes(const Graph& g, const Node& n) {
  if (!g.symbols) return false;
  if (is_op(n, "Shape") || is_op(n, "Size")) return has_symbolic_shape(g, n.inputs[0]);
  bool some = false;
  for (const ValueId v : n.inputs) {
    if (v < 0) continue;
    const bool elements = !value_of(g, v).elements.empty();
    if (!elements && !is_constant(g, v)) return false;
    some = some || elements;
  }
  return some;
}

}  // namespace

std::vector<std::vector<Expr>> run_over_expressions(const PrimFunc& f,
                                                    const std::vector<std::vector<Expr>>& inputs,
                                                    Symbols& symbols) {
  try {
    Run run(symbols);
    for (size_t i = 0; i < f.params.size(); ++i) {
      std::vector<Expr>& elements = run.elements(f.params[i].decl);
      if (i >= inputs.size()) continue;
      if (elements.size() != inputs[i].size()) return {};
      elements = inputs[i];
    }
    for (const BufferDecl& d : f.allocs) run.elements(d);
    run.run(f.body);
    std::vector<std::vector<Expr>> out;
    for (size_t i = inputs.size(); i < f.params.size(); ++i) {
      out.push_back(run.elements(f.params[i].decl.buffer));
      if (std::any_of(out.back().begin(), out.back().end(), [](const Expr& e) { return !e; })) return {};
    }
    return out;
  } catch (const Undecided&) {
    return {};
  }
}

bool has_symbolic_input(const Graph& g, const Node& n) {
  return std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return has_symbolic_shape(g, v); });
}

bool find_elements(Graph& g, const Node& n) {
  if (!is_by_sizes(g, n)) return false;
  for (const ValueId v : n.outputs)
    if (v >= 0 && (!value_of(g, v).type.shape.known() || product(value_of(g, v).type.shape) > kMostElements))
      return false;
  std::vector<ValueId> args;
  const PrimFunc f = build_function(g, n, &args);
  std::vector<std::vector<Expr>> inputs;
  size_t outs = 0;
  for (; outs < args.size() && f.params[outs].role != Role::out; ++outs) {
    inputs.push_back(known_elements(value_of(g, args[outs])));
    if (inputs.back().empty() && !is_constant(g, args[outs])) return false;
  }
  const auto found = run_over_expressions(f, inputs, *g.symbols);
  if (found.empty()) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    Value& v = value_of(g, args[outs + i]);
    v.elements = found[i];
    for (Expr& e : v.elements) e = g.symbols->reduce(e);
    v.constant = constant_of_elements(v);
    if (v.constant.defined()) v.elements.clear();
  }
  return true;
}

}  // namespace nestor
