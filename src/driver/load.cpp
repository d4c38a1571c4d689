// What the command line calls MODEL, read into a graph: a model file, an operator string, or loop nests as
// text.

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "nestor/check.h"
#include "nestor/driver.h"
#include "nestor/nest_file.h"
#include "nestor/parse.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

bool ends_with(const std::string& s, std::string_view end) {
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError("can't read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
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

// Every function of the file becomes one call; values of several functions are told apart by the function's
// name.
Source load_functions(const std::string& path, const CompileOptions& options) {
  Source source;
  source.partition.emplace();
  Graph& g = source.graph;
  const std::vector<PrimFunc> funcs = parse_funcs(read_text(path), path);
  if (funcs.empty()) throw UserError(path + " holds no function");
  g.name = funcs.front().name;
  uint64_t seed = options.seed;
  std::set<std::string> names;
  for (const PrimFunc& templ : funcs) {
    if (!names.insert(templ.name).second) throw UserError(path + ": two functions are named " + templ.name);
    require_well_formed(templ, path);
    const PrimFunc f = read_updates(instantiate(templ, options.build.dims, path));
    for (const auto& [buffer, decl] : declarations(f)) type_of(decl, path + ": " + f.name);
    check_nest(f, path, options.note);
    KernelCall call{static_cast<int>(source.partition->funcs.size()), {}, {}};
    for (const Param& p : f.params) {
      const auto id = static_cast<ValueId>(g.values.size());
      Value value;
      value.name = (funcs.size() > 1 ? f.name + "." : "") + p.decl.buffer->name;
      value.type = type_of(p.decl, path + ": " + f.name);
      if (p.role == Role::constant)
        value.constant = Tensor::random(value.type.dtype, value.type.shape, ++seed);
      if (p.role == Role::in) g.inputs.push_back(id);
      if (p.role == Role::out) g.outputs.push_back(id);
      g.values.push_back(std::move(value));
      call.args.push_back(id);
    }
    source.partition->funcs.push_back(f);
    source.partition->calls.push_back(std::move(call));
  }
  return source;
}

}  // namespace

Source load(const std::string& spec, const CompileOptions& options) {
  if (looks_like_operator(spec))
    return {build_graph(parse_operator(spec, options.seed), options.build), std::nullopt};
  if (ends_with(spec, ".nest")) return load_functions(spec, options);
  return {build_graph(read_model(spec), options.build), std::nullopt};
}

}  // namespace nestor
