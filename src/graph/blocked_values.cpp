// A value is kept in blocks of channels where one of the functions that make or read it works by channels,
// and none of them has to see it row major: the model's inputs and outputs, and values with views of other
// shapes. No conversion stands between: a function with one row-major and one blocked parameter is its own
// conversion. (Winograd's convolutions work on blocks only, strided ones gain by them, sums don't convert
// well: use_winograd, reorder_images and separate_layouts put copies in between.) Where an image is a single
// pixel, or the channels would fill the last block with too little, the row-major order is as good. Of other
// types than f32 every block must be full: several steps of a reduction go at once there, and those that
// aren't all channels would go one by one.
#include "src/graph/blocked_values.h"

#include <algorithm>
#include <map>

#include "nestor/ops.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/graph/block_channels.h"
#include "src/graph/edit.h"
#include "src/graph/lanes.h"
#include "src/graph/nests.h"
#include "src/graph/passes.h"
#include "src/ops/products.h"
#include "src/ops/transposed.h"

namespace nestor {

namespace {

bool has_channels(const TensorType& t) {
  if (t.dtype == DType::boolean || bytes_of(t.dtype) > 4 || t.shape.size() < 3 || !t.shape[1].known() ||
      t.shape[1] == 0)
    return false;
  int64_t pixels = 1;
  for (size_t d = 2; d < t.shape.size(); ++d) pixels *= t.shape[d].typical();
  return pixels > 1;
}

// What functions by channels do, and how much of the last blocks' lanes must be channels for the rest to be
// worth computing.
struct Kind {
  // Several channels are computed from the same elements, as in a matrix product: lanes could as well lie
  // along the image. Else channels stream through memory lane by lane, which row major is gathered and
  // shifted about.
  bool product = false;
  bool strided = false;  // along the image, so that lanes there would be gathered
  // Results along the image are, of transposed convolutions. (Zen 4, 5x5/4 of 8 to 21 channels at 89x8 263 to
  // 86 us, of 11 to 22 at 16x21 133 to 55; by strides of 2, 3x3 of 64 to 20 at 32x32, it would be 224 to
  // 320.)
  bool scattered = false;
  // Or one apart, in lanes so few that they are stored one by one unless two rows are alike. (Zen 3, 3x3/2 of
  // 8 to 17 channels at 78x16 126 to 58 us, 2x2/2 of 8 to 10 at 50x9 10 to 7.6.)
  bool interleaved = false;
  // Two groups of channels share a block of lanes, and a stride leaves little that neighbouring windows
  // share: for each product and a half, an element of either group is broadcast and both are blended, which
  // takes as long again. Along the image lanes are all of one group. Half vectors blend nothing (Zen 4,
  // 3x3/2 of 48 groups at 48 926 to 592 us), and row major they are a group's channels too: none is of the
  // half of a block that would be empty. (5x5/2 of 3 groups of 8 at 81 195 to 144 us, 3x3/2 of 5 at 55 36 to
  // 31, of 7 at 119 280 to 252.)
  bool blends = false;
  // Groups share a block, whatever the stride. Where its lanes are channels to a lesser part than those along
  // the image are pixels, these are as few as they can be. (Zen 4: 3x3 of 3 groups of 8 at 110 566 to 407 us,
  // by 2 132 to 119, of 2 of 4 at 83 80 to 41; AVX2, of 3 of 4 at 56 48 to 29.)
  bool shares = false;
  // A sum over channels, be it over those of a group: an operand in blocks is of use to results in blocks
  // only.
  bool sums_channels = false;
  // Of bytes or floats of 16 bits: an instruction takes several steps of the reduction at once, which lie
  // side by side only in whole blocks of channels.
  bool narrow = false, whole_blocks = false;
  bool by_lanes() const { return !narrow || product || whole_blocks; }
  bool padded = false;  // the image is, with zeros
  // What Winograd's transform saves is more than some empty lanes cost.
  bool transformed = false;
  double least() const {
    if (!product || strided || scattered || transformed) return 0.5;
    return interleaved ? 0.6 : 0.75;
  }
};

// How far apart neighbours along the image lie that the block writes. Of two elements, two rows of results
// may be put together in registers.
int64_t apart(const Block& b) {
  NestUses uses;
  uses.block(b);
  int64_t most = 0;
  for (const NestAccess& a : uses.accesses) {
    if (!a.write || a.indices->size() <= 2 || b.iters.empty()) continue;
    const auto last = as_affine(a.indices->back());
    if (last) most = std::max(most, coefficient(*last, b.iters.back().var));
  }
  return most;
}

Kind kind_of(const PrimFunc& f, int64_t lanes) {
  Kind kind;
  for (const Nest& nest : read_nests(f).value_or(std::vector<Nest>())) {
    const std::vector<IterVar>& iters = nest.block.iters;
    const int64_t distance = apart(nest.block);
    kind.scattered |= distance > 2;
    kind.interleaved |= distance == 2 && lanes <= 8;
    const auto* store = nest.block.body.as<Store>();
    kind.padded |= store && store->value.as<Select>();
    if (std::none_of(iters.begin(), iters.end(), [](const IterVar& i) { return i.kind == IterKind::reduce; }))
      continue;
    NestUses uses;
    uses.block(nest.block);
    const VarRef *channel = nullptr, *pixel = nullptr;
    bool narrow = true;
    for (const NestAccess& a : uses.accesses)
      if (a.write && a.indices->size() > 2) {
        channel = (*a.indices)[1].as<VarRef>();
        pixel = a.indices->back().as<VarRef>();
      }
    for (const NestAccess& a : uses.accesses) {
      if (a.write || a.indices->empty()) continue;
      const bool moves = channel && std::any_of(a.indices->begin(), a.indices->end(),
                                                [&](const Expr& e) { return uses_var(e, channel->var); });
      kind.product |= !moves;
      narrow &= bytes_of(a.buffer->type.dtype) < 4;
      for (const IterVar& i : iters)
        kind.sums_channels |= i.kind == IterKind::reduce && as_int(i.extent).value_or(2) > 1 &&
                              a.indices->size() > 2 && uses_var((*a.indices)[1], i.var);
      for (const IterVar& i : iters)
        kind.whole_blocks |= i.kind == IterKind::reduce && as_int(i.extent).value_or(1) % lanes == 0 &&
                             a.indices->size() > 2 && uses_var((*a.indices)[1], i.var);
      const auto last = as_affine(a.indices->back());
      const bool strided = pixel && last && coefficient(*last, pixel->var) > 1;
      kind.strided |= !moves && strided;
      for (const Expr& e : *a.indices) {
        kind.blends |= strided && channel && divides(e, channel->var, lanes / 2);
        for (int64_t group = lanes / 2; group > 1; group /= 2)
          kind.shares |= channel && divides(e, channel->var, group);
      }
    }
    kind.narrow |= narrow;
  }
  return kind;
}

// Groups of a transposed convolution whose filters fill a half or a quarter of a block: lanes of several
// groups read as many channels, and lanes along the image lie a block apart. Row major they are next to each
// other. (Cascade Lake: 3x3/3 of 32 groups of 16 to 8 channels at 32x32 20 to 2.5 ms, 3x3/2 of 16 at 8x32 2.5
// to 0.3, 5x5/3 of 32 groups of 16 to 4 at 32x40 20 to 6.9. Zen 4: 3x3/2 of 8 groups of 64 to 8 at 48x33 2.0
// to 1.5, 4x4/2 of 3 groups of 8 to 8 at 30x40 0.28 to 0.09; shorter rows as fast either way.)
bool scatters_groups(const Graph& g, const KernelCall& call, int64_t lanes) {
  return std::any_of(call.nodes.begin(), call.nodes.end(), [&](int i) {
    const Node& n = g.nodes[static_cast<size_t>(i)];
    if (!ops::is_conv_transpose(n)) return false;
    const ops::TransposedShape s = ops::transposed_shape(OpContext(g, n));
    const int64_t filters = s.group > 1 ? static_cast<int64_t>(s.filters / s.group) : lanes;
    return s.strided() && (2 * filters == lanes || 4 * filters == lanes) &&
           s.output.back().typical() >= lanes;
  });
}

// Groups of so few filters that eight and more share a block of results, each of as many elements from here
// and there as there are groups; for windows of one element, whose images are rows of a matrix, some groups
// are too many. (Cascade Lake, f32 in vectors of 16: 1x1 of 8 groups of 64 to 2 at 32x77 3.9 to 0.3 ms, of 32
// groups of 32 to 4 at 39x29 0.41 to 0.17, 3x3 of 16 groups of 32 to 1 at 19x25 3.6 to 0.23; 5x5 of 4 groups
// of 48 to 8 at 6x20 0.13 to 0.06 by blocks. Zen 4: 1x1 of 16 groups of 8 to 8 at 28 36 to 15 us, by 2 4.3 to
// 2.6; AVX2, of 4 to 4 11 to 5.4.)
bool gathers_groups(const Graph& g, const KernelCall& call, int64_t lanes) {
  constexpr int64_t kManyGroups = 8, kLeastRow = 2;  // part of the lanes
  return std::any_of(call.nodes.begin(), call.nodes.end(), [&](int i) {
    const Node& n = g.nodes[static_cast<size_t>(i)];
    const bool transposed = ops::is_conv_transpose(n);
    if (!transposed && (n.op != "Conv" || !n.domain.empty())) return false;
    const OpContext ctx(g, n);
    const auto gathers = [&](const auto& s, const auto& kernel, const auto& output) {
      const int64_t filters = s.filters / s.group, channels = s.channels / s.group;
      if (s.group == 1 || filters >= lanes) return false;
      if (std::all_of(kernel.begin(), kernel.end(), [](int64_t size) { return size == 1; }))
        return channels > 1;
      return channels > filters && kManyGroups * filters <= lanes &&
             kLeastRow * output.back().typical() >= lanes;
    };
    if (transposed) {
      const ops::TransposedShape s = ops::transposed_shape(ctx);
      return gathers(s, s.kernel, s.output);
    }
    const ops::ConvShape s = ops::conv_shape(ctx, 1).typical();
    return gathers(s, s.window.kernel, s.window.output);
  });
}

constexpr double kFilledByImage = 0.75;  // of the lanes, at least, for those along a row of the image

// Whether pixels of a row are more of their lanes than channels of theirs, by what it takes to gather them.
bool rows_fill_better(const TensorType& made, int64_t lanes, bool double_pumped) {
  constexpr double kBetter = 1.15;
  return has_channels(made) && kBetter * filled(made.shape[1], lanes) <=
                                   filled(made.shape.back().typical(), double_pumped ? lanes / 2 : lanes);
}

bool worth_blocks(int64_t channels, int64_t lanes, double least) {
  const int64_t padded = ceil_div(channels, lanes) * lanes;
  return channels == padded || static_cast<double>(channels) >= least * static_cast<double>(padded);
}

// Whether an image shall lie in blocks though the result doesn't, as filters are so few that they would fill
// few lanes: under strided windows lanes are then channels (tile_dots.cpp), where row major each line holds a
// few pixels of one. (Zen 5: 130 images of 79 to 512 channels, 1x1 to 7x7 by strides of 2 to 4, in the middle
// a third of the time, one 1 % more; 100 of 10 to 100 channels, those that lie in blocks in the middle 40 %,
// the worst 14 % more. Few steps, blocks that are half empty, or few blocks of what comes from memory would
// take up to three times as long, 2x2/2 of 58 channels to 4 at 112x112; not strided 5 % more, in the middle.
// By AVX2 44 images half of the time.)
bool takes_blocks(const Graph& g, const KernelCall& call, const Kind& kind, int64_t lanes) {
  constexpr int64_t kLeastBlocks = 4, kLeastOfMany = 8, kLeastSteps = 16, kMany = 8 << 20;
  constexpr int64_t kFewBesideTaps = 4;
  constexpr double kFilled = 0.75, kFilledByRows = 0.8;
  const std::vector<int64_t> made = value_of(g, call.args.back()).type.shape.typical();
  const TensorType& image = value_of(g, call.args[0]).type;
  if (image.dtype != DType::f32 || !kind.product || !kind.strided || made.size() < 3 ||
      image.shape.size() < 3 || made[1] < 2)
    return false;
  const std::vector<int64_t> read = image.shape.typical();
  const int64_t channels = read[1], blocks = ceil_div(channels, lanes);
  if (channels % lanes == 1) return false;  // no vector: at the image's borders each step would be masked
  const std::vector<int64_t> filters = value_of(g, call.args[1]).type.shape.typical();
  if (filters.size() != made.size() || filters.size() != image.shape.size()) return false;
  int64_t bytes = bytes_of(image.dtype) * read[0] * channels, steps = blocks;  // that are read
  for (size_t d = 2; d < filters.size(); ++d) {
    bytes *= std::min(read[d], made[d] * filters[d]);
    steps *= filters[d];
  }
  // Rows of the image fill vectors nearly as well, and each tap that knows of the padding walks it again: not
  // of what comes from memory, one by one of its lines.
  if (kind.padded && made[1] > kFewBesideTaps && bytes <= 2 * kMany &&
      worth_blocks(made.back(), lanes, kFilledByRows))
    return false;
  if (bytes > kMany) return channels >= kLeastOfMany * lanes;
  return channels >= kLeastBlocks * lanes ||
         (blocks > 1 && steps >= kLeastSteps && worth_blocks(channels, lanes, kFilled));
}

bool works_by_channels(const Graph& g, const KernelCall& call, const Kind& kind) {
  return kind.by_lanes() && std::any_of(call.nodes.begin(), call.nodes.end(), [&](int i) {
           const Node& n = g.nodes[static_cast<size_t>(i)];
           return find_op(n.domain, n.op, n.opset)->by_channels;
         });
}

// The values that some function works faster with, but for those that are refused; those that one works much
// slower with join `row_major`. A product takes its operand as it comes, but for rows that it shall make
// blocks of.
std::set<ValueId> wanted_blocks(const Graph& g, const Partition& p, const std::vector<PrimFunc>& funcs,
                                const PartitionOptions& options, const std::set<ValueId>& refused,
                                std::set<ValueId>& row_major) {
  const int64_t lanes = options.channel_block;
  std::set<ValueId> out;
  std::map<ValueId, double> least;
  const auto want = [&](ValueId v) {
    const TensorType& t = value_of(g, v).type;
    const auto found = least.find(v);
    if (is_constant(g, v) || !has_channels(t) || refused.count(v)) return false;
    const double filled = t.dtype != DType::f32 ? 1 : found == least.end() ? Kind().least() : found->second;
    if (!worth_blocks(t.shape[1], lanes, filled)) return false;
    out.insert(v);
    return true;
  };
  for (size_t c = 0; c < funcs.size(); ++c) {
    const KernelCall& call = p.calls[c];
    Kind kind = kind_of(funcs[c], lanes);
    for (const int i : call.nodes)
      kind.transformed |= options.winograd && suits_winograd(g, g.nodes[static_cast<size_t>(i)], lanes);
    if (const TensorType& made = value_of(g, call.args.back()).type;
        (kind.blends &&
         (options.double_pumped ? has_channels(made) && !worth_blocks(made.shape[1], lanes, 1)
                                : worth_blocks(made.shape.back().typical(), lanes, kFilledByImage))) ||
        (kind.shares && rows_fill_better(made, lanes, options.double_pumped)) ||
        scatters_groups(g, call, lanes) || gathers_groups(g, call, lanes)) {
      row_major.insert(call.args.begin(), call.args.end());
      continue;
    }
    bool made = false;
    for (size_t i = 0; i < call.args.size(); ++i)
      if (funcs[c].params[i].role == Role::out) {
        least[call.args[i]] = kind.least();
        made |= works_by_channels(g, call, kind) && want(call.args[i]);
      }
    if (works_by_channels(g, call, kind) &&
        (made || takes_blocks(g, call, kind, lanes) || !(kind.product || kind.sums_channels)))
      for (const ValueId v : call.args) want(v);
  }
  return out;
}

bool takes(const PrimFunc& f, const KernelCall& call, const std::set<ValueId>& blocked, int64_t lanes) {
  std::vector<bool> which;
  for (const ValueId v : call.args) which.push_back(blocked.count(v) > 0);
  if (std::find(which.begin(), which.end(), true) == which.end()) return true;
  return block_channels(f, which, lanes).has_value();
}

// Strikes out what some function can't take: one value if that is enough, else all of that function's.
// Whether anything was struck out.
bool drop_refused(const Graph& g, const Partition& p, const std::vector<PrimFunc>& funcs, int64_t lanes,
                  std::set<ValueId>& blocked) {
  bool dropped = false;
  for (size_t c = 0; c < funcs.size(); ++c) {
    const KernelCall& call = p.calls[c];
    if (takes(funcs[c], call, blocked, lanes)) continue;
    dropped = true;
    bool enough = false;
    for (size_t i = 0; i < call.args.size() && !enough; ++i) {
      std::set<ValueId> fewer = blocked;
      if (fewer.erase(call.args[i]) && (enough = takes(funcs[c], call, fewer, lanes))) blocked = fewer;
    }
    if (enough) continue;
    const size_t before = blocked.size();
    for (const ValueId v : call.args)
      if (blocked.count(v) && value_of(g, v).type.shape[1] % lanes != 0) blocked.erase(v);
    for (const ValueId v : call.args)
      if (blocked.size() == before || !takes(funcs[c], call, blocked, lanes)) blocked.erase(v);
  }
  return dropped;
}

}  // namespace

std::set<ValueId> blocked_values(const Graph& g, const Partition& p, const std::vector<PrimFunc>& funcs,
                                 const PartitionOptions& options) {
  if (options.channel_block <= 1) return {};
  std::set<ValueId> row_major;
  for (const auto& [view, root] : p.alias) row_major.insert({view, root});
  if (!options.blocked_io) {
    row_major.insert(g.inputs.begin(), g.inputs.end());
    row_major.insert(g.outputs.begin(), g.outputs.end());
  }
  for (const Node& n : g.nodes)
    if (!n.bodies.empty())
      for (const auto* list : {&n.inputs, &n.outputs}) row_major.insert(list->begin(), list->end());
  // What is refused may have been all that another value was wanted for.
  std::set<ValueId> refused;
  for (;;) {
    std::set<ValueId> out = wanted_blocks(g, p, funcs, options, refused, row_major);
    for (const ValueId v : row_major) out.erase(v);
    const std::set<ValueId> wanted = out;
    while (drop_refused(g, p, funcs, options.channel_block, out)) {
    }
    if (out == wanted) return out;
    for (const ValueId v : wanted)
      if (!out.count(v)) refused.insert(v);
  }
}

}  // namespace nestor
