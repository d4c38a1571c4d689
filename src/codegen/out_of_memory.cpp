#include "nestor/out_of_memory.h"

#include <llvm/Support/ErrorHandling.h>

#include <new>

namespace nestor {

namespace {

void (*g_end)() = nullptr;

}  // namespace

void on_out_of_memory(void (*end)()) {
  g_end = end;
  std::set_new_handler(end);
  llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { g_end(); });
}

}  // namespace nestor
