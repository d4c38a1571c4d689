// What happens when memory is used up: by default whoever asked for it throws std::bad_alloc, which code that
// was built without exceptions (LLVM) turns into an abort.
#pragma once

namespace nestor {

// `end` is called where operator new or LLVM gets no memory, and doesn't return.
void on_out_of_memory(void (*end)());

}  // namespace nestor
