// What artifacts for CPUs and for CUDA share: a module to which functions and data are added. Everything but
// the C interface is internal, so that two artifacts in one process don't see each other's symbols, and has a
// dot in its name, which no name of a model has.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <string>
#include <vector>

#include "nestor/artifact.h"

namespace nestor {

class ArtifactWriter {
 public:
  // written_out: weights are text as the rest is.
  ArtifactWriter(llvm::Module& module, std::string name, const Tensor& weights, bool written_out);

 protected:
  llvm::Function* define(const std::string& name, llvm::Type* result, const std::vector<llvm::Type*>& args);
  llvm::Function* runtime_function(const std::string& name);
  llvm::GlobalVariable* data(const std::string& name, llvm::Constant* bytes);
  llvm::Constant* text(const std::string& s, const std::string& name);
  llvm::Constant* words(const std::vector<int64_t>& values, const std::string& name);
  // nestor_model_v2, for load_artifact.
  void add_describe(const std::string& description);
  // NAME_destroy by the runtime's.
  void add_destroy(const std::string& by);
  // struct nestor_weights of runtime/artifact_rt.h.
  llvm::Constant* weights_record(bool inside);

  llvm::Module& module_;
  std::string name_;
  llvm::IRBuilder<> b_;
  llvm::Type *ptr_ = nullptr, *i32_ = nullptr, *i64_ = nullptr;

 private:
  llvm::Constant* weights_bytes();
  const Tensor& weights_;
  bool written_out_;
};

// Of runtime/NAME.c, as they are needed.
void link_runtime(llvm::Module& module, llvm::TargetMachine& machine, const std::vector<const char*>& names);
// What is there before the interface: kernels and runtime. A kernel's name has a dot already.
void hide_all(llvm::Module& module);
// Without what nobody calls, as text or as an object.
std::string finish_artifact(llvm::Module& module, llvm::TargetMachine& machine, ArtifactForm form);

}  // namespace nestor
