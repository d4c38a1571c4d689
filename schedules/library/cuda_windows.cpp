// A convolution: Y[o,y,x] += P[c, y*sy+r, x*sx+s] * W[o,c,r,s]. A block of threads copies to shared memory
// what a few channels of its tile read, windows and all, so that neither operand is fetched again for each
// place of the window. A thread has outputs of several channels and neighbouring columns: a row of its
// windows stays in registers while it goes through them. All sizes divide, so that nothing is guarded.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "nestor/error.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "schedules/library/cuda_tile.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kMostThreads = 256, kOwnChannels = 8, kOwnColumns = 4, kChannels = 8,
                  kMostShared = 48 << 10;  // that every device has

int64_t divisor(int64_t n, int64_t most) {
  int64_t d = std::min(n, most);
  while (n % d != 0) --d;
  return d;
}

struct Iter {
  Var var;
  int64_t extent = 0;
  std::string loop;
};
struct Windows {
  Buffer out, weights, image;
  std::vector<Expr> places;     // indices of the image
  Iter o, y, x, c;              // channels of the output, rows and columns, channels that are summed
  std::vector<Iter> outer, at;  // batch; places in the window
};

bool is_plain(const Expr& e, const Var& v) {
  const auto* r = e.as<VarRef>();
  return r && r->var == v;
}

std::optional<Windows> windows_of(const Block& block) {
  Windows w;
  Block body = block;
  body.init = {};
  std::vector<BlockAccess> reads;
  BlockAccess write;
  for (const BlockAccess& a : accesses_of(body)) (a.write ? write : reads.emplace_back()) = a;
  if (!write.buffer || reads.size() != 2 || reads[0].buffer == reads[1].buffer) return std::nullopt;
  const auto uses = [](const BlockAccess& a, const Var& v) {
    return std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) { return uses_var(e, v); });
  };
  const auto plain = [](const BlockAccess& a, const Var& v) {
    return std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) { return is_plain(e, v); });
  };
  const auto window = [](const BlockAccess& a) {
    return std::any_of(a.indices.begin(), a.indices.end(),
                       [](const Expr& e) { return !e.as<VarRef>() && !as_int(e); });
  };
  if (window(reads[0]) == window(reads[1])) return std::nullopt;
  const BlockAccess &image = reads[window(reads[0]) ? 0 : 1], &weights = reads[window(reads[0]) ? 1 : 0];
  w.out = write.buffer;
  w.image = image.buffer;
  w.places = image.indices;
  w.weights = weights.buffer;
  if (write.indices.size() < 3) return std::nullopt;
  const Expr &last = write.indices.back(), &before = write.indices[write.indices.size() - 2];
  for (const IterVar& v : block.iters) {
    const auto* loop = v.binding.as<VarRef>();
    if (!loop || !as_int(v.extent)) return std::nullopt;
    const Iter iter{v.var, *as_int(v.extent), loop->var->name};
    if (v.kind == IterKind::reduce) {
      if (!uses(image, v.var) || !uses(weights, v.var)) return std::nullopt;
      if (plain(image, v.var) && !w.c.var)
        w.c = iter;
      else
        w.at.push_back(iter);
    } else if (is_plain(last, v.var)) {
      w.x = iter;
    } else if (is_plain(before, v.var)) {
      w.y = iter;
    } else if (uses(weights, v.var) && !uses(image, v.var) && !w.o.var) {
      w.o = iter;
    } else {
      w.outer.push_back(iter);
    }
  }
  const bool right = w.o.var && w.y.var && w.x.var && w.c.var && w.at.size() == 2 && uses(image, w.x.var) &&
                     uses(image, w.y.var) && !uses(weights, w.x.var) && !uses(weights, w.y.var);
  return right && w.o.extent >= 8 ? std::optional(w) : std::nullopt;
}

class WindowTiler {
 public:
  WindowTiler(Schedule& s, std::string block, Windows w, int64_t multiprocessors)
      : s_(s), b_(std::move(block)), w_(std::move(w)) {
    own_o_ = divisor(w_.o.extent, kOwnChannels);
    own_x_ = divisor(w_.x.extent, kOwnColumns);
    lanes_x_ = divisor(w_.x.extent / own_x_, 32);
    lanes_o_ = divisor(w_.o.extent / own_o_, 8);
    rows_ = divisor(w_.y.extent, std::max<int64_t>(1, kMostThreads / (lanes_x_ * lanes_o_)));
    chunk_ = divisor(w_.c.extent, kChannels);
    while (shared_bytes() > kMostShared && chunk_ > 1) chunk_ = divisor(w_.c.extent, chunk_ - 1);
    while (shared_bytes() > kMostShared && rows_ > 1) rows_ = divisor(w_.y.extent, rows_ - 1);
    while (blocks() < multiprocessors && own_o_ > 1) own_o_ = divisor(w_.o.extent, own_o_ / 2);
    while (blocks() < multiprocessors && rows_ > 1 &&
           lanes_x_ * lanes_o_ * divisor(w_.y.extent, rows_ - 1) >= 64)
      rows_ = divisor(w_.y.extent, rows_ - 1);
  }

  void run(std::string epilogue) {
    const std::string o = w_.o.loop, y = w_.y.loop, x = w_.x.loop, c = w_.c.loop;
    if (epilogue.empty()) {
      epilogue = b_ + "_out";
      step("{} = cache_write {} local", epilogue, b_);
    } else {
      step("set_scope {} local", w_.out->name);
    }
    step("{1}0 {1}l {1}r = split {0}.{1} [_, {2}, {3}]", b_, o, lanes_o_, own_o_);
    step("{1}0 {1}l = split {0}.{1} [_, {2}]", b_, y, rows_);
    step("{1}0 {1}l {1}r = split {0}.{1} [_, {2}, {3}]", b_, x, lanes_x_, own_x_);
    step("{1}0 {1}1 = split {0}.{1} [_, {2}]", b_, c, chunk_);
    std::vector<std::string> outer;
    for (const Iter& i : w_.outer) outer.push_back(i.loop);
    for (const std::string& l : {o + "0", y + "0", x + "0"}) outer.push_back(l);
    const std::string r = w_.at[0].loop, t = w_.at[1].loop;
    step("reorder {} ({} {}0 {}l {}l {}l {}1 {} {} {}r {}r)", b_, join(outer), c, o, y, x, c, r, t, o, x);

    std::vector<std::string> names;
    const Block& reader = *find_block(s_.func(), epilogue);
    for (const IterVar& v : reader.iters) names.push_back("w" + v.binding.as<VarRef>()->var->name);
    step("{} = reverse_compute_at {} {}.{}0", join(names), epilogue, b_, x);
    const std::string wo = "w" + o, wy = "w" + y, wx = "w" + x;
    step("{1}l {1}r = split {0}.{1} [{2}, {3}]", epilogue, wo, lanes_o_, own_o_);
    step("{1}l {1}r = split {0}.{1} [{2}, {3}]", epilogue, wx, lanes_x_, own_x_);
    step("reorder {} ({}l {} {}l {}r {}r)", epilogue, wo, wy, wx, wo, wx);

    const std::string weights = shared(w_.weights, c), image = shared(w_.image, c);
    step("{}_init = decompose_reduction {}.{}0", b_, b_, c);
    std::string grid = outer[0];
    if (outer.size() > 1) step("{} = fuse {} ({})", grid = "gb", b_, join(outer));
    step("bind {}.{} blockIdx.x", b_, grid);
    for (const std::string& b : {b_, b_ + "_init"}) bind_threads(b, o + "l", {y + "l", x + "l"});
    bind_threads(epilogue, wo + "l", {wy, wx + "l"});
    for (const std::string& copy : {weights, image}) {
      std::vector<std::string> own;
      for (const LoopInfo& l : loops_of(s_.func(), copy))
        if (l.kind == ForKind::serial && l.name != c + "0" && l.extent > 1) own.push_back(l.name);
      // Of the image its rows and columns, of the weights their channels; the rest goes by turns.
      if (own.size() > 2 && copy == image) own.erase(own.begin(), own.end() - 2);
      if (own.size() > 2) own.erase(own.begin() + 2, own.end());
      step("cc = fuse {} ({})", copy, join(own));
      step("cs cy cx = split {}.cc [_, {}, {}]", copy, lanes_o_, lanes_x_ * rows_);
      step("bind {}.cy threadIdx.y", copy);
      step("bind {}.cx threadIdx.x", copy);
    }
    if (own_x_ > 1) step("vectorize {}.{}r", epilogue, wx);
    step("unroll {0} ({1} {2} {3}r {4}r)", b_, r, t, o, x);
  }

 private:
  template <class... Args>
  void step(const char* format, const Args&... args) {
    s_(fmt::format(fmt::runtime(format), args...));
  }
  int64_t blocks() const {
    int64_t n =
        w_.o.extent / (lanes_o_ * own_o_) * (w_.y.extent / rows_) * (w_.x.extent / (lanes_x_ * own_x_));
    for (const Iter& i : w_.outer) n *= i.extent;
    return n;
  }

  int64_t shared_bytes() const {
    int64_t image = 1, weights = (lanes_o_ * own_o_ + 4) * chunk_;
    const auto extent = [&](const Var& v) {
      for (const Iter& i : w_.at)
        if (i.var == v) return i.extent;
      return v == w_.x.var ? lanes_x_ * own_x_ : v == w_.y.var ? rows_ : v == w_.c.var ? chunk_ : 1;
    };
    for (const Expr& e : w_.places) {
      const auto sum = as_affine(e);
      int64_t span = 1;
      if (sum)
        for (const auto& [v, by] : sum->terms) span += std::abs(by) * (extent(v) - 1);
      image *= span;
    }
    for (const Iter& i : w_.at) weights *= i.extent;
    return (image + weights) * bytes_of(w_.image->type.dtype);
  }

  // The copy of an operand in shared memory, and what a thread has of it: of the image a row of windows, of
  // the weights those of one place.
  std::string shared(const Buffer& operand, const std::string& c) {
    std::string copy;
    for (const std::string& name : block_names(s_.func()))
      for (const BlockAccess& a : accesses_of(*find_block(s_.func(), name)))
        if (a.write && a.buffer == operand) copy = name;
    const bool image = operand == w_.image;
    std::string tile = operand->name;
    if (copy.empty()) {
      copy = operand->name + "_tile";
      step("{} = cache_read {} {} shared", copy, b_, operand->name);
      tile = copy;
    } else {
      step("set_scope {} shared", operand->name);
    }
    const std::string own = operand->name + "_own";
    step("{} = cache_read {} {} local", own, b_, tile);
    step("compute_at {} {}.{}", own, b_, w_.at[image ? 0 : 1].loop);
    step("compute_at {} {}.{}0", copy, b_, c);
    if (!image) {
      step("transform_layout {} (o, c, r, s) -> (c, r, s, o)", tile);
      step("storage_align {} 2 32 4", tile);
      if (own_o_ % 2 == 0)
        for (const LoopInfo& l : loops_of(s_.func(), own))
          if (l.extent == own_o_ && l.kind == ForKind::serial && l.name == "o") {
            step("vectorize {}.{}", own, l.name);
            break;
          }
    }
    return copy;
  }

  void bind_threads(const std::string& block, const std::string& channels,
                    const std::vector<std::string>& loops) {
    std::vector<std::string> there;
    for (const LoopInfo& l : loops_of(s_.func(), block)) {
      if (std::find(loops.begin(), loops.end(), l.name) != loops.end()) there.push_back(l.name);
      if (l.name == channels) step("bind {}.{} threadIdx.y", block, channels);
    }
    if (there.empty()) return;
    std::string thread = there[0];
    if (there.size() > 1) step("{} = fuse {} ({})", thread = "gt", block, join(there));
    step("bind {}.{} threadIdx.x", block, thread);
  }

  Schedule& s_;
  const std::string b_;
  const Windows w_;
  int64_t own_o_, own_x_, lanes_x_, lanes_o_, rows_, chunk_ = 1;

 public:
  bool fits() const { return shared_bytes() <= kMostShared; }
};

}  // namespace

bool reads_windows(const PrimFunc& f, const std::string& block, const Buffer& buffer) {
  const auto w = windows_of(*find_block(f, block));
  return w && w->image == buffer;
}

bool tile_windows(Schedule& s, const std::string& block, const std::string& epilogue, int multiprocessors) {
  const auto w = windows_of(*find_block(s.func(), block));
  if (!w) return false;
  return s.attempt("windows in shared memory for " + block, [&](Schedule& t) {
    WindowTiler tiler(t, block, *w, multiprocessors);
    if (!tiler.fits())
      throw ScheduleError(Diagnostic{"windows and weights don't fit in shared memory", {}, {}, ""});
    tiler.run(epilogue);
  });
}

}  // namespace nestor::library
