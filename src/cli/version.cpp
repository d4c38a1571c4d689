#include "src/cli/version.h"

namespace nestor::cli {

std::string commit() {
  return NESTOR_COMMIT;
}

std::string version() {
  const std::string from = commit().empty() ? "" : "commit " + commit() + ", ";
  return NESTOR_VERSION " (" + from + "LLVM " NESTOR_LLVM_VERSION ")";
}

}  // namespace nestor::cli
