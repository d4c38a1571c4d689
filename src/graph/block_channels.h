#pragma once

#include <optional>
#include <vector>

#include "nestor/ir.h"

namespace nestor {

// f with the channels, dimension 1, of some tensors in blocks of `lanes`: a parameter (n, c, h, w) for which
// `blocked` says so (by its index; `in` and `out` only) becomes (n, c/lanes, h, w, lanes), and what is walked
// together with it follows: iterators c become cb and cl, temporaries get a last dimension of lanes,
// constants (c, ...) become (c/lanes, lanes, ...), which are the same bytes. Where c isn't a multiple of
// lanes, c/lanes is rounded up: constants then have zeros behind their bytes (constant_argument), other
// parameters defined lanes that no reduction reads. f is as FuncBuilder makes it; nullopt where it isn't, or
// where such lanes can't be kept to themselves (a concatenation, a row-major tensor walked by the same
// iterator). A function that only copies from or to row-major channels is cut in pieces: whole blocks, the
// channels of the last one, zeros behind them.
std::optional<PrimFunc> block_channels(const PrimFunc& f, const std::vector<bool>& blocked, int64_t lanes);

}  // namespace nestor
