// NumPy's files: an archive where it begins like one, else one array.
#include "nestor/error.h"
#include "nestor/npz.h"
#include "tests/fuzz/inputs/target.h"

namespace nestor::fuzz {

void read_input(std::string_view input) {
  if (input.substr(0, 2) == "PK") {
    read_npz(as_file("a.npz", input));
    return;
  }
  const Tensor t = parse_npy(input, "a.npy");
  if (t.dtype() == DType::bf16) return;
  const Tensor again = parse_npy(format_npy(t), "again.npy");
  NESTOR_CHECK(again.dtype() == t.dtype() && again.shape() == t.shape()) << "an array that isn't read back";
}

}  // namespace nestor::fuzz
