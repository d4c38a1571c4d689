// Weights in an ELF file. They aren't constants of LLVM, because LLVM, its assembler and LLD would hold six
// copies of them. Instead the code refers to a section that has addresses but no bytes (NOBITS), like .bss.
// The bytes are added when the file is written, directly from the plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nestor {

// What a file holds, one after another.
using Pieces = std::vector<std::string_view>;

// Bytes as they come, in blocks, of which those of zeros aren't kept.
class SparseBytes {
 public:
  void append(std::string_view bytes);
  size_t size() const { return size_; }
  std::string read(size_t begin, size_t count) const;
  void add_to(Pieces& pieces, size_t begin, size_t end) const;

 private:
  static constexpr size_t kBlock = size_t{1} << 16;
  std::vector<std::string> blocks_;  // empty: zeros
  std::string last_;                 // not full yet
  size_t size_ = 0;
};

// Assembly of the section, which begins with `symbol`. A second one of that name, of one byte, makes LLD
// write the linked section with its bytes, all of them 0.
std::string weights_section(const std::string& symbol, size_t bytes);

// The object with its weights as bytes, which have to follow it.
std::string with_room_for_weights(std::string object);
// A linked file with them in their place.
Pieces with_weights(const SparseBytes& linked, std::string_view weights);

}  // namespace nestor
