// The code of a CUDA artifact: tables of the kernel launches, the kernels' images, and the functions of
// runtime/cuda_rt.c under the model's name.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "nestor/codegen.h"
#include "nestor/cuda.h"
#include "nestor/error.h"
#include "runtime/call_words.h"
#include "runtime/cuda_rt.h"
#include "src/codegen/artifact_writer.h"
#include "src/codegen/dynamic_library.h"
#include "src/codegen/llvm_module.h"

namespace nestor {

namespace {

class CudaArtifactModule : public ArtifactWriter {
 public:
  CudaArtifactModule(llvm::Module& module, const CudaArtifact& artifact, const std::string& name,
                     bool written_out)
      : ArtifactWriter(module, name, artifact.plan.plan.weights, written_out), artifact_(artifact) {}

  void add(bool weights_inside) {
    add_describe(artifact_description(artifact_, name_));
    llvm::Function* create = define(name_ + "_create", ptr_, {ptr_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_cuda_create"),
                               {create->getArg(0), model(), weights_record(weights_inside), null()}));
    llvm::Function* run = define(name_ + "_run", i32_, {ptr_, ptr_, ptr_});
    b_.CreateRet(
        b_.CreateCall(runtime_function("nestor_cuda_run"), {run->getArg(0), run->getArg(1), run->getArg(2)}));
    llvm::Function* why = define(name_ + "_why", ptr_, {ptr_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_cuda_why"), {why->getArg(0)}));
    add_destroy("nestor_cuda_destroy");
  }

 private:
  llvm::Constant* null() { return llvm::ConstantPointerNull::get(b_.getPtrTy()); }

  llvm::Constant* array(const std::vector<llvm::Constant*>& entries, const std::string& name) {
    if (entries.empty()) return null();
    return data(
        name, llvm::ConstantArray::get(llvm::ArrayType::get(entries[0]->getType(), entries.size()), entries));
  }

  llvm::Constant* three(const std::array<int64_t, 3>& d) {
    const std::array<uint32_t, 3> sizes = {static_cast<uint32_t>(d[0]), static_cast<uint32_t>(d[1]),
                                           static_cast<uint32_t>(d[2])};
    return llvm::ConstantDataArray::get(module_.getContext(), sizes);
  }

  // struct nestor_cuda_model of runtime/cuda_rt.h.
  llvm::Constant* model() {
    const Plan& plan = artifact_.plan.plan;
    std::vector<llvm::Constant*> kernels, images;
    for (size_t k = 0; k < plan.kernels.size(); ++k)
      kernels.push_back(llvm::ConstantStruct::getAnon(
          {text(plan.kernels[k], "kernel" + std::to_string(k)), three(artifact_.plan.launches[k].grid),
           three(artifact_.plan.launches[k].block),
           b_.getInt32(static_cast<uint32_t>(artifact_.plan.launches[k].dynamic_shared))}));
    for (const CudaImage& i : artifact_.images) {
      auto* bytes = llvm::cast<llvm::GlobalVariable>(text(i.bytes, "image" + std::to_string(images.size())));
      bytes->setAlignment(llvm::Align(kAlignment));
      images.push_back(llvm::ConstantStruct::getAnon(
          {bytes, b_.getInt32(static_cast<uint32_t>(i.sm)), b_.getInt32(static_cast<uint32_t>(i.form))}));
    }
    const std::vector<int64_t> inputs = bytes_of_all(plan.inputs), outputs = bytes_of_all(plan.outputs);
    const auto number = [&](auto n) { return b_.getInt64(static_cast<uint64_t>(n)); };
    return data("model",
                llvm::ConstantStruct::getAnon(
                    {array(kernels, "kernels"), array(images, "images"), words(call_words(plan), "words"),
                     words(inputs, "input_bytes"), words(outputs, "output_bytes"), number(kernels.size()),
                     number(images.size()), number(plan.calls.size()), number(inputs.size()),
                     number(outputs.size()), number(count_checks(plan)), number(most_args(plan)),
                     number(plan.arena_bytes), number(artifact_.cuda_version)}));
  }

  const CudaArtifact& artifact_;
};

}  // namespace

Target cuda_host_target() {
  const Target host = host_target();
  Target t = parse_target(host.arch() == "x86_64" ? "x86-64-v2" : "aarch64");
  t.triple = host.triple;
  return t;
}

std::string artifact_target(const std::string& path) {
  const DynamicLibrary library({std::filesystem::absolute(path).string()});
  auto* describe = library.function<const char*()>("nestor_model_v2");
  if (!describe) throw UserError(path + " is not an artifact of this version of nestor");
  return nlohmann::json::parse(describe()).at("target").get<std::string>();
}

std::string emit_artifact(const CudaArtifact& artifact, const std::string& name, bool weights_inside,
                          ArtifactForm form) {
  const Target host = cuda_host_target();
  const auto machine = make_target_machine(host);
  llvm::LLVMContext context;
  const auto module = build_module({}, host, *machine, context);
  link_runtime(*module, *machine, {"weights_rt", "cuda_driver_rt", "cuda_rt"});
  hide_all(*module);
  CudaArtifactModule(*module, artifact, name, form < ArtifactForm::object).add(weights_inside);
  return finish_artifact(*module, *machine, form);
}

}  // namespace nestor
