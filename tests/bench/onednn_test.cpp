// oneDNN does the same work as our benchmark, where its defaults decide what it does.
#include "bench/peers/peer.h"
#include "catch.h"

using namespace nestor;
using namespace nestor::bench;

TEST_CASE("a transposition's peer turns around all dimensions where no perm is given") {
  const Problem p = make_problem("Transpose(f32[3,5,7])");
  const auto peer = onednn_peer(p);
  REQUIRE(peer.has_value());
  peer->run();
  const Tensor in = p.input(0), out = peer->result();
  REQUIRE(out.shape() == std::vector<int64_t>{7, 5, 3});
  for (size_t a = 0; a < 3; ++a)
    for (size_t b = 0; b < 5; ++b)
      for (size_t c = 0; c < 7; ++c)
        CHECK(out.as<float>()[(c * 5 + b) * 3 + a] == in.as<float>()[(a * 5 + b) * 7 + c]);
}
