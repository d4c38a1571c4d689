// Einsums of two operands that are products of matrices become them; others stay; all come out as before.
#include <fmt/format.h>

#include "catch.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// How many products of matrices the equation becomes, of inputs of these shapes.
int products(const std::string& equation, const std::vector<std::string>& shapes,
             const std::string& dtype = "f32") {
  std::string inputs, names;
  for (size_t k = 0; k < shapes.size(); ++k) {
    inputs += fmt::format(R"({}{{"name": "x{}", "dtype": "{}", "shape": [{}]}})", k ? ", " : "", k, dtype,
                          shapes[k]);
    names += fmt::format(R"({}"x{}")", k ? ", " : "", k);
  }
  Graph g = graph_of(fmt::format(
      R"({{"opset": 17, "inputs": [{}], "outputs": ["y"], "nodes": [{{"op": "Einsum", "inputs": [{}],
          "outputs": ["y"], "attrs": {{"equation": "{}"}}}}]}})",
      inputs, names, equation));
  INFO(equation);
  check_unchanged(g, [](Graph& changed) { multiply_einsums(changed, evaluate_by_interpreter); });
  return count(g, "MatMul");
}

bool multiplied(const std::string& equation, const std::vector<std::string>& shapes,
                const std::string& dtype = "f32") {
  return products(equation, shapes, dtype) == 1;
}

}  // namespace

TEST_CASE("Einsums are products of matrices where each letter has one place in them") {
  CHECK(multiplied("ij,jk->ik", {"5,6", "6,7"}));
  CHECK(multiplied("ij,jk", {"5,6", "6,7"}));
  CHECK(multiplied("ij,kj->ki", {"5,6", "7,6"}));
  CHECK(multiplied("bhid,bhjd->bhij", {"2,3,5,8", "2,3,7,8"}));
  CHECK(multiplied("bqhd,bkhd->bhqk", {"2,9,4,8", "2,5,4,8"}));
  CHECK(multiplied("bhqk , bkhd -> bqhd", {"2,4,9,5", "2,5,4,8"}));
  CHECK(multiplied("abc,cbd->da", {"2,3,4", "4,3,5"}));            // a sum over two
  CHECK(multiplied("abij,jkcd->cabkid", {"2,3,4,5", "5,6,2,3"}));  // rows and columns of several letters
  CHECK(multiplied("i,i->", {"6", "6"}));
  CHECK(multiplied("i,ij->j", {"6", "6,3"}));
  CHECK(multiplied("...ij,...jk->...ik", {"2,3,4,5", "2,3,5,6"}));
  CHECK(multiplied("i...,j...->ij", {"4,2,3", "5,2,3"}));
}

TEST_CASE("Einsums that are no product of matrices keep their own nest") {
  CHECK_FALSE(multiplied("ii->i", {"4,4"}));
  CHECK_FALSE(multiplied("ij->ji", {"4,5"}));
  CHECK_FALSE(multiplied("ij,ij->ij", {"4,5", "4,5"}));
  CHECK_FALSE(multiplied("i,j->ij", {"4", "5"}));
  CHECK_FALSE(multiplied("iij,jk->ik", {"4,4,5", "5,3"}));
  CHECK_FALSE(multiplied("...ij,...jk->...ik", {"2,1,4,5", "3,5,6"}));
  CHECK_FALSE(multiplied("abc,cd->abd", {"3,0,4", "4,5"}));
  CHECK_FALSE(multiplied("abc,abd->cd", {"3,0,4", "3,0,5"}));
  CHECK_FALSE(multiplied("j,ji->i", {"0", "0,8"}));
  CHECK_FALSE(multiplied("ij,jk->ik", {"5,6", "6,7"}, "i32"));
}

TEST_CASE(
    "Einsums of several operands are products of two at a time, letters of one alone summed up before") {
  CHECK(products("ijl,jk->ik", {"4,5,2", "5,3"}) == 1);
  CHECK(products("ij,jkl->ik", {"4,5", "5,3,7"}) == 1);
  CHECK(products("ij,jk,kl->il", {"4,5", "5,6", "6,7"}) == 2);
  CHECK(products("ij,kl,jk->il", {"4,5", "6,7", "5,6"}) == 2);  // not the first two
  CHECK(products("...ij,...jk,kl->...il", {"2,4,5", "2,5,6", "6,7"}) == 2);
  CHECK(products("ab,bc,cd,de->ae", {"2,3", "3,4", "4,5", "5,6"}) == 3);
  CHECK(products("a,ab,abc->c", {"2", "2,3", "2,3,4"}) == 1);
  CHECK(products("ab,ac,ad->abcd", {"2,3", "2,4", "2,5"}) == 0);
  CHECK(products("bq,bk,bqk->b", {"2,3", "2,4", "2,3,4"}) == 2);
  CHECK(products("ij,kl->", {"2,3", "4,5"}) == 0);
}
