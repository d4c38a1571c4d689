// Memory for new arrays.
#pragma once

#include <cstddef>

namespace nestor::python {

// At a multiple of 64 bytes, not filled; throws std::bad_alloc. Large memory goes back to the system when it
// is given back, but for the last that was not too large: the next call's output is as large as this one's.
void* take_memory(size_t bytes);
void give_memory(void* memory) noexcept;

}  // namespace nestor::python
