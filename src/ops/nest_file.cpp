// Operators that users write themselves, as functions in the text form:
//
//   # domain: com.example
//   # pattern: reduction
//   func RmsNorm[N, M](in X: f32[N, M], const W: f32[M], out Y: f32[N, M]) { ... }
//
// Each function registers an operator of its name; its in and const parameters are the inputs, in order, its
// out parameters the outputs. Where a node uses it, its dimensions are found from the shapes of the node's
// inputs (N is 8 where X is f32[8,64]), or from integer attributes of their names; then the body becomes part
// of the kernel like that of any built-in operator.
#include "nestor/nest_file.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>

#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/read_text.h"
#include "nestor/simplify.h"
#include "src/ops/common.h"
#include "src/ops/template.h"

namespace nestor {

namespace {

using ops::Dims;
using ops::Tensors;

constexpr std::pair<const char*, Pattern> kPatterns[] = {
    {"elementwise", Pattern::elementwise}, {"broadcast", Pattern::broadcast},
    {"injective", Pattern::injective},     {"reduction", Pattern::reduction},
    {"anchor", Pattern::anchor},           {"opaque", Pattern::opaque}};

// "f32[N,M]", for messages; a computed dimension is "...".
std::string shape_text(const BufferDecl& d) {
  std::string out;
  for (const Expr& e : d.shape) {
    const auto* v = e.as<VarRef>();
    out += (out.empty() ? "" : ",") + (v ? v->var->name : as_int(e) ? std::to_string(*as_int(e)) : "...");
  }
  return std::string(name_of(d.buffer->type.dtype)) + "[" + out + "]";
}

// Positions of the inputs or of the outputs among the parameters.
std::vector<size_t> params_of(const PrimFunc& f, bool outputs) {
  std::vector<size_t> out;
  for (size_t i = 0; i < f.params.size(); ++i)
    if ((f.params[i].role == Role::out) == outputs) out.push_back(i);
  return out;
}

// A size of the node's, where the function has that expression over its dimensions.
Dim size_of(const OpContext& ctx, const Expr& e, const VarMap& values) {
  if (const auto number = ops::evaluate(e, values)) return *number;
  return ctx.dim(substitute(e, values));
}

// The values of the function's dimensions at a node. Dimensions that stand alone in an input's shape are
// bound by the first input that has them; then every shape must agree.
VarMap unify(const OpContext& ctx, const PrimFunc& f) {
  VarMap values;
  for (const Var& d : f.dims)
    if (ctx.has_attr(d->name)) {
      const int64_t v = ctx.get_int(d->name, 0);
      if (v < 0) ctx.fail("dimension " + d->name + " is " + std::to_string(v));
      values.emplace(d, Expr(v));
    }
  const std::vector<size_t> inputs = params_of(f, false);
  const auto each_dimension = [&](const auto& visit) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const BufferDecl& decl = f.params[inputs[i]].decl;
      const TensorType& type = ctx.input(static_cast<int>(i));
      const std::string what = "input " + std::to_string(i) + " is " + to_string(type) + ", " +
                               decl.buffer->name + " of " + f.name + " is " + shape_text(decl);
      if (type.dtype != decl.buffer->type.dtype || type.shape.size() != decl.shape.size()) ctx.fail(what);
      for (size_t d = 0; d < type.shape.size(); ++d) visit(decl.shape[d], type.shape[d], what);
    }
  };
  each_dimension([&](const Expr& e, const Dim& extent, const std::string&) {
    if (const auto* v = e.as<VarRef>()) values.emplace(v->var, extent.expr());  // the first one counts
  });
  for (const Var& d : f.dims)
    if (!values.count(d))
      ctx.fail("dimension " + d->name + " of " + f.name + " follows from no input",
               "give the node an integer attribute `" + d->name + "`");
  each_dimension([&](const Expr& e, const Dim& extent, const std::string& what) {
    if (must_equal(size_of(ctx, e, values), extent, what)) return;
    std::string bound;
    for (const Var& d : f.dims) bound += (bound.empty() ? "" : ", ") + d->name + " = " + print(values.at(d));
    ctx.fail(what + "; these don't fit together with " + bound);
  });
  return values;
}

std::vector<TensorType> infer(const OpContext& ctx, const PrimFunc& f) {
  const VarMap values = unify(ctx, f);
  std::vector<TensorType> out;
  for (size_t p : params_of(f, true)) {
    const BufferDecl& decl = f.params[p].decl;
    Dims shape;
    for (const Expr& e : decl.shape) {
      const Dim extent = size_of(ctx, e, values);
      if (extent < 0) ctx.fail("the output " + decl.buffer->name + " gets a negative dimension");
      shape.push_back(extent);
    }
    out.push_back({decl.buffer->type.dtype, shape});
  }
  return out;
}

// A function of the file, and what was seen of it.
struct Template {
  PrimFunc func;
  std::function<void(const PrimFunc&)> check;
  std::mutex mutex;
  std::set<std::vector<int64_t>> checked;
};

// Of open sizes, for what they usually are.
void check_once(Template& t, const OpContext& ctx, const VarMap& values) {
  if (!t.check) return;
  std::vector<int64_t> dims;
  VarMap usual;
  for (const Var& d : t.func.dims) {
    dims.push_back(ctx.dim(values.at(d)).typical());
    usual[d] = Expr(dims.back());
  }
  const std::lock_guard lock(t.mutex);
  if (t.checked.count(dims)) return;
  t.check(with_dims(t.func, usual));
  t.checked.insert(dims);
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out, Template& t) {
  const PrimFunc& f = t.func;
  const VarMap values = unify(ctx, f);
  std::vector<Expr> dims;
  for (const Var& d : f.dims) dims.push_back(values.at(d));
  check_once(t, ctx, values);
  const std::vector<TensorType> types = infer(ctx, f);
  Tensors args;
  size_t next_in = 0, next_out = 0;
  for (const Param& p : f.params) {
    if (p.role != Role::out) {
      args.push_back(in[next_in++]);
      continue;
    }
    // An output that the node doesn't ask for is computed all the same.
    const bool wanted = next_out < out.size() && out[next_out];
    args.push_back(wanted ? out[next_out] : b.temp(p.decl.buffer->name, types[next_out]));
    ++next_out;
  }
  b.inlined(f, args, dims);
}

// The value of a line `# key: value` before the first function.
std::string header(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line[0] != '#') break;
    const size_t at = line.find(key + ":");
    if (at == std::string::npos || line.find_first_not_of("# \t") != at) continue;
    const size_t begin = line.find_first_not_of(" \t", at + key.size() + 1);
    const size_t end = line.find_last_not_of(" \t\r");
    return begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
  }
  return "";
}

// The table's row for one function of the file.
OpDef define(const std::string& path, const std::string& domain, Pattern pattern, PrimFunc parsed,
             const std::function<void(const PrimFunc&)>& check) {
  const auto fail = [&](const std::string& message) {
    throw UserError(path + ": " + parsed.name + ": " + message);
  };
  check_well_formed(parsed);
  OpDef op;
  op.name = parsed.name;
  op.domain = domain;
  op.pattern = pattern;
  op.params.clear();
  for (const Param& p : parsed.params) {
    if (p.decl.layout)
      fail("the parameter " + p.decl.buffer->name + " has a layout; operators take plain tensors");
    if (p.role != Role::out) op.params += (op.params.empty() ? "" : " ") + p.decl.buffer->name;
  }
  if (params_of(parsed, true).empty()) fail("there is no `out` parameter");
  op.min_inputs = op.max_inputs = static_cast<int>(params_of(parsed, false).size());
  const auto t = std::make_shared<Template>();
  t->func = read_updates(parsed);
  t->check = check;
  op.infer = [t](const OpContext& ctx) { return infer(ctx, t->func); };
  op.build = [t](const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
    build(ctx, b, in, out, *t);
  };
  op.note = "from " + path;
  return op;
}

}  // namespace

bool uses_dim(const PrimFunc& f, const Var& dim) {
  const auto in_shape = [&](const BufferDecl& d) {
    return std::any_of(d.shape.begin(), d.shape.end(), [&](const Expr& e) { return uses_var(e, dim); });
  };
  return uses_var(f.body, dim) || std::any_of(f.allocs.begin(), f.allocs.end(), in_shape) ||
         std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return in_shape(p.decl); });
}

PrimFunc with_dims(const PrimFunc& f, const VarMap& dims) {
  if (dims.empty()) return f;
  PrimFunc out = f;
  out.dims.clear();
  const auto fix = [&](BufferDecl& decl) {
    for (Expr& e : decl.shape) e = simplify(substitute(e, dims));
  };
  for (Param& p : out.params) fix(p.decl);
  for (BufferDecl& a : out.allocs) fix(a);
  out.body = substitute(out.body, dims);
  return simplify(out);
}

PrimFunc with_dims(const PrimFunc& f, const std::unordered_map<Var, int64_t>& sizes) {
  VarMap dims;
  for (const Var& d : f.dims) dims[d] = Expr(sizes.at(d));
  return with_dims(f, dims);
}

void register_nest_file(const std::string& path, const std::function<void(const PrimFunc&)>& check) {
  const std::string text = read_text(path);
  static std::mutex mutex;
  static std::set<std::string> registered;  // texts
  std::lock_guard lock(mutex);
  if (registered.count(text)) return;
  Pattern pattern = Pattern::opaque;
  if (const std::string name = header(text, "pattern"); !name.empty()) {
    const auto* row = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                   [&](const auto& p) { return name == p.first; });
    if (row == std::end(kPatterns))
      throw UserError(Diagnostic{path + ": there is no pattern `" + name + "`",
                                 {},
                                 {},
                                 "elementwise, broadcast, injective, reduction, anchor or opaque"});
    pattern = row->second;
  }
  const std::string domain = header(text, "domain");
  std::vector<PrimFunc> funcs = parse_funcs(text, path);
  if (funcs.empty()) throw UserError(path + ": there is no function");
  // All or none: a second definition of a name must not leave the first functions of the file behind.
  std::vector<OpDef> defs;
  for (PrimFunc& f : funcs) defs.push_back(define(path, domain, pattern, std::move(f), check));
  for (size_t i = 0; i < defs.size(); ++i) {
    const bool twice = std::any_of(defs.begin(), defs.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const OpDef& d) { return d.name == defs[i].name; });
    if (twice || find_op(domain, defs[i].name, 1) || find_op(domain, defs[i].name, 1000))
      throw UserError(
          Diagnostic{path + ": the operator `" + defs[i].name + "` is there already",
                     {},
                     {},
                     "rename the function, or put the file in a domain with a line `# domain: NAME`"});
  }
  for (OpDef& d : defs) register_op(std::move(d));
  registered.insert(text);
}

void register_nest_file(const std::string& path) {
  register_nest_file(path, {});
}

}  // namespace nestor
