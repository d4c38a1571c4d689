// The files of an artifact: code in one form or several, the C header, weights that lie beside it.

#include <algorithm>
#include <filesystem>
#include <functional>

#include "nestor/artifact.h"
#include "nestor/error.h"
#include "src/codegen/link.h"

namespace nestor {

namespace fs = std::filesystem;

namespace {

const char* ending(ArtifactForm form) {
  switch (form) {
    case ArtifactForm::llvm:
      return ".ll";
    case ArtifactForm::assembly:
      return ".s";
    case ArtifactForm::object:
      return ".o";
    case ArtifactForm::archive:
      return ".a";
    case ArtifactForm::shared:
      return ".so";
  }
  return "";
}

bool fit_inside(const ArtifactOptions& options, int64_t bytes) {
  if (bytes == 0) return true;
  if (options.weights == WeightsPlace::beside) return false;
  if (bytes <= options.most_inside) return true;
  if (options.weights == WeightsPlace::inside)
    throw UserError(Diagnostic{"weights of " + std::to_string(bytes) +
                                   " bytes don't fit inside the object, where " +
                                   std::to_string(options.most_inside) + " do",
                               {},
                               {},
                               "--weights beside"});
  return false;
}

}  // namespace

std::string artifact_path(const std::string& path, ArtifactForm form) {
  return is_written_through(path) ? path : fs::path(path).replace_extension(ending(form)).string();
}

namespace {

// What there is to write, of one kind of artifact.
struct Content {
  const Tensor& weights;
  const Target& host;  // of the object
  std::function<std::string(const std::string& name)> header;
  std::function<std::string(const std::string& name, bool inside, ArtifactForm form)> code;  // up to `object`
};

ArtifactFiles write_files(const Content& content, const ArtifactOptions& options, PendingFiles& pending) {
  const fs::path path(options.path);
  const bool to_device = is_written_through(options.path);
  const std::string name = artifact_name(options.name.empty() ? path.stem().string() : options.name);
  const int64_t bytes = content.weights.bytes();
  const bool inside = fit_inside(options, bytes);
  const std::string_view all_weights(static_cast<const char*>(content.weights.data()),
                                     static_cast<size_t>(bytes)),
      weights = inside ? all_weights : "";
  if (to_device && !inside)
    throw UserError("weights of " + std::to_string(bytes) + " bytes would lie beside " + options.path +
                    ", which isn't a file: give a path in a folder");

  for (const ArtifactForm form : options.forms)  // before the work, so that a bad path fails at once
    pending.add(artifact_path(options.path, form));
  ArtifactFiles files;
  files.weights_bytes = bytes;
  if (!inside) {
    files.weights = (path.parent_path() / (name + ".weights")).string();
    pending.write(files.weights, all_weights);
  }
  if (options.header && !to_device) {
    files.header = fs::path(path).replace_extension(".h").string();
    pending.write(files.header, content.header(name));
  }
  std::string object;  // made once for all of its forms
  for (const ArtifactForm form : options.forms) {
    files.object = artifact_path(options.path, form);
    if (form >= ArtifactForm::object && object.empty())
      object = content.code(name, inside, ArtifactForm::object);
    const auto write = [&](const Pieces& pieces) {
      pending.write(files.object, pieces);
      files.object_bytes = 0;
      for (const std::string_view piece : pieces) files.object_bytes += static_cast<int64_t>(piece.size());
    };
    if (form < ArtifactForm::object) {
      write({content.code(name, inside, form)});
    } else if (form == ArtifactForm::shared) {
      const SparseBytes linked =
          link_shared(object, fs::path(files.object).filename().string(), content.host);
      write(with_weights(linked, weights));
    } else {
      const std::string whole = weights.empty() ? object : with_room_for_weights(object);
      const bool archive = form == ArtifactForm::archive;
      write({archive ? archive_of(whole, name + ".o", weights.size()) : whole, weights,
             archive && weights.size() % 2 ? "\n" : ""});
    }
  }
  return files;
}

}  // namespace

ArtifactFiles write_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                             const ArtifactOptions& options, PendingFiles& pending) {
  const Content content{
      plan.weights, target,
      [&](const std::string& name) { return artifact_header(plan, name, target, options.notes); },
      [&](const std::string& name, bool inside, ArtifactForm form) {
        return emit_artifact(plan, lowered, target, name, inside, form);
      }};
  return write_files(content, options, pending);
}

ArtifactFiles write_artifact(const CudaArtifact& artifact, const ArtifactOptions& options,
                             PendingFiles& pending) {
  const Target host = cuda_host_target();
  const Content content{
      artifact.plan.plan.weights, host,
      [&](const std::string& name) { return artifact_header(artifact, name, options.notes); },
      [&](const std::string& name, bool inside, ArtifactForm form) {
        return emit_artifact(artifact, name, inside, form);
      }};
  return write_files(content, options, pending);
}

ArtifactFiles write_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                             const ArtifactOptions& options) {
  PendingFiles pending;
  const ArtifactFiles files = write_artifact(plan, lowered, target, options, pending);
  pending.commit();
  return files;
}

}  // namespace nestor
