// storage_align: pads the stride of a dimension of a temporary, so that stride % factor == offset. Then the
// elements of a column don't compete for the same bank of shared memory (32 words) or the same set of a cache
// (4 KiB apart is one set).
//
// The buffer's declaration says so, not its layout: after compute_at the buffer shrinks to what an iteration
// uses, and the padding must fit the final size. Only `flatten_buffers` reads it. Logical indices stay, so no
// result can change.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

PrimFunc with_decl(const PrimFunc& f, const BufferDecl& decl);

namespace {

// The step that makes a temporary of what is there.
std::string copy_step(const PrimFunc& f, const Param& param) {
  const Buffer& b = param.decl.buffer;
  const auto users = param.role == Role::out ? writers(f, b) : readers(f, b);
  if (users.empty()) return "";
  return param.role == Role::out ? "cache_write " + users.back().name() + " global"
                                 : "cache_read " + users[0].name() + " " + b->name + " global";
}

PrimFunc run(StepContext& ctx) {
  const Buffer b = ctx.buffer(0);
  if (const Param* param = find_param(ctx.func(), b))
    ctx.refuse(1, 0,
               b->name + " is an `" + name_of(param->role) +
                   "` parameter: whoever calls the function fixed its place in memory",
               {}, copy_step(ctx.func(), *param));
  BufferDecl decl = decl_of(ctx.func(), b);
  const StrideAlign align{ctx.integer(1), ctx.integer(2), ctx.integer(3)};
  const auto dims = static_cast<int64_t>(decl.layout ? decl.layout->exprs.size() : decl.shape.size());
  if (align.dim < 0 || align.dim >= dims - 1)
    ctx.refuse(2, 1, b->name + " has " + std::to_string(dims) + " dimensions in memory", {},
               dims > 1 ? ctx.instead(1, std::to_string(dims - 2)) : "");
  constexpr int64_t kLargest = 1 << 20;
  const bool factor = align.factor >= 1 && align.factor <= kLargest;
  if (!factor || align.offset < 0 || align.offset >= align.factor)
    ctx.refuse(3, factor ? 3 : 2,
               factor ? std::to_string(align.offset) + " isn't a remainder of " + std::to_string(align.factor)
                      : "the factor is " + std::to_string(align.factor),
               {}, "storage_align " + b->name + " " + std::to_string(align.dim) + " 32 8");
  std::erase_if(decl.align, [&](const StrideAlign& a) { return a.dim == align.dim; });
  const auto at = std::find_if(decl.align.begin(), decl.align.end(),
                               [&](const StrideAlign& a) { return a.dim > align.dim; });
  decl.align.insert(at, align);
  return with_decl(ctx.func(), decl);
}

}  // namespace

Primitive storage_align_row() {
  return {
      "storage_align",
      "",
      {{ArgKind::buffer, "T"},
       {ArgKind::integer, "dim"},
       {ArgKind::integer, "factor"},
       {ArgKind::integer, "offset"}},
      {},
      "Pads the stride of a dimension of a temporary in memory, so that stride % factor == offset.",
      {"the buffer is a temporary", "the dimension is one of its dimensions in memory, and not the innermost",
       "factor is at least 1 and at most 2^20, and offset at least 0 and below factor"},
      {examples::kChain, "storage_align T 0 32 8"},
      run};
}

}  // namespace nestor::schedules
