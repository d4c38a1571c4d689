// A model file whose sizes stay open, as far as `model` goes; then its runs' sizes are computed for shapes
// that nobody should give, by the same program and the same checks as in an artifact, and by an instance that
// takes memory.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "nestor/interpret.h"
#include "runtime/artifact_rt.h"
#include "runtime/fitted_sizes.h"
#include "src/driver/size_table.h"
#include "src/graph/found_sizes.h"
#include "tests/fuzz/inputs/target.h"

namespace nestor::fuzz {

namespace {

using Random = std::mt19937_64;

// The first dimension of each input, and often others. Equal sizes get equal names.
void open_sizes(Model& model, Random& rng) {
  const bool more = rng() % 2, equal = rng() % 2;
  for (ModelValue& v : model.inputs)
    for (size_t d = 0; d < v.shape.size(); ++d) {
      ModelDim& dim = v.shape[d];
      if (!dim.value || (d > 0 && (!more || rng() % 2))) continue;
      dim.name = equal ? "n" + std::to_string(*dim.value) : v.name + "." + std::to_string(d);
      dim.value.reset();
    }
}

const PrimFunc* program = nullptr;  // of the plan at hand

int32_t interpreted(void* const* args, void*, void*) {
  std::vector<Tensor> tensors;
  for (const Param& p : program->params)
    tensors.emplace_back(DType::i64, std::vector{as_int(p.decl.shape[0]).value()});
  std::memcpy(tensors[0].data(), args[0], static_cast<size_t>(tensors[0].bytes()));
  interpret(*program, tensors);
  std::memcpy(args[1], tensors[1].data(), static_cast<size_t>(tensors[1].bytes()));
  return 0;
}

PlanSizes plan_of(const Graph& g, PrimFunc& size_function) {
  SizeTable table(g.symbols);
  std::vector<PlanSizes::InArena> arena;
  std::vector<int64_t> outputs, made, found;
  for (const Value& v : g.values) {
    if (v.type.shape.known()) continue;
    table.require_bytes(v.type.shape, v.type.dtype, v.name);
    const Expr bytes = elements_of(v.type.shape).expr() * bytes_of(v.type.dtype);
    const auto at = static_cast<int64_t>(arena.size());
    if (at < 40) arena.push_back({table.add_most(bytes), at, at + 3});
  }
  for (const ValueId v : g.outputs)
    for (const Dim& d : g.values[static_cast<size_t>(v)].type.shape) {
      outputs.push_back(table.add_most(d.expr()));
      made.push_back(table.add(d.expr()));
    }
  std::vector<PlanTensor> names;
  std::vector<Dims> shapes;
  for (const ValueId v : g.inputs) {
    const Value& value = g.values[static_cast<size_t>(v)];
    names.push_back({value.name, value.type.dtype, {}, {}});
    shapes.push_back(value.type.shape);
    table.require_bytes(value.type.shape, value.type.dtype, value.name);
  }
  for (const Node& n : g.nodes)
    if (is_found_size(n)) found.push_back(table.symbol(symbol_found_by(n)));
  PlanSizes plan = table.finish(names, shapes, found);
  plan.arena = std::move(arena);
  plan.outputs = std::move(outputs);
  plan.made = std::move(made);
  size_function = table.function("sizes");
  return plan;
}

int64_t hostile_size(Random& rng) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  static const int64_t sizes[] = {least,
                                  least + 1,
                                  -(int64_t{1} << 32),
                                  -1,
                                  0,
                                  1,
                                  2,
                                  3,
                                  6,
                                  10,
                                  int64_t{1} << 16,
                                  46341,
                                  1 << 21,
                                  (int64_t{1} << 31) - 1,
                                  int64_t{1} << 31,
                                  (int64_t{1} << 31) + 1,
                                  int64_t{1} << 46,
                                  int64_t{1} << 62,
                                  most};
  return sizes[rng() % std::size(sizes)];
}

// What is right of sizes that are taken: the outputs are tensors, and what lies in the arena lies inside of
// it.
void check_fit(const PlanSizes& plan, const Graph& g, const FittedSizes& sizes) {
  auto number = plan.outputs.begin();
  for (const ValueId v : g.outputs) {
    double bytes = 1;
    for (size_t d = 0; d < g.values[static_cast<size_t>(v)].type.shape.size(); ++d) {
      const int64_t size = sizes.numbers()[*number++];
      NESTOR_CHECK(size >= 0) << "an output has the size " << size;
      bytes *= static_cast<double>(size);
    }
    NESTOR_CHECK(bytes <= static_cast<double>(int64_t{1} << 46)) << "an output has " << bytes << " elements";
  }
  for (size_t v = 0; v < plan.arena.size(); ++v) {
    const int64_t bytes = sizes.numbers()[plan.arena[v].bytes], at = sizes.offsets()[v];
    NESTOR_CHECK(bytes >= 0 && at >= 0 && at <= sizes.arena_bytes() - bytes) << bytes << " bytes at " << at;
  }
}

// An instance of an artifact, without kernels.
class Instance {
 public:
  explicit Instance(const nestor_sizes& plan)
      : plan_(plan), outputs_(static_cast<size_t>(plan.output_count) + 1) {
    static const nestor_weights no_weights{};
    static const nestor_needs nothing{};
    nestor_options options{};
    options.threads = 1;
    instance_ = nestor_instance_create(&options, 0, 0, 1, &no_weights, &nothing, &plan);
    NESTOR_CHECK(instance_) << "there is no instance";
  }
  Instance(const Instance&) = delete;
  ~Instance() { nestor_instance_destroy(instance_); }

  void refuses(const std::vector<int64_t>& dims) {
    NESTOR_CHECK(nestor_memory_size(&plan_, dims.data()) == -1) << "sizes that are refused have memory";
    NESTOR_CHECK(nestor_instance_fit(instance_, dims.data(), outputs_.data()) == NESTOR_BAD_SIZES) << "a fit";
    NESTOR_CHECK(*nestor_instance_why(instance_)) << "it doesn't say why";
  }
  // In memory of its own, in too little of the host's, and in enough.
  void takes(const std::vector<int64_t>& dims, const FittedSizes& sizes) {
    constexpr int64_t kMost = 1 << 20;
    const int64_t bytes = nestor_memory_size(&plan_, dims.data());
    NESTOR_CHECK(bytes >= sizes.arena_bytes() + sizes.workspace_bytes()) << bytes << " bytes are too few";
    if (bytes > kMost) return;
    std::vector<char> memory(static_cast<size_t>(bytes));
    const auto fits = [&](void* host, int64_t given) {
      nestor_instance_use_memory(instance_, host, given);
      return nestor_instance_fit(instance_, dims.data(), outputs_.data()) == 0;
    };
    NESTOR_CHECK(fits(memory.data(), bytes) && fits(nullptr, 0)) << "the memory is too small";
    NESTOR_CHECK(!fits(memory.data(), bytes - 1) && *nestor_instance_why(instance_))
        << "it takes more than it has";
    NESTOR_CHECK(fits(nullptr, 0)) << "there is no way back";
    for (int64_t i = 0; i < plan_.output_count; ++i)
      NESTOR_CHECK(outputs_[static_cast<size_t>(i)] == sizes.numbers()[plan_.outputs[i]]) << "another output";
  }

 private:
  const nestor_sizes& plan_;
  std::vector<int64_t> outputs_;
  nestor_instance* instance_ = nullptr;
};

}  // namespace

void read_input(std::string_view input) {
  Random rng(std::hash<std::string_view>()(input));
  Model model = read_model(as_file("model", input));
  open_sizes(model, rng);
  BuildOptions options;
  options.symbolic = true;
  Graph g = build_graph(model, options);
  if (g.symbols) {
    PrimFunc size_function;
    const PlanSizes plan = plan_of(g, size_function);
    program = &size_function;
    FittedSizes sizes(plan, interpreted);
    Instance instance(sizes.plan());
    const auto places =
        std::max_element(plan.symbols.begin(), plan.symbols.end(), [](const auto& a, const auto& b) {
          return a.place < b.place;
        })->place;
    std::vector<int64_t> dims;
    for (const ValueId v : g.inputs)
      for (const Dim& d : g.values[static_cast<size_t>(v)].type.shape)
        dims.push_back(d.known() ? static_cast<int64_t>(d) : d.typical());
    NESTOR_CHECK(places < static_cast<int64_t>(dims.size())) << "a place is behind the dimensions";
    const std::vector<int64_t> usual = dims;
    for (int draw = 0; draw < 12; ++draw) {
      for (size_t d = 0; d < dims.size(); ++d)
        dims[d] = draw == 0 || rng() % 3 ? usual[d] : hostile_size(rng);
      try {
        sizes.fit(dims);
        check_fit(plan, g, sizes);
        instance.takes(dims, sizes);
      } catch (const UserError& e) {
        const std::string why = e.what();
        NESTOR_CHECK(why.find("dimension ") != std::string::npos) << "it names no dimension: " << why;
        instance.refuses(dims);
      }
    }
  }
  follow(std::move(g));
}

}  // namespace nestor::fuzz
