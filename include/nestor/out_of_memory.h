// What happens when memory runs out. By default the allocation throws std::bad_alloc, but code built without
// exceptions (LLVM) aborts then.
#pragma once

namespace nestor {

// `end` is called where operator new or LLVM gets no memory, and doesn't return.
void on_out_of_memory(void (*end)());

}  // namespace nestor
