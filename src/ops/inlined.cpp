// FuncBuilder::inlined: the blocks of a whole function become part of the one being built.
#include <algorithm>

#include "nestor/error.h"
#include "nestor/ops.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/ops/template.h"

namespace nestor {

namespace {

// Rewrites loads of immediates, folds what substituted dimensions made constant, and renames blocks.
class Inliner : public Rewriter {
 public:
  std::unordered_map<Buffer, Expr> immediates;
  std::function<std::string(const std::string&)> rename;

  Expr expr(const Expr& e) override {
    if (const auto* load = e.as<Load>())
      if (const auto it = immediates.find(load->buffer); it != immediates.end()) return it->second;
    return ops::fold_integers(children(e));
  }
  Stmt stmt(const Stmt& s) override {
    if (const auto* b = s.as<Block>()) {
      Block renamed = *b;
      renamed.id = make_block_id(rename(b->id->name));
      return children(make::block(std::move(renamed)));
    }
    return children(s);
  }
};

}  // namespace

namespace ops {

Expr fold_integers(const Expr& e) {
  const auto* b = e.as<Binary>();
  if (!b || e.type() != Type{} || !as_int(b->a) || !as_int(b->b)) return e;
  switch (b->op) {
    case BinaryOp::add:
      return b->a + b->b;
    case BinaryOp::sub:
      return b->a - b->b;
    case BinaryOp::mul:
      return b->a * b->b;
    case BinaryOp::div:
      return b->a / b->b;
    case BinaryOp::mod:
      return b->a % b->b;
    case BinaryOp::min:
      return min(b->a, b->b);
    case BinaryOp::max:
      return max(b->a, b->b);
    default:
      return e;
  }
}

std::optional<int64_t> evaluate(const Expr& e, const VarMap& values) {
  struct Folder : Rewriter {
    Expr expr(const Expr& inner) override { return fold_integers(children(inner)); }
  };
  return as_int(Folder().expr(substitute(e, values)));
}

}  // namespace ops

// The body is copied fresh, so that a function may be inlined more than once; dimensions become what they are
// in the function being built, parameters the given tensors, temporaries those of the function being built.
void FuncBuilder::inlined(const PrimFunc& f, const std::vector<BuildTensor>& args,
                          const std::vector<Expr>& dims) {
  NESTOR_CHECK(args.size() == f.params.size() && dims.size() == f.dims.size()) << "arguments of " << f.name;
  VarMap values;
  for (size_t i = 0; i < dims.size(); ++i) values.emplace(f.dims[i], dims[i]);
  Inliner inliner;
  BufferMap buffers;
  for (size_t i = 0; i < args.size(); ++i) {
    const Buffer& param = f.params[i].decl.buffer;
    NESTOR_CHECK(args[i]) << "argument " << param->name << " of " << f.name << " is missing";
    if (args[i].immediate)
      inliner.immediates.emplace(param, args[i].immediate);
    else
      buffers.emplace(param, args[i].buffer);
  }
  for (const BufferDecl& a : f.allocs) {
    BufferDecl decl = a;
    decl.buffer = make_buffer(unique(a.buffer->name, buffer_names_), a.buffer->type);
    for (Expr& extent : decl.shape) extent = simplify(substitute(extent, values));
    buffers.emplace(a.buffer, decl.buffer);
    func_.allocs.push_back(std::move(decl));
  }
  inliner.rename = [&](const std::string& name) { return unique(name, block_names_); };
  body_.push_back(inliner.stmt(substitute(substitute(fresh_copy(f.body), values), buffers)));
}

}  // namespace nestor
