// A value is kept in blocks of channels where one of the functions that make or read it works by channels,
// and none of them has to see it row major: the model's inputs and outputs, and values with views of other
// shapes. No conversion stands anywhere: a function with one row-major and one blocked parameter is its own
// conversion. Where an image is a single pixel, or the channels don't fill whole blocks, the row-major order
// is as good.
#include "src/graph/blocked_values.h"

#include <algorithm>
#include <map>

#include "nestor/ops.h"
#include "src/graph/block_channels.h"
#include "src/graph/edit.h"

namespace nestor {

namespace {

bool shape_fits(const TensorType& t, int64_t lanes) {
  if (t.dtype != DType::f32 || t.shape.size() < 3 || t.shape[1] == 0 || t.shape[1] % lanes != 0) return false;
  int64_t pixels = 1;
  for (size_t d = 2; d < t.shape.size(); ++d) pixels *= t.shape[d];
  return pixels > 1;
}

bool works_by_channels(const Graph& g, const KernelCall& call) {
  return std::any_of(call.nodes.begin(), call.nodes.end(), [&](int i) {
    const Node& n = g.nodes[static_cast<size_t>(i)];
    return find_op(n.domain, n.op, n.opset)->by_channels;
  });
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
  std::map<ValueId, bool> wanted;  // by what makes it or reads it
  for (size_t c = 0; c < funcs.size(); ++c) {
    const KernelCall& call = p.calls[c];
    const bool wants = works_by_channels(g, call);
    for (size_t i = 0; i < call.args.size(); ++i) {
      const ValueId v = call.args[i];
      if (is_constant(g, v) || row_major.count(v) || !shape_fits(value_of(g, v).type, options.channel_block))
        continue;
      std::vector<bool> only(call.args.size(), false);
      only[i] = true;
      if (block_channels(funcs[c], only, options.channel_block))
        wanted[v] |= wants;
      else
        row_major.insert(v);
    }
  }
  std::set<ValueId> out;
  for (const auto& [v, wants] : wanted)
    if (wants && !row_major.count(v)) out.insert(v);
  return out;
}

}  // namespace nestor
