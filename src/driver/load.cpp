// What the command line calls MODEL, read into a graph: a model file, an operator string, or loop nests as
// text.

#include "src/driver/load.h"

#include <algorithm>
#include <set>

#include "nestor/check.h"
#include "nestor/driver.h"
#include "nestor/nest_file.h"
#include "nestor/parse.h"
#include "nestor/read_text.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

constexpr size_t kMostNests = size_t{1} << 30;  // bytes: a lowered model may be long

bool ends_with(const std::string& s, std::string_view end) {
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

void require_well_formed(const PrimFunc& f, const std::string& path) {
  try {
    check_well_formed(f);
  } catch (const UserError& e) {
    Diagnostic d = e.diagnostic();
    d.message = path + ": " + d.message;
    throw UserError(std::move(d));
  }
}

// A template with its symbolic dimensions replaced by numbers.
PrimFunc instantiate(const PrimFunc& f, const std::map<std::string, int64_t>& dims, const std::string& path) {
  VarMap values;
  for (const Var& d : f.dims) {
    auto it = dims.find(d->name);
    if (it == dims.end())
      throw UserError(Diagnostic{path + ": function " + f.name + " has a symbolic dimension " + d->name +
                                     ", which is given no value",
                                 {},
                                 {},
                                 "--dim " + d->name + "=128"});
    values[d] = Expr(it->second);
  }
  return with_dims(f, values);
}

TensorType type_of(const BufferDecl& decl, const std::string& where) {
  TensorType type{decl.buffer->type.dtype, {}};
  int64_t bytes = bytes_of(type.dtype);
  for (const Expr& e : decl.shape) {
    const auto extent = as_int(e);
    if (!extent) throw UserError(where + ": the shape of " + decl.buffer->name + " isn't constant");
    if (*extent < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(*extent, 1), &bytes))
      throw UserError(where + ": the shape of " + decl.buffer->name + " is negative or too large at " +
                      std::to_string(*extent));
    type.shape.push_back(*extent);
  }
  return type;
}

// Symbolic dimensions that a given shape of a parameter says.
void dims_from(const PrimFunc& f, const std::string& prefix, const BuildOptions& options,
               std::map<std::string, int64_t>& dims) {
  for (const Param& p : f.params) {
    const auto it = options.shapes.find(prefix + p.decl.buffer->name);
    if (it == options.shapes.end() || it->second.size() != p.decl.shape.size()) continue;
    for (size_t d = 0; d < p.decl.shape.size(); ++d)
      if (const auto* v = p.decl.shape[d].as<VarRef>()) dims.try_emplace(v->var->name, it->second[d]);
  }
}

// Every function of the file becomes one call; values of several functions are told apart by the function's
// name.
Source load_functions(const std::string& path, const CompileOptions& options) {
  Source source;
  source.partition.emplace();
  Graph& g = source.graph;
  const std::vector<PrimFunc> funcs = parse_funcs(read_text(path, kMostNests), path);
  if (funcs.empty()) throw UserError(path + " holds no function");
  g.name = funcs.front().name;
  uint64_t seed = options.seed;
  std::set<std::string> names, weights;
  std::vector<std::string> drawn;
  for (const PrimFunc& templ : funcs) {
    if (!names.insert(templ.name).second) throw UserError(path + ": two functions are named " + templ.name);
    require_well_formed(templ, path);
    const std::string prefix = funcs.size() > 1 ? templ.name + "." : "";
    std::map<std::string, int64_t> dims = options.build.dims;
    dims_from(templ, prefix, options.build, dims);
    const PrimFunc f = read_updates(instantiate(templ, dims, path));
    for (const auto& [buffer, decl] : declarations(f)) type_of(decl, path + ": " + f.name);
    check_nest(f, path, options.note);
    KernelCall call{static_cast<int>(source.partition->funcs.size()), {}, {}};
    for (const Param& p : f.params) {
      const auto id = static_cast<ValueId>(g.values.size());
      Value value;
      value.name = prefix + p.decl.buffer->name;
      value.type = type_of(p.decl, path + ": " + f.name);
      if (p.role == Role::constant) {
        const auto given = options.build.constants.find(value.name);
        const bool draws = given == options.build.constants.end();
        ++seed;
        value.constant = draws ? Tensor::random(value.type.dtype, value.type.shape, seed)
                               : given->second.exactly(value.type);
        weights.insert(value.name);
        if (draws) drawn.push_back(value.name);
      }
      if (p.role == Role::in) g.inputs.push_back(id);
      if (p.role == Role::out) g.outputs.push_back(id);
      g.values.push_back(std::move(value));
      call.args.push_back(id);
    }
    source.partition->funcs.push_back(f);
    source.partition->calls.push_back(std::move(call));
  }
  for (const auto& entry : options.build.constants)
    if (!weights.count(entry.first))
      throw UserError(Diagnostic{entry.second.what() + ": " + path + " has no const parameter " + entry.first,
                                 {},
                                 {},
                                 "const " + entry.first + ": f32[...] is one"});
  if (options.drawn && !drawn.empty()) options.drawn(drawn);
  return source;
}

}  // namespace

BuildOptions build_options(const CompileOptions& options) {
  BuildOptions out = options.build;
  out.control_flow = out.control_flow && options.target.kind == TargetKind::cpu;
  return out;
}

Model model_of(const std::string& spec, const CompileOptions& options) {
  if (!looks_like_operator(spec)) return read_model(spec);
  std::vector<std::string> drawn;
  Model model = parse_operator(spec, options.seed, &drawn);
  std::erase_if(drawn, [&](const std::string& name) { return options.build.constants.count(name) > 0; });
  if (options.drawn && !drawn.empty()) options.drawn(drawn);
  return model;
}

Source load(const std::string& spec, const CompileOptions& options) {
  if (!looks_like_operator(spec) && ends_with(spec, ".nest")) return load_functions(spec, options);
  return {build_graph(model_of(spec, options), build_options(options)), std::nullopt};
}

}  // namespace nestor
