// What the command line says that a tensor holds.
#include "nestor/tensor_source.h"

#include "catch.h"
#include "nestor/npz.h"
#include "tests/graph/files.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor tensor(const std::string& text, DType dtype, std::vector<int64_t> shape) {
  return TensorSource("--const w", text, "w").of({dtype, std::move(shape)});
}
std::string error(const std::string& text, DType dtype, std::vector<int64_t> shape) {
  return error_of([&] { tensor(text, dtype, std::move(shape)); });
}

}  // namespace

TEST_CASE("A tensor is given by its elements") {
  CHECK(tensor("16000", DType::i64, {}).get_int(0) == 16000);
  CHECK(tensor("9007199254740993", DType::i64, {1}).get_int(0) == 9007199254740993);
  CHECK(tensor("[1, 2,-3]", DType::i8, {3}).get_int(2) == -3);
  CHECK(tensor("0.5,1e3", DType::f32, {2, 1}).get(1) == 1000);
  CHECK(tensor("true,false", DType::boolean, {2}).get_int(0) == 1);
  CHECK(tensor("[]", DType::f32, {0}).size() == 0);
  CHECK(tensor("zeros", DType::f32, {2, 3}).size() == 6);
  CHECK(tensor("random:3", DType::f32, {4}).get(1) == Tensor::random(DType::f32, {4}, 3).get(1));
}

TEST_CASE("Elements that don't fit are refused") {
  CHECK_THAT(error("1,2", DType::f32, {3}), ContainsSubstring("2 elements are given, f32[3] has 3"));
  CHECK_THAT(error("300", DType::u8, {}), ContainsSubstring("300 doesn't fit u8"));
  CHECK_THAT(error("1.5", DType::i64, {}), ContainsSubstring("1.5 doesn't fit i64"));
  CHECK_THAT(error("1,x", DType::f32, {2}), ContainsSubstring("\"x\" isn't a number"));
  CHECK_THAT(error("", DType::f32, {}), ContainsSubstring("nothing is given"));
  CHECK_THAT(error("random:x", DType::f32, {}), ContainsSubstring("\"x\" isn't an integer"));
}

TEST_CASE("A tensor is given by a file, which has its own type") {
  const Folder folder;
  const Tensor w = Tensor::random(DType::f32, {2, 3}, 1);
  folder.write("w.npy", format_npy(w));
  write_npz(folder / "all.npz", {{"w", w}, {"v", Tensor(DType::i64, {5})}});
  CHECK(tensor("@" + folder / "w.npy", DType::f32, {2, 3}).get(4) == w.get(4));
  CHECK(tensor("@" + folder / "all.npz", DType::f32, {2, 3}).get(4) == w.get(4));
  const TensorSource v("--const w", "@" + folder / "all.npz" + ":v", "w");
  CHECK(v.file().shape() == std::vector<int64_t>{5});
  CHECK_THAT(error_of([&] {
               v.exactly({DType::i64, {6}});
             }),
             ContainsSubstring("--const w is i64[5], it must be i64[6]"));
  CHECK_THAT(error("@" + folder / "all.npz" + ":q", DType::f32, {}), ContainsSubstring("no array \"q\""));
}
