#include "nestor/nearest.h"

#include "catch.h"

using namespace nestor;

TEST_CASE("edit distance counts inserts, deletes, replacements and swaps") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("paralel", "parallel") == 1);
  CHECK(edit_distance("sqtr", "sqrt") == 1);
  CHECK(edit_distance("MatMul", "matmul") == 0);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest name is near, or there is none") {
  CHECK(nearest_name("vectorise", {"unroll", "vectorize"}) == "vectorize");
  CHECK(nearest_name("raw", {"row", "rows"}) == "row");
  CHECK(nearest_name("x", {"y", "z"}).empty());  // nothing in common is not near
  CHECK(nearest_name("softmax", {"conv", "relu"}).empty());
  CHECK(nearest_name("x", {}).empty());
  CHECK(near_names("unrol", {"unfold", "split", "unroll"}) == std::vector<std::string>{"unroll"});
  CHECK(did_you_mean("paralel", {"split", "parallel"}) == "did you mean `parallel`?");
  CHECK(did_you_mean("frobnicate", {"split", "parallel"}).empty());
}
