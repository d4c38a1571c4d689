#include "nestor/npz.h"

#include <cmath>

#include "catch.h"
#include "nestor/half.h"
#include "tests/graph/files.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string npy(const std::string& header, const std::string& data) {
  std::string h = header + std::string((64 - (header.size() + 11) % 64) % 64, ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(h.size() & 255) +
         static_cast<char>(h.size() >> 8) + h + data;
}
template <class T>
std::string bytes(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}
std::string refusal(const std::string& header, const std::string& data) {
  return error_of([&] { parse_npy(npy(header, data), "a.npy"); });
}
std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("Every element type but bf16 goes through .npy and back") {
  for (DType t : {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8,
                  DType::u8, DType::boolean}) {
    const Tensor x = Tensor::random(t, {2, 3}, 7);
    const Tensor y = parse_npy(format_npy(x), "x");
    REQUIRE(y.dtype() == t);
    REQUIRE(y.shape() == x.shape());
    for (int64_t i = 0; i < x.size(); ++i) CHECK(y.get(i) == x.get(i));
    CHECK(format_npy(x).size() % 64 == static_cast<size_t>(x.bytes()) % 64);
  }
  CHECK(parse_npy(format_npy(Tensor(DType::f32, {})), "x").shape().empty());
  CHECK(parse_npy(format_npy(Tensor(DType::f32, {0, 3})), "x").shape() == std::vector<int64_t>{0, 3});
  CHECK_THAT(error_of([] { format_npy(Tensor(DType::bf16, {1})); }), ContainsSubstring("bf16"));
}

TEST_CASE("Fortran order becomes row major") {
  const Tensor t = parse_npy(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                                 bytes<int32_t>({0, 10, 1, 11, 2, 12})),
                             "f");
  const std::vector<int64_t> want = {0, 1, 2, 10, 11, 12};
  for (int64_t i = 0; i < 6; ++i) CHECK(t.get_int(i) == want[static_cast<size_t>(i)]);
}

TEST_CASE("Malformed .npy files are refused") {
  const std::string one = bytes<float>({1});
  CHECK_THAT(refusal("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", one),
             ContainsSubstring("big-endian"));
  CHECK_THAT(refusal("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", one),
             ContainsSubstring("'<c8'"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", one),
             ContainsSubstring("4 bytes of data instead of 8"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", one + one),
             ContainsSubstring("8 bytes"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False}", one), ContainsSubstring("missing"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", one),
             ContainsSubstring("fortran_order"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", one),
             ContainsSubstring("non-negative"));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", one),
             ContainsSubstring("overflow"));
  CHECK_THAT(refusal("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", one),
             ContainsSubstring("structured"));
  CHECK_THAT(error_of([] { parse_npy("PK\x03\x04 something", "a.npy"); }), ContainsSubstring("magic"));
  CHECK_THAT(error_of([] { parse_npy(format_npy(Tensor(DType::f32, {3})).substr(0, 40), "a.npy"); }),
             ContainsSubstring("truncated"));
}

TEST_CASE("An archive keeps names and values, and is the same bytes each time") {
  const Folder folder;
  const Tensor a = Tensor::random(DType::f32, {3, 5}, 1), b = Tensor::random(DType::i64, {4}, 2);
  write_npz(folder / "x.npz", {{"b/weight:0", b}, {"a", a}});
  write_npz(folder / "y.npz", {{"b/weight:0", b}, {"a", a}});
  CHECK(slurp(folder / "x.npz") == slurp(folder / "y.npz"));
  const auto back = read_npz(folder / "x.npz");
  REQUIRE(back.size() == 2);
  CHECK(back.at("a").get(14) == a.get(14));
  CHECK(back.at("b/weight:0").get_int(3) == b.get_int(3));
}

TEST_CASE("Archives that can't be read or written leave one message and no half file") {
  const Folder folder;
  CHECK_THAT(error_of([&] { read_npz(folder / "none.npz"); }),
             ContainsSubstring("none.npz") && ContainsSubstring("doesn't exist"));
  folder.write("bad.npz", "this is no zip archive");
  CHECK_THAT(error_of([&] { read_npz(folder / "bad.npz"); }), ContainsSubstring("bad.npz"));

  write_npz(folder / "x.npz", {{"a", Tensor::random(DType::f32, {100}, 1)}});
  std::string damaged = slurp(folder / "x.npz");
  damaged[300] = static_cast<char>(damaged[300] ^ 1);
  folder.write("x.npz", damaged);
  CHECK_THAT(error_of([&] { read_npz(folder / "x.npz"); }), ContainsSubstring("x.npz[a]"));
  folder.write("x.npz", damaged.substr(0, 200));
  CHECK_FALSE(error_of([&] { read_npz(folder / "x.npz"); }).empty());

  CHECK_THAT(error_of([&] {
               write_npz(folder / "no/such/dir.npz", {{"a", Tensor(DType::f32, {1})}});
             }),
             ContainsSubstring("dir.npz"));
  CHECK_FALSE(error_of([&] {
                write_npz(folder / "z.npz", {{"a", Tensor(DType::f32, {1})}, {"a", Tensor(DType::f32, {1})}});
              }).empty());
  CHECK_FALSE(error_of([&] { write_npz(folder / "z.npz", {{"a", Tensor(DType::bf16, {1})}}); }).empty());
  CHECK_FALSE(std::filesystem::exists(folder / "z.npz"));
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / ".")) ++files;
  CHECK(files == 2);  // bad.npz and x.npz
}

TEST_CASE(
    "Archives that claim to unpack to much more than they are, and arrays of many dimensions, are refused") {
  const Folder folder;
  write_npz(folder / "x.npz", {{"a", Tensor::random(DType::f32, {100}, 1)}});
  std::string bomb = slurp(folder / "x.npz");
  const size_t directory = bomb.find("PK\x01\x02");
  REQUIRE(directory != std::string::npos);
  bomb.replace(directory + 24, 4, std::string("\x00\x00\x00\xf0", 4));  // the size of entry 0, unpacked
  folder.write("bomb.npz", bomb);
  CHECK_THAT(error_of([&] { read_npz(folder / "bomb.npz"); }),
             ContainsSubstring("bomb.npz") && ContainsSubstring("unpacks to more than 100 times"));
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += "1, ";
  CHECK_THAT(
      refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (" + ones + "), }", bytes<float>({1})),
      ContainsSubstring("65 dimensions; at most 64 are supported"));
  // No strides are computed where there is nothing to move.
  const std::string empty = "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 4611686018427387904, 4), }";
  CHECK(parse_npy(npy(empty, ""), "a.npy").size() == 0);
}
