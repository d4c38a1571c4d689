// A convolution: Y[o,y,x] += P[c, y*sy+r, x*sx+s] * W[o,c,r,s]. A block of threads copies to shared memory
// what a few channels of its tile read, windows and all, so that neither operand is fetched again for each
// place of the window. A thread has outputs of several channels and of rows below each other: a column of its
// windows stays in registers while it goes through them. Neighbouring threads have neighbouring columns, so
// that a warp reads a row of the image from as many banks; strides split the row by its remainder. Weights
// are packed when the model is compiled, in the order in which blocks read them.
//
// Where no channels are summed (depthwise), a block copies what it reads of several channels once.
#include "schedules/library/cuda_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/find_windows.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kMostUnrolled = 2048;  // FMAs
constexpr int64_t kWarp = 32;

using windows::Iter;
using windows::Windows;

bool is_plain(const Expr& e, const Var& v) {
  const auto* r = e.as<VarRef>();
  return r && r->var == v;
}

std::vector<std::string> numbered(const std::string& stem, size_t n) {
  std::vector<std::string> out;
  for (size_t i = 0; i < n; ++i) out.push_back(fmt::format("{}{}", stem, i));
  return out;
}

class WindowTiler {
 public:
  WindowTiler(Schedule& s, std::string block, Windows w, const WindowTile& tile)
      : s_(s), b_(std::move(block)), w_(std::move(w)), t_(tile) {}

  void run(std::string epilogue) {
    const std::string o = w_.o.loop, y = w_.y.loop, x = w_.x.loop, c = w_.c.loop;
    pack_weights();
    Buffer sums = w_.out;
    if (epilogue.empty()) {
      epilogue = b_ + "_out";
      step("{} = cache_write {} local", epilogue, b_);
    } else {
      step("set_scope {} local", w_.out->name);
    }
    std::vector<std::string> grid = loops_beside(), sides, inner;
    step("{1}0 {1}l {1}r = split {0}.{1} [_, {2}, {3}]", b_, o, t_.lanes_o, t_.own_o);
    if (w_.y.var) step("{1}0 {1}l {1}r = split {0}.{1} [_, {2}, {3}]", b_, y, t_.rows, t_.own_y);
    step("{1}0 {1}l = split {0}.{1} [_, {2}]", b_, x, t_.lanes_x);
    if (w_.c.var) step("{1}0 {1}1 = split {0}.{1} [_, {2}]", b_, c, t_.chunk);
    grid.push_back(o + "0");
    if (w_.y.var) grid.push_back(y + "0");
    grid.push_back(x + "0");
    if (w_.y.var) sides.push_back(y + "l");
    sides.push_back(x + "l");
    for (const Iter& i : w_.taps) inner.push_back(i.loop);
    for (const Iter& i : {w_.s, w_.r})
      if (i.var) inner.push_back(i.loop);
    std::vector<std::string> order = grid;
    if (w_.c.var) order.push_back(c + "0");
    order.push_back(o + "l");
    order.insert(order.end(), sides.begin(), sides.end());
    if (w_.c.var) order.push_back(c + "1");
    order.insert(order.end(), inner.begin(), inner.end());
    order.push_back(o + "r");
    if (w_.y.var) order.push_back(y + "r");
    step("reorder {} ({})", b_, join(order));

    const std::vector<std::string> written = bring_epilogue(epilogue);
    const std::string weights = copy_weights(inner);
    const std::string image = copy_image(w_.c.var ? c + "0" : x + "0", inner);
    if (w_.c.var || !inner.empty())
      step("{0}_init = decompose_reduction {0}.{1}", b_, w_.c.var ? c + "0" : inner[0]);
    step("gb = fuse {} ({})", b_, join(grid));
    step("bind {}.gb blockIdx.x", b_);
    bind_threads(b_, o + "l", sides);
    if (w_.c.var) bind_threads(b_ + "_init", o + "l", sides);
    bind_threads(epilogue, written[0] + "l", {written[1] + "l", written[2] + "l"});
    spread_image(image);
    spread_weights(weights);
    std::vector<std::string> unrolled;
    const WindowSizes& z = w_.sizes;
    const bool all = z.x.taps * z.y.taps * t_.own_o * t_.own_y <= kMostUnrolled;
    if (all && w_.s.var) unrolled.push_back(w_.s.loop);
    if (w_.r.var) unrolled.push_back(w_.r.loop);
    unrolled.push_back(o + "r");
    if (w_.y.var) unrolled.push_back(y + "r");
    unroll(b_, unrolled);
  }

 private:
  template <class... Args>
  void step(const char* format, const Args&... args) {
    s_(fmt::format(fmt::runtime(format), args...));
  }

  bool has_loop(const std::string& block, const std::string& loop) const {
    for (const LoopInfo& l : loops_of(s_.func(), block))
      if (l.name == loop) return true;
    return false;
  }
  void unroll(const std::string& block, const std::vector<std::string>& loops) {
    std::vector<std::string> there;
    for (const std::string& l : loops)
      if (has_loop(block, l)) there.push_back(l);
    if (!there.empty()) step("unroll {} ({})", block, join(there));
  }

  // The block's loops that aren't of a tile, before it is cut: of images and groups, and of one iteration.
  std::vector<std::string> loops_beside() const {
    std::vector<std::string> out;
    for (const LoopInfo& l : loops_of(s_.func(), b_)) {
      const auto is_it = [&](const Iter& i) { return i.loop == l.name; };
      bool tiled = std::any_of(w_.taps.begin(), w_.taps.end(), is_it);
      for (const Iter* i : {&w_.o, &w_.y, &w_.x, &w_.c, &w_.r, &w_.s}) tiled = tiled || is_it(*i);
      if (!tiled) out.push_back(l.name);
    }
    return out;
  }

  bool packs() const {
    const Param* p = find_param(s_.func(), w_.weights);
    return p && p->role == Role::constant && w_.c.var;
  }
  int64_t outputs() const { return t_.lanes_o * t_.own_o; }

  // As blocks read them: those of one block's channels side by side.
  void pack_weights() {
    if (!packs()) return;
    const std::vector<std::string> from = numbered("d", w_.weights_dims);
    std::vector<std::string> to = {fmt::format("{}/{}", from[w_.weights_o], outputs())};
    for (size_t d = 0; d < from.size(); ++d)
      if (d != w_.weights_o) to.push_back(from[d]);
    to.push_back(fmt::format("{}%{}", from[w_.weights_o], outputs()));
    step("transform_layout {} ({}) -> ({})", w_.weights->name, join(from, ", "), join(to, ", "));
  }

  // The reader's loops, where a block of threads has its tile; gives those of channels, rows and columns.
  std::vector<std::string> bring_epilogue(const std::string& epilogue) {
    const Block& reader = *find_block(s_.func(), epilogue);
    std::vector<std::string> names, along(3);
    for (const IterVar& v : reader.iters) {
      const auto* loop = v.binding.as<VarRef>();
      names.push_back("w" + (loop ? loop->var->name : v.var->name));
      for (const BlockAccess& a : accesses_of(reader)) {
        if (a.write || a.indices.size() <= w_.out_x || !is_sums(a)) continue;
        const size_t dims[] = {w_.out_o, w_.out_y, w_.out_x};
        for (size_t k = 0; k < 3; ++k)
          if ((k != 1 || w_.y.var) && is_plain(a.indices[dims[k]], v.var)) along[k] = names.back();
      }
    }
    if (along[0].empty() || along[2].empty() || (w_.y.var && along[1].empty()))
      throw ScheduleError(Diagnostic{"a reader that doesn't follow the sums", {}, {}, ""});
    step("{} = reverse_compute_at {} {}.{}0", join(names), epilogue, b_, w_.x.loop);
    std::vector<std::string> order;
    for (const std::string& name : names)
      if (std::find(along.begin(), along.end(), name) == along.end()) order.push_back(name);
    order.push_back(along[0] + "l");
    step("{1}l {1}r = split {0}.{1} [{2}, {3}]", epilogue, along[0], t_.lanes_o, t_.own_o);
    if (w_.y.var) {
      step("{1}l {1}r = split {0}.{1} [{2}, {3}]", epilogue, along[1], t_.rows, t_.own_y);
      order.push_back(along[1] + "l");
    }
    step("{1}l = fuse {0} ({1})", epilogue, along[2]);
    order.insert(order.end(), {along[2] + "l", along[0] + "r"});
    if (w_.y.var) order.push_back(along[1] + "r");
    step("reorder {} ({})", epilogue, join(order));
    return along;
  }
  bool is_sums(const BlockAccess& a) const {
    for (const BlockAccess& made : accesses_of(*find_block(s_.func(), b_)))
      if (made.write && made.buffer == a.buffer) return true;
    return false;
  }

  struct Copied {
    std::string block, tile;  // the block that makes it; the buffer in shared memory
  };
  // What is read of the buffer at `at`; of it, what a thread reads of it at `own_at`, unless that is empty.
  // The loops are numbered behind `stem` and `own_stem`.
  Copied copy(const Buffer& operand, size_t dims, const std::string& stem, const std::string& at,
              const std::string& own_stem, const std::string& own_at) {
    Copied out{"", operand->name};
    for (const std::string& name : block_names(s_.func()))
      for (const BlockAccess& a : accesses_of(*find_block(s_.func(), name)))
        if (a.write && a.buffer == operand) out.block = name;
    if (out.block.empty()) {
      out.block = out.tile = operand->name + "_tile";
      step("{} = cache_read {} {} shared", out.tile, b_, operand->name);
    } else {
      step("set_scope {} shared", operand->name);
    }
    if (!own_at.empty()) {
      step("{}_own = cache_read {} {} local", operand->name, b_, out.tile);
      step("{} = compute_at {}_own {}.{}", join(numbered(own_stem, dims)), operand->name, b_, own_at);
    }
    step("{} = compute_at {} {}.{}", join(numbered(stem, dims)), out.block, b_, at);
    return out;
  }

  // A thread's own part of the image is a column of its windows.
  std::string copy_image(const std::string& at, const std::vector<std::string>& inner) {
    std::string column;
    if (w_.r.var && t_.own_y > 1) {
      column = inner.size() > 1 ? inner[inner.size() - 2] : w_.c.var ? w_.c.loop + "1" : "";
      if (column.empty()) column = w_.x.loop + "l";
    }
    const Copied image = copy(w_.image, w_.image_dims, "p", at, "q", column);
    const int64_t stride = w_.sizes.x.stride;
    const std::vector<std::string> from = numbered("d", w_.image_dims);
    std::vector<std::string> to(from.begin(), from.end() - 2);
    if (stride > 1) {
      to.insert(to.end(), {fmt::format("{}%{}", from.back(), stride), from[from.size() - 2],
                           fmt::format("{}/{}", from.back(), stride)});
      step("transform_layout {} ({}) -> ({})", image.tile, join(from, ", "), join(to, ", "));
    }
    const size_t rows = w_.image_dims - (stride > 1 ? 1 : 2);
    if (t_.rows > 1) step("storage_align {} {} {} {}", image.tile, rows, kWarp, t_.pitch % kWarp);
    if (!w_.c.var)
      step("storage_align {} {} {} {}", image.tile, w_.image_o + (stride > 1 && !w_.y.var), kWarp,
           t_.rows * t_.lanes_x % kWarp);
    if (stride == 2) step("storage_align {} {} {} {}", image.tile, rows - 1, kWarp, kWarp / 2);
    return image.block;
  }

  std::string copy_weights(const std::vector<std::string>& inner) {
    if (!w_.c.var) return copy(w_.weights, w_.weights_dims, "k", w_.x.loop + "0", "", "").block;
    const Copied weights = copy(w_.weights, w_.weights_dims, "k", w_.c.loop + "0", "v",
                                inner.empty() ? w_.c.loop + "1" : inner.back());
    const std::vector<std::string> from = numbered("d", w_.weights_dims);
    std::vector<std::string> to;
    for (size_t d = 0; d < from.size(); ++d)
      if (d != w_.weights_o) to.push_back(from[d]);
    to.push_back(from[w_.weights_o]);
    step("transform_layout {} ({}) -> ({})", weights.tile, join(from, ", "), join(to, ", "));
    if (!packs()) step("storage_align {} {} {} 4", weights.tile, w_.weights_dims - 2, kWarp);
    const std::string own = w_.weights->name + "_own", lanes = fmt::format("v{}", w_.weights_o);
    if (t_.own_o % 2 == 0 && has_loop(own, lanes)) step("vectorize {}.{}", own, lanes);
    return weights.block;
  }

  // Rows and what is beside them by turns, each by as many threads as a warp has.
  void spread_rows(const std::string& block, const std::vector<std::string>& rows, const std::string& column,
                   int64_t wide) {
    step("cr = fuse {} ({})", block, join(rows));
    step("cr0 cr1 = split {}.cr [_, {}]", block, t_.threads() / wide);
    step("cc0 cc1 = split {}.{} [_, {}]", block, column, wide);
    step("reorder {} (cc0 cr0 cr1 cc1)", block);
    step("ct = fuse {} (cr1 cc1)", block);
    bind_all(block, "ct");
  }
  void bind_all(const std::string& block, const std::string& loop) {
    step("cy cx = split {}.{} [{}, {}]", block, loop, t_.lanes_o, t_.rows * t_.lanes_x);
    if (t_.lanes_o > 1) step("bind {}.cy threadIdx.y", block);
    if (t_.rows * t_.lanes_x > 1) step("bind {}.cx threadIdx.x", block);
  }

  void spread_image(const std::string& block) {
    std::vector<std::string> rows = numbered("p", w_.image_dims);
    const std::string column = rows.back();
    rows.pop_back();
    spread_rows(block, rows, column, t_.wide);
  }

  // Packed ones lie as they are wanted; of others a thread takes 8 of one channel's, so that lanes read
  // sectors and write to different banks.
  void spread_weights(const std::string& block) {
    std::vector<std::string> loops = numbered("k", w_.weights_dims);
    const std::string outputs_loop = loops[w_.weights_o];
    if (!w_.c.var) {
      step("cc = fuse {} ({})", block, join(loops));
      step("cs ct = split {}.cc [_, {}]", block, t_.threads());
      return bind_all(block, "ct");
    }
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(w_.weights_o));
    if (!packs()) {
      step("reorder {} ({} {})", block, outputs_loop, join(loops));
      step("kk = fuse {} ({})", block, join(loops));
      spread_rows(block, {outputs_loop}, "kk", std::gcd(t_.threads(), int64_t{8}));
      return;
    }
    const int64_t run = std::gcd(outputs(), 16 / bytes_of(w_.weights->type.dtype));
    loops.push_back(outputs_loop);
    step("reorder {} ({})", block, join(loops));
    step("cc = fuse {} ({})", block, join(loops));
    step("cs ct cv = split {}.cc [_, {}, {}]", block, t_.threads(), run);
    bind_all(block, "ct");
    if (run > 1) step("vectorize {}.cv", block);
  }

  void bind_threads(const std::string& block, const std::string& channels,
                    const std::vector<std::string>& loops) {
    if (t_.lanes_o > 1) step("bind {}.{} threadIdx.y", block, channels);
    std::vector<std::string> there;
    for (const std::string& l : loops)
      if (has_loop(block, l)) there.push_back(l);
    if (there.empty() || t_.rows * t_.lanes_x == 1) return;
    std::string thread = there[0];
    if (there.size() > 1) step("{} = fuse {} ({})", thread = "gt", block, join(there));
    step("bind {}.{} threadIdx.x", block, thread);
  }

  Schedule& s_;
  const std::string b_;
  const Windows w_;
  const WindowTile t_;
};

}  // namespace

bool reads_windows(const PrimFunc& f, const std::string& block, const Buffer& buffer) {
  const auto w = windows::windows_of(*find_block(f, block));
  return w && w->image == buffer;
}

bool tile_windows(Schedule& s, const std::string& block, const std::string& epilogue, int multiprocessors) {
  const auto w = windows::windows_of(*find_block(s.func(), block));
  const auto tile = w ? choose_window_tile(w->sizes, multiprocessors) : std::nullopt;
  if (!tile) return false;
  return s.attempt(fmt::format("tiles of {} channels, {} rows and {} columns for the convolution {}",
                               tile->lanes_o * tile->own_o, tile->rows * tile->own_y, tile->lanes_x, block),
                   [&](Schedule& t) { WindowTiler(t, block, *w, *tile).run(epilogue); });
}

bool split_windows(Schedule& s, const std::string& block, int multiprocessors) {
  const auto w = windows::windows_of(*find_block(s.func(), block));
  const int64_t parts = w ? choose_window_parts(w->sizes, multiprocessors) : 1;
  if (parts == 1) return false;
  return s.attempt(fmt::format("the channels of {} in {} parts", block, parts), [&](Schedule& t) {
    t.because(fmt::format("{} results, of {} terms each, are too few for {} multiprocessors",
                          w->sizes.outer * w->sizes.outputs * w->sizes.y.extent * w->sizes.x.extent,
                          w->sizes.channels * w->sizes.taps_beside * w->sizes.y.taps * w->sizes.x.taps,
                          multiprocessors));
    t(fmt::format("part {0}1 = split {1}.{0} [{2}, _]", w->c.loop, block, parts));
    std::vector<std::string> order = {"part"};
    for (const LoopInfo& l : loops_of(t.func(), block))
      if (l.name != "part") order.push_back(l.name);
    t(fmt::format("reorder {} ({})", block, join(order)));
    t(fmt::format("{0}_parts = rfactor {0}.part axis=0", block));
    if (!tile_windows(t, block + "_parts", "", multiprocessors))
      throw ScheduleError(Diagnostic{"the parts get no tiles", {}, {}, ""});
    if (find_param(t.func(), w->out)) t(fmt::format("{0}_out = cache_write {0} local", block));
  });
}

}  // namespace nestor::library
