// What the pool learns from its loops, without a clock, and how many CPUs it may use.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "catch.h"
#include "runtime/pace_rt.h"

namespace {

namespace fs = std::filesystem;

pace new_pace() {
  pace p;
  init_pace(&p);
  return p;
}

// A loop begins `rest` after the last one.
int64_t linger_after(pace& p, int64_t rest) {
  learn_rest(&p, p.rested + rest);
  return p.linger;
}

void none(void*, int64_t, int64_t, int32_t) {}

class Tree {  // a /proc and a /sys
 public:
  Tree() : root_(fs::temp_directory_path() / ("nestor_cgroup_" + std::to_string(getpid()))) {}
  ~Tree() { fs::remove_all(root_); }
  Tree& with(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  int cpus() const { return nestor_quota_cpus((root_.string() + "/").c_str()); }

 private:
  fs::path root_;
};

}  // namespace

TEST_CASE("workers linger through rests that come again, never longer than a bound") {
  pace p = new_pace();
  CHECK(linger_after(p, 1000) == LINGER_LEAST);
  CHECK(linger_after(p, 60000) == 120000);
  CHECK(linger_after(p, 150000) == LINGER_MOST);
  int64_t before = p.linger;
  for (int i = 0; i < 100; ++i) {  // closely following ones: it fades
    const int64_t now = linger_after(p, 1000);
    CHECK((now < before || now == LINGER_LEAST));
    before = now;
  }
  CHECK(before == LINGER_LEAST);
  linger_after(p, 150000);
  for (int i = 0; i < 100; ++i) linger_after(p, 10000000);  // and where rests are too long for it
  CHECK(p.linger == LINGER_LEAST);
}

TEST_CASE("sleepers are woken for work that takes longer than waking them") {
  pace p = new_pace();
  CHECK(worth_waking(&p, 8, none) == UINT32_MAX);  // who knows
  learn_work(&p, 8, none, 10000, 2, 8);
  CHECK(recall(&p, none)->work == 40000);
  CHECK(worth_waking(&p, 8, none) == 0);
  CHECK(worth_waking(&p, 9, none) == UINT32_MAX);  // another loop of the same code
  learn_work(&p, 8, none, 0, 0, 8);                // the caller did nothing of it
  CHECK(recall(&p, none)->work == 40000);
  learn_work(&p, 8, none, 400000, 8, 8);
  CHECK(recall(&p, none)->work == 220000);
  CHECK(worth_waking(&p, 8, none) == 4);
  for (int i = 0; i < 100; ++i) learn_call(&p, 10000);
  CHECK(worth_waking(&p, 8, none) == 3);
}

TEST_CASE("how late workers come is learnt from most of them, and tried again") {
  pace p = new_pace();
  learn_waking(&p, 1000000000);  // one bad case moves it by a step
  CHECK(p.late < 2 * LATE_FIRST);
  for (int i = 0; i < 1000; ++i) learn_waking(&p, i % 10 ? 8000 : 1000000000);
  CHECK(p.late < 16000);
  CHECK(p.late > 6000);
  for (int i = 0; i < 1000; ++i) learn_waking(&p, 1000000000);
  CHECK(p.late == LATE_MOST);
  learn_work(&p, 8, none, 80000, 8, 8);
  int calm = 0;
  while (worth_waking(&p, 8, none) == 0 && calm < 10000) ++calm;
  CHECK(calm > 100);  // rarely, since it costs something
  CHECK(calm < 1000);
}

TEST_CASE("a short loop wakes nobody after a rest") {
  nestor_pool* pool = nestor_pool_create(2);
  nestor_pool_allow(pool, 2);
  const auto switches = [] {  // of all threads: who is woken goes back to sleep
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw;
  };
  constexpr int kLoops = 200;
  for (int i = 0; i < 10; ++i) nestor_parallel_for(pool, 4, none, nullptr);
  const long before = switches();
  for (int i = 0; i < kLoops; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // one switch
    nestor_parallel_for(pool, 4, none, nullptr);
  }
  CHECK(switches() - before < kLoops + kLoops / 2);
  nestor_pool_destroy(pool);
}

TEST_CASE("a pool has no more threads than it gets CPUs") {
  nestor_pool* pool = nestor_pool_create(4);
  nestor_pool_allow(pool, 1);
  std::set<std::thread::id> ran;  // by one thread, or this races
  const auto note = [](void* ctx, int64_t, int64_t, int32_t) {
    static_cast<std::set<std::thread::id>*>(ctx)->insert(std::this_thread::get_id());
  };
  for (int i = 0; i < 100; ++i) {
    nestor_parallel_for(pool, 8, note, &ran);
    nestor_parallel_static(pool, 8, note, &ran);
  }
  CHECK(ran == std::set<std::thread::id>{std::this_thread::get_id()});
  nestor_pool_destroy(pool);
}

TEST_CASE("the quota of processor time is the least of the group's and those above it") {
  CHECK(Tree().cpus() == 0);
  CHECK(Tree().with("proc/self/cgroup", "0::/\n").cpus() == 0);
  CHECK(Tree().with("proc/self/cgroup", "0::/\n").with("sys/fs/cgroup/cpu.max", "max 100000\n").cpus() == 0);
  CHECK(Tree().with("proc/self/cgroup", "0::/\n").with("sys/fs/cgroup/cpu.max", "150000 100000\n").cpus() ==
        2);
  CHECK(Tree()
            .with("proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n")
            .with("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
            .with("sys/fs/cgroup/a/cpu.max", "400000 100000\n")
            .cpus() == 4);
  CHECK(Tree()
            .with("proc/self/cgroup", "0::/a/b\n")
            .with("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n")
            .with("sys/fs/cgroup/a/cpu.max", "800000 100000\n")
            .cpus() == 3);
}

TEST_CASE("the quota of version 1 counts where its controller is the processor's") {
  const std::string v1 = "3:cpuset:/a\n2:cpuacct,cpu:/a\n1:memory:/a\n0::/\n";
  CHECK(Tree()
            .with("proc/self/cgroup", v1)
            .with("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "600000\n")
            .with("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n")
            .cpus() == 6);
  CHECK(Tree()
            .with("proc/self/cgroup", v1)
            .with("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n")
            .with("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n")
            .cpus() == 0);
  CHECK(Tree()
            .with("proc/self/cgroup", "2:cpuset:/a\n")
            .with("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "600000\n")
            .with("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n")
            .cpus() == 0);
}

TEST_CASE("a thread keeps off CPUs while others are left") {
  const nestor_cpus all = nestor_current_cpus();
  int32_t first = 0;
  while (!(all.bits[first / 64] >> first % 64 & 1)) ++first;
  std::thread([&] {
    const int32_t before = nestor_allowed_cpus();
    if (before > 1) {
      CHECK(nestor_avoid_cpus(all, &first, 1) == 0);
      CHECK(!(nestor_current_cpus().bits[first / 64] >> first % 64 & 1));
    }
    CHECK(nestor_pin_thread(first) == 0);
    CHECK(nestor_avoid_cpus(nestor_current_cpus(), &first, 1) == -1);
    CHECK(nestor_allowed_cpus() == 1);
  }).join();
}
