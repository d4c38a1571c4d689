#include "src/emulate/blocks.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstring>
#include <numeric>

namespace nestor {

namespace {

namespace ctx = boost::context;
constexpr size_t kStack = 64 << 10, kWarp = 32;

size_t volume(Emulation::Index d) {
  return size_t{d.x} * d.y * d.z;
}

Emulation::Index index_of(size_t number, Emulation::Index d) {
  const auto n = static_cast<unsigned>(number);
  return {n % d.x, n / d.x % d.y, n / d.x / d.y};
}

// "line 12: `__syncthreads();`"
std::string quoted(const EmulatedKernel& kernel, int line) {
  const char* at = kernel.text;
  for (int i = 1; i < line && at; ++i) {
    at = std::strchr(at, '\n');
    if (at) ++at;
  }
  std::string text = "line " + std::to_string(line);
  if (!at || !*at) return text;
  std::string words(at, std::strcspn(at, "\n"));
  words.erase(0, words.find_first_not_of(' '));
  return text + ": `" + words + "`";
}

// The threads of one block as fibers.
class BlockRun {
 public:
  BlockRun(Emulation& e, const EmulatedKernel& kernel, void** args, ctx::fixedsize_stack& stacks)
      : e_(e), kernel_(kernel), threads_(volume(e.block_dim)) {
    e.self = this;
    e.meet = [](void* self, const Emulation::Meeting& m) { static_cast<BlockRun*>(self)->meet(m); };
    e.report = [](void* self, const char* what) { static_cast<BlockRun*>(self)->report(what); };
    for (Thread& t : threads_)
      t.fiber = ctx::fiber(std::allocator_arg, stacks, [this, args](ctx::fiber&& host) {
        host_ = std::move(host);
        kernel_.thread(args);
        return std::move(host_);
      });
  }

  // Fibers that never end are unwound when this goes.
  std::string run(const std::vector<size_t>& order) {
    std::vector<std::vector<size_t>> warps;
    std::vector<size_t> place((threads_.size() + kWarp - 1) / kWarp, SIZE_MAX);
    for (const size_t t : order) {
      size_t& w = place[t / kWarp];
      if (w == SIZE_MAX) {
        w = warps.size();
        warps.emplace_back();
      }
      warps[w].push_back(t);
    }
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
    bool finished() const { return !fiber; }
  };

  void resume(size_t t) {
    if (threads_[t].finished() || threads_[t].waits) return;
    running_ = t;
    e_.thread = index_of(t, e_.block_dim);
    threads_[t].fiber = std::move(threads_[t].fiber).resume();
  }

  void meet(const Emulation::Meeting& m) {
    const size_t me = running_;
    threads_[me].meeting = m;
    threads_[me].waits = true;
    host_ = std::move(host_).resume();
  }

  void report(const std::string& what) {
    if (problem_.empty()) problem_ = what + " (" + name(running_) + ")";
  }

  std::string name(size_t t) const {
    const Emulation::Index i = index_of(t, e_.block_dim), b = e_.block;
    const auto list = [](Emulation::Index x) {
      return "(" + std::to_string(x.x) + "," + std::to_string(x.y) + "," + std::to_string(x.z) + ")";
    };
    return "thread " + list(i) + " of block " + list(b);
  }

  std::string state(size_t t) const {
    if (t >= threads_.size()) return "isn't in the block";
    if (threads_[t].finished()) return "has finished";
    const Emulation::Meeting& m = threads_[t].meeting;
    char mask[16];
    std::snprintf(mask, sizeof mask, "0x%x", m.mask);
    return (m.of_warp ? std::string("waits for lanes ") + mask : std::string("waits for the block")) +
           " at " + quoted(kernel_, m.line);
  }

  void say_missing(size_t who, size_t for_whom) {
    problem_ = name(who) + " " + state(who) + ", and thread " + std::to_string(for_whom) + " of the block " +
               state(for_whom);
  }

  bool waits_for_warp(size_t t) const {
    return t < threads_.size() && !threads_[t].finished() && threads_[t].waits && threads_[t].meeting.of_warp;
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
    const Emulation::Meeting& m = threads_[t].meeting;
    const size_t first = t / kWarp * kWarp;
    if ((m.mask >> (t - first) & 1) == 0) return t;
    for (size_t lane = 0; lane < kWarp; ++lane) {
      if ((m.mask >> lane & 1) == 0) continue;
      const size_t other = first + lane;
      if (!waits_for_warp(other)) return other;
      const Emulation::Meeting& o = threads_[other].meeting;
      if (o.line != m.line || o.mask != m.mask || o.bytes != m.bytes) return other;
    }
    return SIZE_MAX;
  }

  void exchange(size_t t) {
    const Emulation::Meeting m = threads_[t].meeting;
    Thread* first = &threads_[t / kWarp * kWarp];
    for (size_t to = 0; to < kWarp; ++to)
      for (size_t from = 0; from < kWarp; ++from)
        if (m.bytes > 0 && m.mask >> to & 1 && m.mask >> from & 1)
          std::memcpy(static_cast<char*>(first[to].meeting.values) + from * m.bytes,
                      first[from].meeting.value, m.bytes);
    for (size_t lane = 0; lane < kWarp; ++lane)
      if (m.mask >> lane & 1) first[lane].waits = false;
  }

  // True if the block's threads met at a barrier and go on; false where all have finished, too.
  bool let_all_go() {
    const auto waits = [](const Thread& t) { return !t.finished(); };
    const auto first = std::find_if(threads_.begin(), threads_.end(), waits);
    if (first == threads_.end()) return false;
    for (const Thread& t : threads_)
      if (t.finished() || t.meeting.line != first->meeting.line) {
        say_missing(static_cast<size_t>(first - threads_.begin()), static_cast<size_t>(&t - threads_.data()));
        return false;
      }
    for (Thread& t : threads_) t.waits = false;
    return true;
  }

  Emulation& e_;
  const EmulatedKernel& kernel_;
  std::vector<Thread> threads_;
  ctx::fiber host_;
  size_t running_ = 0;
  std::string problem_;
};

// Without fibers.
std::string run_calls(Emulation& e, const EmulatedKernel& kernel, void** args,
                      const std::vector<size_t>& order) {
  std::string problem;
  e.self = &problem;
  e.meet = [](void* self, const Emulation::Meeting& m) {
    *static_cast<std::string*>(self) = "threads wait for one another at line " + std::to_string(m.line) +
                                       ", in a kernel that says they don't";
  };
  e.report = [](void* self, const char* what) { *static_cast<std::string*>(self) = what; };
  for (const size_t t : order) {
    e.thread = index_of(t, e.block_dim);
    kernel.thread(args);
  }
  return problem;
}

// Dynamic shared memory, and garbage behind it that has to stay.
class DynamicShared {
 public:
  explicit DynamicShared(size_t bytes) : bytes_(bytes), memory_(bytes + kBehind + kAligned) {}
  char* data() {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (kAligned - at % kAligned) % kAligned;
  }
  void poison() { std::memset(memory_.data(), kGarbage, memory_.size()); }
  bool is_written_behind() {
    const char* end = data() + bytes_;
    return std::any_of(end, end + kBehind, [](char c) { return c != static_cast<char>(kGarbage); });
  }

 private:
  static constexpr size_t kBehind = 4096, kAligned = 1024;
  static constexpr int kGarbage = 0xff;
  size_t bytes_;
  std::vector<char> memory_;
};

}  // namespace

std::string run_emulated(const EmulatedLibrary& library, const EmulatedKernel& kernel, void** args,
                         const EmulatedLaunch& launch, const EmulatedOrder& order) {
  Emulation e{};
  e.grid_dim = launch.grid;
  e.block_dim = launch.block;
  library.attach(&e);
  std::vector<size_t> blocks(volume(launch.grid)), threads(volume(launch.block));
  std::iota(blocks.begin(), blocks.end(), size_t{0});
  std::iota(threads.begin(), threads.end(), size_t{0});
  if (order) blocks = order(blocks.size());
  ctx::fixedsize_stack stacks(kStack);
  DynamicShared shared(launch.dynamic_shared);
  e.dynamic_shared = shared.data();
  for (const size_t b : blocks) {
    e.block = index_of(b, launch.grid);
    if (order) threads = order(threads.size());
    library.poison();
    shared.poison();
    std::string problem =
        kernel.waits ? BlockRun(e, kernel, args, stacks).run(threads) : run_calls(e, kernel, args, threads);
    if (problem.empty() && shared.is_written_behind())
      problem = "a thread writes behind the " + std::to_string(launch.dynamic_shared) +
                " bytes of dynamic shared memory";
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace nestor
