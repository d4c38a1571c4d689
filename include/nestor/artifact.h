// Artifacts: a shared object and a C header that run a compiled model with no library of ours. Loaded back by
// load_artifact (runtime.h), or used from C as examples/c shows.
#pragma once

#include <string>
#include <vector>

#include "nestor/ir.h"
#include "nestor/runtime.h"
#include "nestor/target.h"

namespace nestor {

enum class WeightsPlace : uint8_t {
  automatic,  // inside up to 1 GiB: beyond that, code can't reach all of them by a 32-bit offset
  inside,     // read-only data of the object
  beside      // a file NAME.weights, mapped when an instance is made
};

struct ArtifactOptions {
  std::string path;  // "out/m.so"; header and weights are written beside it
  std::string name;  // prefix of the C functions; empty: from the path's file name
  WeightsPlace weights = WeightsPlace::automatic;
};

struct ArtifactFiles {
  std::string object, header, weights;  // weights is empty where they are inside
  int64_t object_bytes = 0, weights_bytes = 0;
};

// Writes all files beside their final names and then renames them: either all appear or none. Throws
// UserError where a path can't be written. lowered: one function per plan.kernels, in order.
ArtifactFiles write_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                             const ArtifactOptions& options);

// A C identifier from any text: "my-model.v2" becomes my_model_v2.
std::string c_identifier(const std::string& text);
std::string artifact_header(const Plan& plan, const std::string& name, const Target& target);
std::string artifact_description(const Plan& plan, const std::string& name, const Target& target);  // JSON

// The object before linking, as text or bytes: what `compile --emit llvm|asm|obj` writes.
enum class ArtifactForm : uint8_t { llvm, assembly, object };
std::string emit_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                          const std::string& name, bool weights_inside, ArtifactForm form);

}  // namespace nestor
