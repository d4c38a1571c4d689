#include "src/graph/model_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/graph/tensor_limits.h"

namespace nestor {

namespace {

// Exporters call every dimension "?" that they don't know, equal or not.
bool has_name(const ModelDim& d) {
  return !d.name.empty() && d.name != "?";
}
// -1 is what exporters write for a size that isn't known.
std::optional<int64_t> declared(const ModelDim& d) {
  return d.value == -1 ? std::nullopt : d.value;
}
std::string place_of(const ModelValue& v, size_t d) {
  return fmt::format("{}.{}", v.name, d);
}

// What sizes usually are: one picture or text, pictures of 224 pixels, texts of 128 words.
int64_t guess(const ModelValue& v, size_t d) {
  return d == 0 ? 1 : v.shape.size() >= 4 && d >= 2 ? 224 : 128;
}

// Whether a given shape may be what the model declares.
bool fits(const std::vector<int64_t>& given, const Dims& declared) {
  return std::equal(given.begin(), given.end(), declared.begin(), declared.end(),
                    [](int64_t size, const Dim& d) { return !d.known() || size == d; });
}

}  // namespace

std::string declared_shape(const ModelValue& v) {
  std::vector<std::string> dims;
  for (const ModelDim& d : v.shape)
    dims.push_back(declared(d) ? std::to_string(*d.value) : has_name(d) ? d.name : "?");
  return fmt::format("[{}]", fmt::join(dims, ","));
}

ModelInputs::ModelInputs(const Model& model, const BuildOptions& options, Problems& problems)
    : model_(model), options_(options), problems_(problems), named_(options.dims) {
  for (const ModelValue& v : model.inputs) {
    const auto shape = given(v.name);
    if (!shape || shape->size() != v.shape.size()) continue;
    for (size_t d = 0; d < v.shape.size(); ++d)
      if (has_name(v.shape[d]) && !declared(v.shape[d]) && !options.dims.count(place_of(v, d)))
        named_.try_emplace(v.shape[d].name, (*shape)[d]);
  }
}

std::optional<ModelInputs::Shape> ModelInputs::given(const std::string& input) const {
  if (const auto it = options_.shapes.find(input); it != options_.shapes.end()) return it->second;
  if (const auto it = options_.constants.find(input);
      it != options_.constants.end() && it->second.file().defined())
    return it->second.file().shape();
  return std::nullopt;
}

std::optional<int64_t> ModelInputs::size_of(const ModelDim& dim) const {
  if (declared(dim) || !has_name(dim)) return declared(dim);
  const auto it = named_.find(dim.name);
  return it == named_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<int64_t> ModelInputs::size_of(const ModelValue& v, size_t d) const {
  if (const auto it = options_.dims.find(place_of(v, d)); it != options_.dims.end() && !declared(v.shape[d]))
    return it->second;
  if (!declared(v.shape[d]) && open_size(v, d)) return std::nullopt;
  if (const auto size = size_of(v.shape[d])) return size;
  const auto shape = given(v.name);
  return shape && shape->size() == v.shape.size() ? std::optional((*shape)[d]) : std::nullopt;
}

// What was said of a size that stays open; null: nothing.
const OpenSize* ModelInputs::open_size(const ModelValue& v, size_t d) const {
  auto open = options_.open.find(place_of(v, d));
  if (open == options_.open.end() && has_name(v.shape[d])) open = options_.open.find(v.shape[d].name);
  return open == options_.open.end() ? nullptr : &open->second;
}

// A dimension that is given no value, where it may stay open.
std::optional<Dim> ModelInputs::symbol_for(const ModelValue& v, size_t d) {
  const ModelDim& dim = v.shape[d];
  const OpenSize* open = open_size(v, d);
  if (declared(dim) || (!open && !options_.symbolic)) return std::nullopt;
  const OpenSize size = open ? *open : OpenSize{.least = 0};
  if (!symbols_) symbols_ = std::make_shared<Symbols>();
  const std::string name = has_name(dim) ? dim.name : place_of(v, d);
  if (const Symbol* known = symbols_->find(name)) return Dim(Expr(known->var), symbols_);
  return symbols_->add(name, size.least, size.most, size.typical > 0 ? size.typical : guess(v, d));
}

std::optional<Dims> ModelInputs::shape_of(const ModelValue& v) {
  const auto shape = given(v.name);
  if (!v.ranked) {
    mentioned_.insert(v.name);
    for (const auto& entry : options_.dims)  // x.0=4 leaves the rank open
      if (entry.first.starts_with(v.name + ".")) mentioned_.insert(entry.first);
    if (shape) return shape;
    if (const auto it = options_.dims.find(v.name); it != options_.dims.end()) return Shape{it->second};
    problems_.add(fmt::format("input `{}` has no shape", v.name),
                  fmt::format("--dim {}=1,3,224,224 gives it one", v.name));
    return std::nullopt;
  }
  const bool of_rank = !shape || shape->size() == v.shape.size();
  Dims out;
  bool known = true;
  for (size_t d = 0; d < v.shape.size(); ++d) {
    const std::string place = place_of(v, d), name = has_name(v.shape[d]) ? v.shape[d].name : place;
    mentioned_.insert({name, place});
    const std::optional<int64_t> size = size_of(v, d);
    if (const auto symbol = size ? std::nullopt : symbol_for(v, d)) {
      out.push_back(*symbol);
      continue;
    }
    if (!size && of_rank) open_.insert(name);
    if (const auto it = options_.dims.find(place); it != options_.dims.end() && size && it->second != *size)
      problems_.add(fmt::format("--dim {}={}: that dimension is {}", place, it->second, *size));
    if (size && *size < 0) problems_.add(fmt::format("dimension {} of input `{}` is {}", d, v.name, *size));
    known = known && size && *size >= 0;
    out.push_back(size.value_or(0));
  }
  if (!known && of_rank) return std::nullopt;
  if (!shape || fits(*shape, out)) return out;
  problems_.add(fmt::format("input `{}` is given with shape [{}], the model declares {}", v.name,
                            fmt::join(*shape, ","), declared_shape(v)),
                of_rank ? fmt::format("it must be {}", to_string(v.dtype, out))
                        : fmt::format("give it {} dimensions", out.size()));
  return std::nullopt;
}

bool ModelInputs::has_type(const ModelValue& v) const {
  if (!v.typed || !v.refused.empty()) return false;
  if (!v.ranked) return given(v.name) || options_.dims.count(v.name);
  for (size_t d = 0; d < v.shape.size(); ++d)
    if (!size_of(v, d) && !options_.symbolic && !open_size(v, d)) return false;
  return true;
}

std::optional<TensorType> ModelInputs::type_of(const ModelValue& v) {
  if (!v.refused.empty())
    problems_.add(fmt::format("input `{}` is {}, which isn't supported", v.name, v.refused));
  else if (!v.typed)
    problems_.add(fmt::format("input `{}` has no element type", v.name));
  std::optional<Dims> shape;
  if (v.typed) shape = shape_of(v);
  if (!v.typed || !v.refused.empty() || !shape) return std::nullopt;
  TensorType type{v.dtype, std::move(*shape)};
  const std::string why = refusal_of(type);
  if (why.empty()) return type;
  problems_.add(fmt::format("input `{}` {}", v.name, why));
  return std::nullopt;
}

void ModelInputs::finish() {
  std::string hint;
  for (const std::string& name : open_) hint += fmt::format("{}--dim {}=...", hint.empty() ? "" : " ", name);
  if (!open_.empty())
    problems_.add(fmt::format("dimension{} {} of the inputs {} no value", open_.size() > 1 ? "s" : "",
                              fmt::join(open_, ", "), open_.size() > 1 ? "have" : "has"),
                  hint);
  for (const auto& [name, size] : options_.dims)
    if (!mentioned_.count(name) || size < 0)
      problems_.add(mentioned_.count(name)
                        ? fmt::format("--dim {}={} is negative", name, size)
                        : fmt::format("--dim {}={}: no input has such a dimension", name, size));
  std::vector<std::string> names;
  for (const ModelValue& v : model_.inputs) names.push_back(v.name);
  for (const auto& entry : options_.shapes)
    if (std::find(names.begin(), names.end(), entry.first) == names.end())
      problems_.add(fmt::format("no input is named `{}`", entry.first),
                    fmt::format("the inputs are {}", fmt::join(names, ", ")));
}

std::vector<std::string> ModelInputs::not_mentioned() const {
  std::vector<std::string> out;
  for (const auto& entry : options_.open)
    if (!mentioned_.count(entry.first)) out.push_back(entry.first);
  return out;
}

}  // namespace nestor
