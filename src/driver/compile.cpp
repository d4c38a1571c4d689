// A whole model: graph passes, partition, each function through its schedule and lowering, and the plan that
// runs them.

#include <algorithm>
#include <set>

#include "nestor/driver.h"
#include "nestor/index_checks.h"
#include "nestor/layout.h"
#include "src/driver/device_plan.h"
#include "src/driver/stored_weights.h"
#include "src/graph/control_flow.h"
#include "src/graph/one_sample.h"

namespace nestor {

CompileOptions CompileOptions::naive(Target target) {
  CompileOptions options;
  options.target = std::move(target);
  options.fuse = false;
  options.schedules = naive_schedules();
  return options;
}

std::vector<PrimFunc> CompiledModel::lowered() const {
  std::vector<PrimFunc> all;
  for (const CompiledFunction& f : funcs) all.push_back(f.lowered);
  if (!size_function.name.empty()) all.push_back(size_function);
  return all;
}

std::optional<BufferDecl> channel_blocks(const CompiledModel& m, ValueId v) {
  if (!m.partition.blocked.count(v)) return std::nullopt;
  const TensorType& type = m.graph.values[static_cast<size_t>(v)].type;
  return in_channel_blocks(type.dtype, type.shape, m.partition.channel_block);
}

CompiledModel compile_model(const std::string& spec, const CompileOptions& options) {
  return compile_model(load(spec, options), options);
}

namespace {

OptimizeOptions optimize_options(const CompileOptions& options) {
  const Target& t = options.target;
  if (t.kind != TargetKind::cpu) return {.winograd = !options.exact_conv, .halves = true};
  return {.lanes = t.lanes(bytes_of(DType::f32)),
          .waits = t.is_narrow() && t.far_l3(),
          .winograd = !options.exact_conv,
          .dots = t.has_feature("avx512vnni") || t.has_feature("avxvnni"),
          .bf16_dots = t.has_feature("avx512bf16")};
}

PartitionOptions partition_options(const CompileOptions& options) {
  const bool cpu = options.target.kind == TargetKind::cpu, blocks = options.fuse && cpu;
  return {.fuse = options.fuse,
          .channel_block = blocks ? options.target.lanes(bytes_of(DType::f32)) : 1,
          .blocked_io = options.blocked_io,
          .join_products = true,
          .winograd = !options.exact_conv,
          .double_pumped = options.target.double_pumped,
          .near_weights = options.target.far_l3() ? options.target.l2_bytes : 0};
}

WinogradOptions winograd_options(const CompileOptions& options) {
  const Target& t = options.target;
  return {.lanes = t.lanes(bytes_of(DType::f32)),
          .threads = options.threads,
          .l2_bytes = t.l2_bytes,
          .l3_bytes = t.l3_bytes,
          .l3_bytes_per_cycle = t.l3_bytes_per_cycle,
          .far_l3 = t.far_l3(),
          .masks = t.vector_bits >= 512,
          .budget = options.winograd_budget,
          .stored = options.stored ? &options.stored->transformed() : nullptr};
}

// The functions of a graph that went through its passes, those of its loops and branches included.
Partition partition_graph(Graph& g, const CompileOptions& options) {
  if (options.check_indices) add_index_checks(g);
  PartitionOptions how = partition_options(options);
  Partition p = partition(g, how);
  if (!options.exact_conv)
    use_winograd(g, p, how, winograd_options(options), constant_evaluator(options.target));
  reorder_images(g, p, how);
  separate_layouts(g, p, how);
  add_one_samples(g, p, how);
  inline_bodies(g, p, [&](Graph& body) { return partition_graph(body, options); });
  return p;
}

}  // namespace

CompiledModel partition_model(Source source, const CompileOptions& options) {
  if (options.threads < 1) throw UserError("a model runs on at least one thread");
  CompiledModel model;
  model.target = options.target;
  model.graph = std::move(source.graph);
  if (source.partition) {
    model.partition = std::move(*source.partition);
  } else {
    OptimizeOptions how = optimize_options(options);
    how.note = options.note;
    optimize(model.graph, constant_evaluator(options.target), how);
    model.partition = partition_graph(model.graph, options);
  }
  options.schedules.check(model.partition.funcs);
  return model;
}

CompiledModel compile_model(Source source, const CompileOptions& options) {
  CompiledModel model = partition_model(std::move(source), options);
  if (options.stored) options.stored->give_layouts(model, options);
  for (size_t i = 0; i < model.partition.funcs.size(); ++i)
    model.funcs.push_back(compile_function(model.partition, i, options));
  model.plan = options.target.kind == TargetKind::cpu
                   ? build_plan(model.graph, model.partition, model.funcs, options.threads,
                                options.keep_constants, &model.size_function)
                   : build_device_plan(model.graph, model.partition, model.funcs, options.keep_constants);
  return model;
}

std::unique_ptr<Executor> make_executor(const CompiledModel& model) {
  if (model.target.kind != TargetKind::cpu)
    throw UserError("a model compiled for " + model.target.name +
                    " can't run in this process: compile it for native");
  auto code = JitModule::compile(model.lowered(), model.target);
  std::vector<Kernel> kernels;
  for (const std::string& name : model.plan->kernels) kernels.push_back(code->lookup(name));
  const KernelFn sizes = model.plan->sizes.any() ? code->lookup(model.plan->sizes.kernel) : nullptr;
  return std::make_unique<Executor>(model.plan, std::move(kernels), code, sizes);
}

}  // namespace nestor
