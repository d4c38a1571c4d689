#include "src/report/shared.h"

#include "catch.h"

using namespace nestor::report;

TEST_CASE("a table holds each row once, whatever bytes are in it") {
  Table table;
  CHECK(table.add("x") == 0);
  CHECK(table.add({1, 2}) == 1);
  CHECK(table.add("x") == 0);
  CHECK(table.add("a\xff") == 2);  // no UTF-8: an ONNX file may name its values so
  CHECK(table.add("a\xff") == 2);
  CHECK(table.rows().size() == 3);
}
