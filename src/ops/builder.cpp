// FuncBuilder: from "out[i...] = body" to loops around a block. Operators speak of axes and elements only;
// names, iterators and bindings are made here, so that every operator's loop nest looks alike.
#include <algorithm>

#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/nest_file.h"
#include "nestor/ops.h"
#include "nestor/walk.h"

namespace nestor {

// The loops of a block being built and the iterators bound to them.
struct FuncBuilder::Nest {
  std::string name;
  std::vector<Var> loops;
  std::vector<IterVar> iters;
  std::vector<Expr> spatial, reduced;  // references to the iterators
  std::map<std::string, int> names;
};

FuncBuilder::FuncBuilder(std::string name, std::shared_ptr<Symbols> symbols) : symbols_(std::move(symbols)) {
  func_.name = std::move(name);
}

// `name`, or with the first number behind it that makes it new: T, T1, T2.
std::string FuncBuilder::unique(const std::string& name, std::map<std::string, int>& used) {
  std::string candidate = name;
  while (used.count(candidate)) candidate = name + std::to_string(used[name]++);
  used.emplace(candidate, 1);
  return candidate;
}

namespace {

BufferDecl declare(const std::string& name, const TensorType& type) {
  return {make_buffer(name, {type.dtype, 1}), type.shape.exprs(), Scope::global, std::nullopt};
}

}  // namespace

BuildTensor FuncBuilder::param(Role role, const std::string& name, const TensorType& type) {
  func_.params.push_back({role, declare(unique(name, buffer_names_), type)});
  return {func_.params.back().decl.buffer, type.shape, {}};
}

BuildTensor FuncBuilder::temp(const std::string& name, const TensorType& type) {
  func_.allocs.push_back(declare(unique(name, buffer_names_), type));
  return {func_.allocs.back().buffer, type.shape, {}};
}

// Wraps the block in its loops, first one outermost, and appends it. Bindings are the plain loop variables:
// it is schedules that make them more.
void FuncBuilder::add_block(Nest nest, Stmt init, Stmt body) {
  const BlockId id = make_block_id(unique(nest.name, block_names_));
  Stmt s = make::block({id, nest.iters, {}, std::move(init), std::move(body), {}});
  for (size_t i = nest.loops.size(); i-- > 0;) s = make::loop(nest.loops[i], nest.iters[i].extent, s);
  body_.push_back(std::move(s));
}

void FuncBuilder::compute(const BuildTensor& out, const std::vector<Axis>& axes, const Body& body,
                          const std::function<std::vector<Expr>(const std::vector<Expr>&)>& at) {
  NESTOR_CHECK(out.buffer) << "a block without an output buffer";
  Nest nest{out.buffer->name, {}, {}, {}, {}, {}};
  for (const Axis& a : axes) {
    const std::string name = unique(a.name, nest.names);
    nest.loops.push_back(make_var(name));
    nest.iters.push_back({make_var("v" + name), IterKind::spatial, a.extent.expr(), nest.loops.back()});
    nest.spatial.emplace_back(nest.iters.back().var);
  }
  Stmt store = make::store(out.buffer, at ? at(nest.spatial) : nest.spatial, body(nest.spatial));
  add_block(std::move(nest), {}, std::move(store));
}

void FuncBuilder::reduce(const BuildTensor& out, const std::vector<Axis>& spatial,
                         const std::vector<Axis>& reduced, ReduceOp op, const ReduceBody& body, Expr start,
                         const std::function<std::vector<Expr>(const std::vector<Expr>&)>& at) {
  NESTOR_CHECK(out.buffer) << "a block without an output buffer";
  // A fold over nothing has no instance whose init could run: its result is the start.
  const Expr first = start ? start : identity_of(op, out.buffer->type);
  const bool empty = std::any_of(reduced.begin(), reduced.end(), [](const Axis& a) { return a.extent == 0; });
  if (empty || reduced.empty())
    return compute(
        out, spatial,
        [&](const std::vector<Expr>& s) {
          return empty ? first : make::binary(binary_of(op), first, body(s, {}));
        },
        at);
  Nest nest{out.buffer->name, {}, {}, {}, {}, {}};
  const auto add = [&](const Axis& a, IterKind kind, std::vector<Expr>& refs) {
    const std::string name = unique(a.name, nest.names);
    nest.loops.push_back(make_var(name));
    nest.iters.push_back({make_var("v" + name), kind, a.extent.expr(), nest.loops.back()});
    refs.emplace_back(nest.iters.back().var);
  };
  for (const Axis& a : spatial) add(a, IterKind::spatial, nest.spatial);
  for (const Axis& a : reduced) add(a, IterKind::reduce, nest.reduced);
  const std::vector<Expr> where = at ? at(nest.spatial) : nest.spatial;
  Stmt init = make::store(out.buffer, where, first);
  Stmt update = make::update(op, out.buffer, where, body(nest.spatial, nest.reduced));
  add_block(std::move(nest), std::move(init), std::move(update));
}

// The symbols that occur, in the model's order.
void FuncBuilder::add_dims() {
  for (const Symbol& s : symbols_->all())
    if (uses_dim(func_, s.var)) func_.dims.push_back(s.var);
}

PrimFunc FuncBuilder::finish() {
  func_.body = make::seq(std::move(body_));
  body_.clear();
  if (symbols_) add_dims();
  check_well_formed(func_);
  return std::move(func_);
}

}  // namespace nestor
