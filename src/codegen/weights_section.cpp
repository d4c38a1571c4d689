#include "src/codegen/weights_section.h"

#include <fmt/format.h>
#include <llvm/BinaryFormat/ELF.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "nestor/error.h"

namespace nestor {

namespace {

constexpr const char* kSection = ".nestor.weights";
constexpr size_t kAligned = 64;

using Header = llvm::ELF::Elf64_Shdr;  // all targets are of 64 bits, little-endian

template <class T>
T as(const std::string& bytes) {
  NESTOR_CHECK(bytes.size() == sizeof(T)) << "an ELF file ends too early";
  T out;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

struct Section {
  size_t header_at = 0;
  Header header{};
};

// read: so many bytes of the file from somewhere. The first section of the name, which is the weights'.
template <class Read>
Section find_section(const Read& read) {
  const auto file = as<llvm::ELF::Elf64_Ehdr>(read(0, sizeof(llvm::ELF::Elf64_Ehdr)));
  const auto header = [&](size_t i) {
    return as<Header>(read(file.e_shoff + i * sizeof(Header), sizeof(Header)));
  };
  const Header names = header(file.e_shstrndx);
  const std::string text = read(names.sh_offset, names.sh_size);
  for (size_t i = 1; i < file.e_shnum; ++i)
    if (const Header h = header(i); text.c_str() + h.sh_name == std::string_view(kSection))
      return {file.e_shoff + i * sizeof(Header), h};
  throw InternalError(std::string("an ELF file has no section ") + kSection);
}

constexpr std::array<char, size_t{1} << 16> kZeros{};

}  // namespace

void SparseBytes::append(std::string_view bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const size_t taken = std::min(kBlock - last_.size(), bytes.size());
    last_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (last_.size() < kBlock) return;
    const bool zeros = std::memcmp(last_.data(), kZeros.data(), kBlock) == 0;
    blocks_.push_back(zeros ? std::string() : last_);
    last_.clear();
  }
}

void SparseBytes::add_to(Pieces& pieces, size_t begin, size_t end) const {
  NESTOR_CHECK(begin <= end && end <= size_) << "bytes " << begin << " to " << end << " of " << size_;
  while (begin < end) {
    const size_t block = begin / kBlock, from = begin % kBlock, count = std::min(kBlock - from, end - begin);
    const std::string& held = block < blocks_.size() ? blocks_[block] : last_;
    pieces.push_back(std::string_view(held.empty() ? kZeros.data() : held.data(), from + count).substr(from));
    begin += count;
  }
}

std::string SparseBytes::read(size_t begin, size_t count) const {
  Pieces pieces;
  add_to(pieces, begin, begin + count);
  std::string out;
  for (const std::string_view piece : pieces) out += piece;
  return out;
}

std::string weights_section(const std::string& symbol, size_t bytes) {
  return fmt::format(
      ".section {0},\"a\",%nobits\n.balign {1}\n{2}:\n.zero {3}\n"
      ".section {0},\"a\",%progbits,unique,1\n.byte 0\n",
      kSection, kAligned, symbol, bytes);
}

std::string with_room_for_weights(std::string object) {
  Section weights = find_section([&](size_t at, size_t count) { return object.substr(at, count); });
  object.resize((object.size() + kAligned - 1) / kAligned * kAligned);
  weights.header.sh_type = llvm::ELF::SHT_PROGBITS;
  weights.header.sh_offset = object.size();
  std::memcpy(object.data() + weights.header_at, &weights.header, sizeof weights.header);
  return object;
}

Pieces with_weights(const SparseBytes& linked, std::string_view weights) {
  Pieces out;
  if (weights.empty()) {
    linked.add_to(out, 0, linked.size());
    return out;
  }
  const Header header = find_section([&](size_t at, size_t count) { return linked.read(at, count); }).header;
  NESTOR_CHECK(header.sh_type == llvm::ELF::SHT_PROGBITS && header.sh_size > weights.size())
      << "the linked weights have " << header.sh_size << " bytes, of type " << header.sh_type;
  linked.add_to(out, 0, header.sh_offset);
  out.push_back(weights);
  linked.add_to(out, header.sh_offset + weights.size(), linked.size());
  return out;
}

}  // namespace nestor
