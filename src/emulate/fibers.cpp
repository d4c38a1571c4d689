#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstring>

#include "src/emulate/block_run.h"
#include "src/emulate/lines.h"

namespace nestor {

namespace {

namespace ctx = boost::context;
constexpr size_t kStack = 64 << 10;

// Fibers that never end are unwound when this goes.
class FiberRun : public BlockRun {
 public:
  using BlockRun::BlockRun;

  std::string run(const std::vector<size_t>& order) override {
    ctx::fixedsize_stack stacks(kStack);
    fibers_.resize(threads_);
    for (Thread& t : fibers_)
      t.fiber = ctx::fiber(std::allocator_arg, stacks, [this, &t](ctx::fiber&& host) {
        host_ = std::move(host);
        e_.stack = t.stack = __builtin_frame_address(0);
        kernel_.thread(args_);
        return std::move(host_);
      });
    const std::vector<std::vector<size_t>> warps = by_warps(order);
    do {
      for (const std::vector<size_t>& lanes : warps) do
          for (const size_t t : lanes) resume(t);
        while (problem_.empty() && let_lanes_go(lanes));
    } while (problem_.empty() && let_all_go());
    return problem_;
  }

 private:
  struct Thread {
    ctx::fiber fiber;
    Emulation::Meeting meeting{};
    bool waits = false;
    void* stack = nullptr;
    bool finished() const { return !fiber; }
  };

  // In order of each one's first thread.
  static std::vector<std::vector<size_t>> by_warps(const std::vector<size_t>& order) {
    std::vector<std::vector<size_t>> out;
    std::vector<size_t> place((order.size() + kWarpSize - 1) / kWarpSize, SIZE_MAX);
    for (const size_t t : order) {
      size_t& w = place[t / kWarpSize];
      if (w == SIZE_MAX) {
        w = out.size();
        out.emplace_back();
      }
      out[w].push_back(t);
    }
    return out;
  }

  void resume(size_t t) {
    if (fibers_[t].finished() || fibers_[t].waits || !problem_.empty()) return;
    start(t, fibers_[t].stack);
    fibers_[t].fiber = std::move(fibers_[t].fiber).resume();
  }

  void meet(const Emulation::Meeting& m) override {
    fibers_[running_].meeting = m;
    fibers_[running_].waits = true;
    host_ = std::move(host_).resume();
  }

  std::string state(size_t t) const {
    if (t >= threads_) return "isn't in the block";
    if (fibers_[t].finished()) return "has finished";
    const Emulation::Meeting& m = fibers_[t].meeting;
    std::array<char, 16> mask{};
    std::snprintf(mask.data(), mask.size(), "0x%x", m.mask);
    return (m.of_warp ? std::string("waits for lanes ") + mask.data() : "waits for the block") + " at " +
           quoted(kernel_, m.line);
  }

  void say_missing(size_t who, size_t for_whom) {
    problem_ = name(who) + " " + state(who) + ", and thread " + std::to_string(for_whom) + " of the block " +
               state(for_whom);
  }

  bool waits_for_warp(size_t t) const {
    return t < threads_ && !fibers_[t].finished() && fibers_[t].waits && fibers_[t].meeting.of_warp;
  }

  // True if some lanes of the warp met and go on. Others wait for these; where none met, none ever will.
  bool let_lanes_go(const std::vector<size_t>& lanes) {
    bool any = false;
    size_t in_vain = SIZE_MAX;
    for (const size_t t : lanes) {
      if (!waits_for_warp(t)) continue;
      if (missing_lane(t) == SIZE_MAX) {
        exchange(t);
        any = true;
      } else {
        in_vain = std::min(in_vain, t);
      }
    }
    if (any || in_vain == SIZE_MAX) return any;
    const size_t missing = missing_lane(in_vain);
    if (missing == in_vain)
      problem_ = name(in_vain) + " " + state(in_vain) + ", which doesn't name its own";
    else
      say_missing(in_vain, missing);
    return false;
  }

  // Which of the threads that t waits for isn't where t is; SIZE_MAX: all are. t itself where its mask lacks
  // it.
  size_t missing_lane(size_t t) const {
    const Emulation::Meeting& m = fibers_[t].meeting;
    const size_t first = t / kWarpSize * kWarpSize;
    if ((m.mask >> (t - first) & 1) == 0) return t;
    for (size_t lane = 0; lane < kWarpSize; ++lane) {
      if ((m.mask >> lane & 1) == 0) continue;
      const size_t other = first + lane;
      if (!waits_for_warp(other)) return other;
      const Emulation::Meeting& o = fibers_[other].meeting;
      if (o.line != m.line || o.mask != m.mask || o.bytes != m.bytes) return other;
    }
    return SIZE_MAX;
  }

  void exchange(size_t t) {
    const Emulation::Meeting m = fibers_[t].meeting;
    const size_t first = t / kWarpSize * kWarpSize;
    Thread* lanes = &fibers_[first];
    for (size_t to = 0; to < kWarpSize; ++to)
      for (size_t from = 0; from < kWarpSize; ++from)
        if (m.bytes > 0 && m.mask >> to & 1 && m.mask >> from & 1)
          std::memcpy(static_cast<char*>(lanes[to].meeting.values) + from * m.bytes,
                      lanes[from].meeting.value, m.bytes);
    for (size_t lane = 0; lane < kWarpSize; ++lane)
      if (m.mask >> lane & 1) lanes[lane].waits = false;
    for (LaunchObserver* o : observers_) o->lanes_meet(first, m.mask);
  }

  // True if the block's threads met at a barrier and go on; false where all have finished, too.
  bool let_all_go() {
    const auto first =
        std::find_if(fibers_.begin(), fibers_.end(), [](const Thread& t) { return !t.finished(); });
    if (first == fibers_.end()) return false;
    for (size_t t = 0; t < threads_; ++t)
      if (fibers_[t].finished() || fibers_[t].meeting.line != first->meeting.line) {
        say_missing(static_cast<size_t>(first - fibers_.begin()), t);
        return false;
      }
    for (Thread& t : fibers_) t.waits = false;
    for (LaunchObserver* o : observers_) o->block_meets();
    return true;
  }

  std::vector<Thread> fibers_;
  ctx::fiber host_;
};

}  // namespace

std::string run_fibers(Emulation& e, const EmulatedKernel& kernel, void** args, LaunchMemory& memory,
                       const std::vector<LaunchObserver*>& observers, const std::vector<size_t>& order) {
  return FiberRun(e, kernel, args, memory, observers).run(order);
}

}  // namespace nestor
