// oneDNN: every operator it has a primitive for. Sources, weights and destinations are in the layouts that it
// asks for; reorders into them are made before the clock starts, so it is measured at its best.
#include <dnnl.hpp>
#include <fstream>
#include <numeric>
#include <unordered_map>

#include "bench/peers/peer.h"

namespace nestor::bench {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Args = std::unordered_map<int, memory>;

struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};
Library& library() {
  static Library it;
  return it;
}

memory::dims dims(const std::vector<int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

Tag row_major(size_t rank) {
  constexpr Tag tags[] = {Tag::a, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde, Tag::abcdef};
  return tags[rank];
}
memory::data_type type_of(DType t) {
  static const std::unordered_map<DType, memory::data_type> types = {
      {DType::f32, memory::data_type::f32}, {DType::bf16, memory::data_type::bf16},
      {DType::f16, memory::data_type::f16}, {DType::u8, memory::data_type::u8},
      {DType::i8, memory::data_type::s8},   {DType::i32, memory::data_type::s32}};
  return types.at(t);
}
memory::desc plain(const std::vector<int64_t>& shape, DType t = DType::f32) {
  return {dims(shape), type_of(t), row_major(shape.size())};
}
memory::desc any(const std::vector<int64_t>& shape, DType t = DType::f32) {
  return {dims(shape), type_of(t), Tag::any};
}

memory view(const memory::desc& desc, const Tensor& t) {
  return {desc, library().engine, const_cast<void*>(t.data())};
}

// A row-major tensor in the layout asked for.
memory in_layout(const Tensor& t, const std::vector<int64_t>& shape, const memory::desc& wanted) {
  memory from = view(plain(shape, t.dtype()), t), to(wanted, library().engine);
  dnnl::reorder(from, to).execute(library().stream, from, to);
  library().stream.wait();
  return to;
}

Peer peer(const dnnl::primitive& primitive, Args args, const std::string& kernel, const Problem& p,
          const std::vector<int64_t>& shape) {
  const memory dst = args.at(DNNL_ARG_DST);
  return {"oneDNN", kernel,
          [primitive, args] {
            primitive.execute(library().stream, args);
            library().stream.wait();
          },
          [dst, shape, type = p.output.dtype(), out_shape = p.output.shape()] {
            Tensor out(type, out_shape);
            memory from = dst, to = view(plain(shape, type), out);
            dnnl::reorder(from, to).execute(library().stream, from, to);
            library().stream.wait();
            return out;
          }};
}

Peer matmul(const Problem& p) {
  const DType a = p.type(0), b = p.type(1);
  const auto weights = p.is_const(1) ? any(p.shape(1), b) : plain(p.shape(1), b);
  const dnnl::matmul::primitive_desc pd(
      {plain(p.shape(0), a), weights, plain(p.output.shape(), p.output.dtype())}, library().engine);
  Args args{{DNNL_ARG_SRC, view(plain(p.shape(0), a), p.input(0))},
            {DNNL_ARG_WEIGHTS, in_layout(p.input(1), p.shape(1), pd.weights_desc())},
            {DNNL_ARG_DST, memory(pd.dst_desc(), library().engine)}};
  return peer(dnnl::matmul(pd), args, pd.impl_info_str(), p, p.output.shape());
}

Peer convolution(const Problem& p) {
  const size_t spatial = p.shape(0).size() - 2;
  const std::vector<int64_t> ones(spatial, 1), zeros(2 * spatial, 0);
  const auto strides = p.ints("strides", ones), pads = p.ints("pads", zeros);
  auto dilations = p.ints("dilations", ones);
  for (int64_t& d : dilations) --d;
  const int64_t group = p.integer("group", 1);
  std::vector<int64_t> w = p.shape(1);
  if (group > 1) {  // [o,i,...] -> [g,o/g,i,...]
    w[0] /= group;
    w.insert(w.begin(), group);
  }
  const auto split = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  const dnnl::convolution_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, any(p.shape(0), p.type(0)),
       any(w, p.type(1)), any(p.output.shape(), p.output.dtype()), dims(strides), dims(dilations),
       dims({pads.begin(), split}), dims({split, pads.end()})},
      library().engine);
  Args args{{DNNL_ARG_SRC, in_layout(p.input(0), p.shape(0), pd.src_desc())},
            {DNNL_ARG_WEIGHTS, in_layout(p.input(1), w, pd.weights_desc())},
            {DNNL_ARG_DST, memory(pd.dst_desc(), library().engine)}};
  return peer(dnnl::convolution_forward(pd), args, pd.impl_info_str(), p, p.output.shape());
}

// Its weights are those of ONNX with the channels the other way round.
Peer deconvolution(const Problem& p) {
  const std::vector<int64_t>&x = p.shape(0), &y = p.output.shape();
  const size_t spatial = x.size() - 2;
  const std::vector<int64_t> ones(spatial, 1), zeros(2 * spatial, 0);
  const auto strides = p.ints("strides", ones), pads = p.ints("pads", zeros);
  auto dilations = p.ints("dilations", ones);
  const int64_t group = p.integer("group", 1);
  std::vector<int64_t> w = p.shape(1), after;
  for (size_t d = 0; d < spatial; ++d) {
    // As much as the output lacks; with output_padding it has more, and this is negative.
    const int64_t whole = (x[d + 2] - 1) * strides[d] + (w[d + 2] - 1) * dilations[d] + 1;
    after.push_back(whole - y[d + 2] - pads[d]);
    --dilations[d];
  }
  memory::dims shape(w.begin(), w.end()), given(w.size());
  int64_t stride = 1;
  for (size_t d = w.size(); d-- > 0; stride *= w[d]) given[d] = stride;
  std::swap(shape[0], shape[1]);
  std::swap(given[0], given[1]);
  if (group > 1) {  // [o/g,c,...] -> [g,o/g,c/g,...]
    shape[1] /= group;
    shape.insert(shape.begin(), group);
    given.insert(given.begin(), given[1] * shape[2]);
  }
  const auto split = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  const dnnl::deconvolution_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct, any(x),
       memory::desc(shape, memory::data_type::f32, Tag::any), any(y), dims(strides), dims(dilations),
       dims({pads.begin(), split}), dims(after)},
      library().engine);
  memory from = view({shape, memory::data_type::f32, given}, p.input(1)),
         to(pd.weights_desc(), library().engine);
  dnnl::reorder(from, to).execute(library().stream, from, to);
  Args args{{DNNL_ARG_SRC, in_layout(p.input(0), x, pd.src_desc())},
            {DNNL_ARG_WEIGHTS, to},
            {DNNL_ARG_DST, memory(pd.dst_desc(), library().engine)}};
  return peer(dnnl::deconvolution_forward(pd), args, pd.impl_info_str(), p, y);
}

Peer softmax(const Problem& p) {
  const auto rank = static_cast<int64_t>(p.shape(0).size());
  const int64_t axis = p.integer("axis", -1);
  const dnnl::softmax_forward::primitive_desc pd({dnnl::prop_kind::forward_inference, plain(p.shape(0)),
                                                  static_cast<int>(axis < 0 ? axis + rank : axis)},
                                                 library().engine);
  Args args{{DNNL_ARG_SRC, view(plain(p.shape(0)), p.input(0))},
            {DNNL_ARG_DST, memory(pd.dst_desc(), library().engine)}};
  return peer(dnnl::softmax_forward(pd), args, pd.impl_info_str(), p, p.output.shape());
}

Peer eltwise(const Problem& p, dnnl::algorithm kind) {
  const dnnl::eltwise_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_inference, kind, plain(p.shape(0)), 0.0f, 0.0f}, library().engine);
  Args args{{DNNL_ARG_SRC, view(plain(p.shape(0)), p.input(0))},
            {DNNL_ARG_DST, memory(pd.dst_desc(), library().engine)}};
  return peer(dnnl::eltwise_forward(pd), args, pd.impl_info_str(), p, p.output.shape());
}
Peer gelu(const Problem& p) {
  return eltwise(p, dnnl::algorithm::eltwise_gelu_erf);
}
Peer relu(const Problem& p) {
  return eltwise(p, dnnl::algorithm::eltwise_relu);
}

Peer layer_norm(const Problem& p) {
  const bool shifts = p.node().inputs.size() > 2;
  auto flags = dnnl::normalization_flags::use_scale;
  if (shifts) flags |= dnnl::normalization_flags::use_shift;
  const dnnl::layer_normalization_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_inference, plain(p.shape(0)), 1e-5f, flags}, library().engine);
  Args args{{DNNL_ARG_SRC, view(plain(p.shape(0)), p.input(0))},
            {DNNL_ARG_SCALE, view(plain(p.shape(1)), p.input(1))},
            {DNNL_ARG_DST, memory(pd.dst_desc(), library().engine)}};
  if (shifts) args.insert({DNNL_ARG_SHIFT, view(plain(p.shape(2)), p.input(2))});
  return peer(dnnl::layer_normalization_forward(pd), args, pd.impl_info_str(), p, p.output.shape());
}

Peer reduce_sum(const Problem& p) {
  std::vector<int64_t> kept = p.shape(0);
  for (const int64_t axis : p.input(1).as<int64_t>())
    kept[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(kept.size()) : axis)] = 1;
  const dnnl::reduction::primitive_desc pd(
      {dnnl::algorithm::reduction_sum, plain(p.shape(0)), plain(kept), 0, 0}, library().engine);
  Args args{{DNNL_ARG_SRC, view(plain(p.shape(0)), p.input(0))},
            {DNNL_ARG_DST, memory(pd.dst_desc(), library().engine)}};
  return peer(dnnl::reduction(pd), args, pd.impl_info_str(), p, kept);
}

Peer max_pool(const Problem& p) {
  const size_t spatial = p.shape(0).size() - 2;
  const std::vector<int64_t> ones(spatial, 1), zeros(2 * spatial, 0);
  const auto pads = p.ints("pads", zeros);
  const auto split = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  // Blocked by 16 channels, the layout between oneDNN's own convolutions.
  const memory::desc src(dims(p.shape(0)), memory::data_type::f32, Tag::nChw16c);
  const dnnl::pooling_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_max, src, any(p.output.shape()),
       dims(p.ints("strides", ones)), dims(p.ints("kernel_shape", ones)), dims({pads.begin(), split}),
       dims({split, pads.end()})},
      library().engine);
  Args args{{DNNL_ARG_SRC, in_layout(p.input(0), p.shape(0), pd.src_desc())},
            {DNNL_ARG_DST, memory(pd.dst_desc(), library().engine)}};
  return peer(dnnl::pooling_forward(pd), args, pd.impl_info_str(), p, p.output.shape());
}

// A transposition is a reorder into a description whose strides are those of the output.
Peer transpose(const Problem& p) {
  const std::vector<int64_t>& shape = p.shape(0);
  const std::vector<int64_t>& out = p.output.shape();
  std::vector<int64_t> reversed(shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const std::vector<int64_t> perm = p.ints("perm", reversed);
  memory::dims strides(shape.size());
  int64_t stride = 1;
  for (size_t d = out.size(); d-- > 0; stride *= out[d]) strides[static_cast<size_t>(perm[d])] = stride;
  memory from = view(plain(shape), p.input(0));
  memory to({dims(shape), memory::data_type::f32, strides}, library().engine);
  const dnnl::reorder::primitive_desc pd(from, to);
  const dnnl::reorder reorder(pd);
  return {"oneDNN", pd.impl_info_str(),
          [=]() mutable {
            reorder.execute(library().stream, from, to);
            library().stream.wait();
          },
          [to, out] {
            Tensor t(DType::f32, out);
            std::copy_n(static_cast<const float*>(to.get_data_handle()), t.size(), t.as<float>().begin());
            return t;
          }};
}

Peer concat(const Problem& p) {
  std::vector<memory::desc> sources;
  Args args;
  for (size_t i = 0; i < p.node().inputs.size(); ++i) {
    sources.push_back(plain(p.shape(i)));
    args[DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i)] = view(sources.back(), p.input(i));
  }
  const dnnl::concat::primitive_desc pd(plain(p.output.shape()), static_cast<int>(p.integer("axis", 0)),
                                        sources, library().engine);
  args[DNNL_ARG_DST] = memory(pd.dst_desc(), library().engine);
  return peer(dnnl::concat(pd), args, pd.impl_info_str(), p, p.output.shape());
}

}  // namespace

std::string onednn_version() {
  const auto* v = dnnl::version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

std::optional<Peer> onednn_peer(const Problem& p) {
  static const std::unordered_map<std::string, Peer (*)(const Problem&)> makers = {
      {"MatMul", matmul},
      {"MatMulInteger", matmul},
      {"Conv", convolution},
      {"ConvInteger", convolution},
      {"ConvTranspose", deconvolution},
      {"Softmax", softmax},
      {"LayerNormalization", layer_norm},
      {"ReduceSum", reduce_sum},
      {"MaxPool", max_pool},
      {"Transpose", transpose},
      {"Concat", concat},
      {"Gelu", gelu},
      {"Relu", relu}};
  const auto it = makers.find(p.op());
  const DType t = p.output.dtype();
  if (it == makers.end() || (t != DType::f32 && t != DType::bf16 && t != DType::f16 && t != DType::i32) ||
      (t == DType::i32 && p.node().inputs.size() > 2))  // with zero points
    return std::nullopt;
  if (t != DType::f32 && it->second != matmul && it->second != convolution) return std::nullopt;
  try {
    return it->second(p);
  } catch (const dnnl::error&) {  // no implementation of this form
    return std::nullopt;
  }
}

}  // namespace nestor::bench
