// Artifacts: a shared object and a C header that run a compiled model with no library of ours. Loaded back by
// load_artifact (runtime.h), or used from C as examples/c shows.
#pragma once

#include <string>
#include <vector>

#include "nestor/cuda_executor.h"
#include "nestor/files.h"
#include "nestor/ir.h"
#include "nestor/runtime.h"
#include "nestor/target.h"

namespace nestor {

enum class WeightsPlace : uint8_t {
  automatic,  // inside as long as they fit there: code reaches 2 GiB by a 32-bit offset
  inside,     // read-only data of the object; UserError where they don't fit
  beside      // a file NAME.weights, mapped when an instance is made, which checks its hash
};

// Text or bytes of an artifact's code. `object` is what `archive` holds and `shared` is linked from.
enum class ArtifactForm : uint8_t { llvm, assembly, object, archive, shared };

struct ArtifactOptions {
  std::string path;  // "out/m.so"; all other files are written beside it, as m.h
  std::string name;  // prefix of the C functions; empty: from the path's file name
  WeightsPlace weights = WeightsPlace::automatic;
  std::vector<ArtifactForm> forms = {ArtifactForm::shared};
  bool header = true;
  int64_t most_inside = int64_t{1} << 30;  // bytes of weights
  std::vector<std::string> notes = {};     // sentences for the header, such as where weights come from
};

struct ArtifactFiles {
  std::string object, header, weights;  // `object`: the last of the forms; empty: not written
  int64_t object_bytes = 0, weights_bytes = 0;
};

// Where one form of an artifact goes: `path` with the form's ending, or a device itself.
std::string artifact_path(const std::string& path, ArtifactForm form);

// Adds all files to `pending`, for the caller to commit. Throws UserError where one can't be written.
// lowered: one function per plan.kernels, in order.
ArtifactFiles write_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                             const ArtifactOptions& options, PendingFiles& pending);
// The same, committed.
ArtifactFiles write_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                             const ArtifactOptions& options);

// For CUDA: the object holds the kernels' images for several kinds of devices and makes the calls on one of
// them, by NVIDIA's driver, which it loads when an instance is made. The C interface is the same; pointers
// may be to memory of the device.
struct CudaArtifact {
  CudaPlan plan;
  std::vector<CudaImage> images;
  int cuda_version = 0;  // of the compiler that made them
  std::string targets;   // "cuda:sm_80,sm_90"
};
ArtifactFiles write_artifact(const CudaArtifact& artifact, const ArtifactOptions& options,
                             PendingFiles& pending);
std::string artifact_header(const CudaArtifact& artifact, const std::string& name,
                            const std::vector<std::string>& notes = {});
std::string artifact_description(const CudaArtifact& artifact, const std::string& name);
std::string emit_artifact(const CudaArtifact& artifact, const std::string& name, bool weights_inside,
                          ArtifactForm form);
// What the artifact says that it is code for: "cuda:sm_80,sm_90", or a CPU. UserError where it is none.
std::string artifact_target(const std::string& path);
// The host's side of it runs on any machine of this machine's architecture.
Target cuda_host_target();

// Names in C. Each function gives back what it made.
// A C identifier from any text, no word or macro: "my-model.v2" becomes my_model_v2.
std::string c_identifier(const std::string& text);
// The same for the name of an artifact, whose functions (NAME_run ...) aren't the C library's either.
std::string artifact_name(const std::string& text);
// Members of the structs of an artifact called `name`: one identifier per tensor, each once.
std::vector<std::string> member_names(const std::vector<PlanTensor>& tensors, const std::string& name);

std::string artifact_header(const Plan& plan, const std::string& name, const Target& target,
                            const std::vector<std::string>& notes = {});
std::string artifact_description(const Plan& plan, const std::string& name, const Target& target);  // JSON

// The code as it is before linking: any form up to `object`, whose weights have a place but no bytes
// (src/codegen/weights_section.h).
std::string emit_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                          const std::string& name, bool weights_inside, ArtifactForm form);

}  // namespace nestor
