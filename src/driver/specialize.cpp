// The model is compiled once more for each combination of the chosen values, as if `--dim` had given them,
// and the plans become one (merge_plans.h). What runs at chosen sizes is thus what an artifact of these sizes
// runs, graph passes and fusion included, and the same tuning records are its own.
//
// A choice function by function would take less code and compile less. But convolutions by Winograd's
// algorithm, layouts between functions and what is fused depend on sizes too, and the functions for chosen
// sizes would have to take constants in the layouts of those for all sizes. They do where that costs little
// (stored_weights.h).
#include "nestor/specialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "src/driver/merge_plans.h"
#include "src/driver/stored_weights.h"

namespace nestor {

void add_chosen_sizes(const std::string& flag, const std::string& text, ChosenSizes& sizes) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  bool good = equals != std::string::npos && !name.empty();
  for (size_t at = equals; good && at != std::string::npos;) {
    const size_t next = text.find(',', at + 1);
    const std::string_view piece = std::string_view(text).substr(at + 1, next - at - 1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
    good = error == std::errc() && end == piece.data() + piece.size();
    std::vector<int64_t>& values = sizes[name];
    if (good && std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    at = next;
  }
  if (!good)
    throw UserError(
        Diagnostic{flag + " " + text + " isn't a size with its values", {}, {}, flag + " batch=1,8"});
}

namespace {

// What all sizes store, in parts of what the first plan does: transformed weights take no more.
constexpr double kMoreWeights = 1.3;

using Values = std::map<std::string, int64_t>;

std::string text_of(const Values& values, const char* equals, const char* between) {
  std::string out;
  for (const auto& [name, value] : values)
    out += (out.empty() ? "" : between) + name + equals + std::to_string(value);
  return out;
}

// Each combination.
std::vector<Values> combinations(const ChosenSizes& sizes) {
  constexpr size_t kMost = 64;
  std::vector<Values> out = {{}};
  for (const auto& [name, values] : sizes) {
    std::vector<Values> longer;
    for (const Values& v : out)
      for (const int64_t value : values) {
        longer.push_back(v);
        longer.back()[name] = value;
      }
    out = std::move(longer);
    if (out.size() > kMost)
      throw UserError(
          fmt::format("--specialize chooses {} combinations of sizes, and the model is compiled for "
                      "each: {} at most",
                      out.size(), kMost));
  }
  return out;
}

void check_sizes(const Symbols* symbols, const ChosenSizes& sizes) {
  std::string names;
  if (symbols)
    for (const Symbol& s : symbols->all())
      if (!s.bound) names += (names.empty() ? "" : ", ") + s.name;
  for (const auto& [name, values] : sizes) {
    const Symbol* s = symbols ? symbols->find(name) : nullptr;
    if (!s || s->bound)
      throw UserError(Diagnostic{"--specialize " + name + ": the model leaves no such size open",
                                 {},
                                 {},
                                 names.empty() ? "all of its sizes are known" : "it leaves open " + names});
    for (const int64_t value : values)
      if (value < s->least || value > s->most)
        throw UserError(
            fmt::format("--specialize {}={}: {} is from {} to {}", name, value, name, s->least, s->most));
  }
}

// Whether runs of these sizes may be: what the model requires of its sizes doesn't rule them out. (Sizes of 1
// that are broadcast may be different from those that they should equal.)
bool can_be(const Symbols& symbols, const Values& values) {
  VarMap known;
  for (const auto& [name, value] : values) known[symbols.find(name)->var] = Expr(value);
  return std::none_of(symbols.requirements().begin(), symbols.requirements().end(), [&](const auto& r) {
    return is_const_int(simplify(make::select(substitute(r.condition, known), Expr(1), Expr(0))), 0);
  });
}

// What `name` is in the functions of chosen sizes: "matmul_batch8".
std::string named_for(const std::string& name, const Values& values) {
  std::string out = name;
  for (const auto& [size, value] : values) {
    out += '_';
    for (const char c : size) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    out += std::to_string(value);
  }
  return out;
}

// Asks for schedules by the names of functions for chosen sizes. Those that a schedule file has are checked
// when all functions are known.
ScheduleProvider named(const ScheduleProvider& schedules, const Values& values) {
  if (!schedules) return {};
  return ScheduleProvider([=](const PrimFunc& f, const Target& t) {
    PrimFunc g = f;
    g.name = named_for(f.name, values);
    return schedules(g, t);
  });
}

CompiledModel compile_for(const std::string& spec, CompileOptions options, const Values& values,
                          const StoredWeights& stored) {
  options.stored = std::make_shared<StoredWeights>(stored);
  for (const auto& [name, value] : values) {
    options.build.open.erase(name);
    options.build.dims[name] = value;
  }
  options.keep_constants = true;
  options.drawn = {};
  options.schedules = named(options.schedules, values);
  CompiledModel m = compile_model(load(spec, options), options);
  for (CompiledFunction& f : m.funcs) f.lowered.name = named_for(f.lowered.name, values);
  // Once more with the arena laid out by runs, as that of open sizes is.
  if (!m.graph.symbols) m.graph.symbols = std::make_shared<Symbols>();
  m.plan = nullptr;
  m.plan = build_plan(m.graph, m.partition, m.funcs, options.threads, false, &m.size_function);
  return m;
}

}  // namespace

SpecializedModel compile_model(const std::string& spec, const CompileOptions& given,
                               const ChosenSizes& sizes) {
  if (sizes.empty()) return {compile_model(spec, given), {}, 0};
  CompileOptions options = given;
  for (const auto& [name, values] : sizes) {
    if (options.build.dims.count(name))
      throw UserError("--specialize " + name + ": --dim gives that size a value");
    OpenSize& open = options.build.open.try_emplace(name, OpenSize{.least = 0}).first->second;
    if (open.typical == 0) open.typical = values.at(0);
  }
  Source source = load(spec, options);
  check_sizes(source.graph.symbols.get(), sizes);
  SpecializedModel out;
  CompileOptions unchecked = options;
  unchecked.schedules = named(options.schedules, {});
  unchecked.keep_constants = true;
  CompiledModel open = compile_model(std::move(source), unchecked);
  StoredWeights stored;
  stored.add(open);
  if (!given.keep_constants)
    for (Value& v : open.graph.values) v.constant = {};
  const std::shared_ptr<const Symbols> symbols = open.graph.symbols;
  PlanMerger merger(std::move(open));
  const int64_t most_bytes = static_cast<int64_t>(kMoreWeights * static_cast<double>(merger.weight_bytes()));
  for (const Values& values : combinations(sizes)) {
    std::vector<std::optional<int64_t>> in_order;
    for (const Symbol& s : symbols->all()) {
      const auto it = values.find(s.name);
      in_order.push_back(it == values.end() ? std::nullopt : std::optional(it->second));
    }
    try {
      stored.allow(std::max<int64_t>(0, most_bytes - merger.weight_bytes()));
      CompiledModel chosen = compile_for(spec, options, values, stored);
      stored.add(chosen);
      out.weight_bytes += merger.add(std::move(chosen), in_order);
      out.sizes.push_back(values);
    } catch (const UserError& e) {
      if (!can_be(*symbols, values)) continue;
      Diagnostic d = e.diagnostic();
      d.notes.push_back("while compiling for " + text_of(values, "=", " ") + ", which --specialize chooses");
      throw UserError(std::move(d));
    }
  }
  out.model = merger.finish();
  options.schedules.check(out.model.partition.funcs);
  return out;
}

}  // namespace nestor
