// Models: compiled in this process or loaded from an artifact, called with arrays.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <mutex>

#include "nestor/artifact.h"
#include "nestor/nest_file.h"
#include "nestor/npz.h"
#include "nestor/tune.h"
#include "src/python/bindings/arrays.h"
#include "src/python/bindings/threads.h"

namespace nestor::python {

CompileOptions compile_options(const ModelKeywords& k) {
  for (const std::string& file : k.ops)
    register_nest_file(file, [file](const PrimFunc& f) { check_nest(f, file, warn); });
  CompileOptions c;
  c.target = parse_target(k.target);
  if (k.threads < 0) throw UserError("threads is negative");
  c.threads = k.threads > 0 ? k.threads : std::max(1, c.target.cores);
  if (c.target.kind == TargetKind::cpu) c.target.cores = c.threads;
  c.note = warn;
  c.build.warn = warn;
  c.exact_conv = k.exact_conv;
  c.check_indices = k.check_indices;
  if (k.max_trips < 0) throw UserError("max_trips is negative");
  c.build.max_trips = k.max_trips;
  c.build.dims = k.dims;
  for (const auto& [name, text] : k.open) {
    const auto size = parse_open_size("dims[\"" + name + "\"]", text);
    if (!size)
      throw UserError("dims[\"" + name + "\"] is \"" + text + "\": give an integer, or a range as \"1..64\"");
    c.build.open[name] = *size;
  }
  c.build.shapes = k.shapes;
  for (const auto& [name, value] : k.constants)
    c.build.constants.emplace(name, TensorSource("const " + name, to_tensor(value, "const " + name)));
  choose_schedules(c, k.schedule, k.db, warn);
  return c;
}

namespace {

// "const={"W": ..., "B": ...}".
std::string as_const(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "\"" : ", \"") + name + "\": ...";
  return "const={" + out + "}";
}

// One run at a time; other threads of Python wait.
class Model {
 public:
  Model(std::unique_ptr<Runnable> runnable, std::shared_ptr<CompiledModel> compiled,
        std::vector<std::string> random = {})
      : runnable_(std::move(runnable)), compiled_(std::move(compiled)), random_(std::move(random)) {}

  const Runnable& runnable() const { return *runnable_; }

  // Arrays by position or name, and `out`: arrays to write into. One output, or a tuple of them.
  nb::object call(const nb::args& args, const nb::kwargs& kwargs) {
    nb::object out;
    const std::vector<ReadArray> held = gather(args, kwargs, &out);
    std::vector<const void*> in;
    std::vector<Runnable::Shape> shapes;
    for (const ReadArray& a : held) {
      in.push_back(a.data());
      shapes.push_back(shape_of(a));
    }
    return run(in, shapes, out);
  }
  // Where a call with these arrays would read its inputs.
  std::vector<uintptr_t> addresses(const nb::args& args, const nb::kwargs& kwargs) const {
    nb::object out;
    std::vector<uintptr_t> where;
    for (const ReadArray& a : gather(args, kwargs, &out))
      where.push_back(reinterpret_cast<uintptr_t>(a.data()));
    return where;
  }

  void save(const std::string& path, const std::string& name) const {
    if (!compiled_) throw UserError("a model that was loaded from an artifact can't be saved: copy its file");
    if (!path.ends_with(".so"))
      throw UserError(Diagnostic{path + ": an artifact ends in .so", {}, {}, "m.save(\"m.so\")"});
    if (!random_.empty())
      throw UserError(Diagnostic{
          "weights without values aren't saved", {}, {}, "nestor.compile(..., " + as_const(random_) + ")"});
    ArtifactOptions options;
    options.path = path;
    const size_t folder = path.rfind('/');
    const std::string stem = path.substr(folder == std::string::npos ? 0 : folder + 1);
    options.name = artifact_name(name.empty() ? stem.substr(0, stem.size() - 3) : name);
    do_work([compiled = compiled_, options] {
      write_artifact(*compiled->plan, compiled->lowered(), compiled->target, options);
    });
  }

  // Of each function: its name and where its schedule came from.
  std::vector<std::pair<std::string, std::string>> functions() const {
    std::vector<std::pair<std::string, std::string>> out;
    if (compiled_)
      for (const CompiledFunction& f : compiled_->funcs) out.emplace_back(f.func.name, f.choice.origin);
    return out;
  }

 private:
  static std::string names(const std::vector<PlanTensor>& tensors) {
    std::string out;
    for (const PlanTensor& t : tensors) out += (out.empty() ? "`" : ", `") + t.name + "`";
    return out.empty() ? "(none)" : out;
  }
  static size_t index_of(const std::vector<PlanTensor>& tensors, const std::string& name) {
    size_t i = 0;
    while (i < tensors.size() && tensors[i].name != name) ++i;
    return i;
  }

  std::vector<ReadArray> gather(const nb::args& args, const nb::kwargs& kwargs, nb::object* out) const {
    const auto& inputs = runnable_->inputs();
    std::vector<ReadArray> held(inputs.size());
    if (args.size() > inputs.size())
      throw nb::type_error((std::to_string(args.size()) + (args.size() == 1 ? " array is" : " arrays are") +
                            " given; the inputs are " + names(inputs))
                               .c_str());
    if (args.size() == 1 && nb::isinstance<nb::dict>(args[0]))
      throw nb::type_error("arrays by name: m.run({...}), or m(**{...})");
    for (size_t i = 0; i < args.size(); ++i) held[i] = as_input(args[i], inputs[i]);
    for (const auto& [key, value] : kwargs) {
      const auto name = nb::cast<std::string>(key);
      const size_t i = index_of(inputs, name);
      if (i == inputs.size() && name == "out") {
        *out = nb::borrow(value);
        continue;
      }
      if (i == inputs.size())
        throw nb::type_error(("there is no input `" + name + "`: the inputs are " + names(inputs)).c_str());
      if (i < args.size()) throw nb::type_error(("input `" + name + "` is given twice").c_str());
      held[i] = as_input(value, inputs[i]);
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!held[i].is_valid()) throw nb::type_error(("input `" + inputs[i].name + "` isn't given").c_str());
    return held;
  }

  // Kernels read while they write.
  static void refuse_overlap(const void* a, const PlanTensor& of_a, const void* b, const PlanTensor& of_b,
                             const std::string& what, const std::string& kind) {
    const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
    if (first < second + static_cast<uintptr_t>(of_b.bytes()) &&
        second < first + static_cast<uintptr_t>(of_a.bytes()))
      throw nb::value_error(
          (what + " shares memory with " + kind + "`" + of_b.name + "`: give an array of its own").c_str());
  }

  // Tensors with the shapes that they have in a call.
  static std::vector<PlanTensor> with_shapes(std::vector<PlanTensor> tensors,
                                             const std::vector<Runnable::Shape>& shapes) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].shape = shapes[i];
      tensors[i].symbols.clear();
    }
    return tensors;
  }
  // The outputs' shapes; another thread's call may change what the model is ready for, until it runs.
  std::vector<Runnable::Shape> fit(const std::vector<Runnable::Shape>& shapes) {
    const OthersRun others;
    const std::lock_guard one(mutex_);
    return runnable_->fit(shapes);
  }

  // What stands in front of an output whose size values decide.
  static nb::object in_front(DType dtype, const Runnable::Shape& shape, const void* from) {
    void* data = nullptr;
    nb::object array = new_array(dtype, shape, &data);
    const int64_t bytes = product(shape) * bytes_of(dtype);
    if (bytes > 0) std::memcpy(data, from, static_cast<size_t>(bytes));
    return array;
  }

  nb::object run(const std::vector<const void*>& in, const std::vector<Runnable::Shape>& shapes,
                 const nb::object& given) {
    const std::vector<PlanTensor> inputs = with_shapes(runnable_->inputs(), shapes),
                                  outputs = with_shapes(runnable_->outputs(), fit(shapes));
    std::vector<nb::object> arrays;
    std::vector<WriteArray> held;
    std::vector<void*> out;
    std::vector<Runnable::Shape> made;
    if (given.is_valid() && !given.is_none()) {
      const bool several = nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given);
      if (several)
        for (const nb::handle a : given) arrays.push_back(nb::borrow(a));
      else
        arrays.push_back(given);
      if (arrays.size() != outputs.size())
        throw nb::type_error(
            (std::to_string(arrays.size()) + " arrays in out; the outputs are " + names(outputs)).c_str());
      for (size_t i = 0; i < outputs.size(); ++i) {
        held.push_back(as_output(arrays[i], outputs[i]));
        out.push_back(held.back().data());
        const std::string what = "output `" + outputs[i].name + "`";
        for (size_t k = 0; k < in.size(); ++k)
          refuse_overlap(out[i], outputs[i], in[k], inputs[k], what, "input ");
        for (size_t k = 0; k < i; ++k)
          refuse_overlap(out[i], outputs[i], out[k], outputs[k], what, "output ");
      }
    } else {
      for (const PlanTensor& t : outputs) {
        out.push_back(nullptr);
        arrays.push_back(new_array(t.dtype, t.shape, &out.back()));
      }
    }
    {
      const OthersRun others;
      const Run while_none_forks;
      const std::lock_guard one(mutex_);
      if (std::exchange(forks_, forks()) != forks()) runnable_->forked();
      runnable_->fit(shapes);
      runnable_->run_raw(in.data(), out.data());
      made = runnable_->made();
    }
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i] != outputs[i].shape) arrays[i] = in_front(outputs[i].dtype, made[i], out[i]);
    if (arrays.size() == 1) return arrays[0];
    nb::list all;
    for (const nb::object& a : arrays) all.append(a);
    return nb::tuple(all);
  }

  std::unique_ptr<Runnable> runnable_;
  std::shared_ptr<CompiledModel> compiled_;  // null: an artifact
  std::vector<std::string> random_;          // weights that were given no values
  std::mutex mutex_;
  int forks_ = forks();
};

std::unique_ptr<Model> compile(const std::string& spec, const ModelKeywords& k) {
  CompileOptions options = compile_options(k);
  options.keep_constants = false;
  options.build.symbolic = true;
  const auto random = std::make_shared<std::vector<std::string>>();
  options.drawn = [random](const std::vector<std::string>& names) {
    *random = names;
    warn("weights that are given no values are random; " + as_const(names) + " gives values");
  };
  using Parts = std::pair<std::unique_ptr<Executor>, std::shared_ptr<CompiledModel>>;
  Parts parts = interruptibly([spec, options, chosen = k.specialize] {
    auto compiled = std::make_shared<CompiledModel>(compile_model(spec, options, chosen).model);
    auto executor = make_executor(*compiled);
    return Parts(std::move(executor), std::move(compiled));
  });
  return std::make_unique<Model>(std::move(parts.first), std::move(parts.second), std::move(*random));
}

nb::list described(const std::vector<PlanTensor>& tensors) {
  nb::list out;
  for (const PlanTensor& t : tensors) {
    nb::list shape;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      if (t.shape[d] == kOpenSize)
        shape.append(t.symbols[d]);
      else
        shape.append(t.shape[d]);
    }
    out.append(nb::make_tuple(t.name, std::string(name_of(t.dtype)), nb::tuple(shape)));
  }
  return out;
}

}  // namespace

void add_models(nb::module_& m) {
  nb::class_<ModelKeywords>(m, "ModelKeywords")
      .def(nb::init<>())
      .def_rw("target", &ModelKeywords::target)
      .def_rw("threads", &ModelKeywords::threads)
      .def_rw("dims", &ModelKeywords::dims)
      .def_rw("open", &ModelKeywords::open)
      .def_rw("shapes", &ModelKeywords::shapes)
      .def_rw("specialize", &ModelKeywords::specialize)
      .def_rw("constants", &ModelKeywords::constants)
      .def_rw("db", &ModelKeywords::db)
      .def_rw("schedule", &ModelKeywords::schedule)
      .def_rw("ops", &ModelKeywords::ops)
      .def_rw("exact_conv", &ModelKeywords::exact_conv)
      .def_rw("check_indices", &ModelKeywords::check_indices)
      .def_rw("max_trips", &ModelKeywords::max_trips);
  nb::class_<Model>(m, "Model")
      .def("__call__", &Model::call)
      .def("_addresses", &Model::addresses)
      .def("save", &Model::save, nb::arg("path"), nb::arg("name") = "")
      .def_prop_ro("_functions", &Model::functions)
      .def_prop_ro("name", [](const Model& x) { return x.runnable().name(); })
      .def_prop_ro("_inputs", [](const Model& x) { return described(x.runnable().inputs()); })
      .def_prop_ro("_outputs", [](const Model& x) { return described(x.runnable().outputs()); })
      .def_prop_ro("threads", [](const Model& x) { return x.runnable().threads(); });
  m.def("compile", &compile);
  m.def("load", [](const std::string& path, int threads) {
    return std::make_unique<Model>(load_artifact(path, threads), nullptr);
  });
}

}  // namespace nestor::python
