// A pool that is watched, and one whose process was forked.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "catch.h"
#include "runtime/kernel_rt.h"

namespace {

using Pool = std::unique_ptr<nestor_pool, decltype(&nestor_pool_destroy)>;

Pool pool_of_three() {
  Pool pool(nestor_pool_create(3), nestor_pool_destroy);
  nestor_pool_allow(pool.get(), 3);  // also where there are fewer CPUs
  return pool;
}

struct Seen {
  std::mutex mutex;
  std::vector<int> begun = std::vector<int>(100), done = std::vector<int>(100);
  bool in_order = true;
};

void watch(void* seen, int32_t, int64_t begin, int64_t end, int32_t done) {
  auto& s = *static_cast<Seen*>(seen);
  const std::lock_guard one(s.mutex);
  for (int64_t i = begin; i < end; ++i) {
    const auto at = static_cast<size_t>(i);
    s.in_order &= !done || s.begun[at] == s.done[at] + 1;
    ++(done ? s.done : s.begun)[at];
  }
}

// Each iteration waits for a second thread, for a while.
struct Meeting {
  std::atomic<int> inside{0}, most{0};
};
void meet(void* meeting, int64_t begin, int64_t end, int32_t) {
  auto& m = *static_cast<Meeting*>(meeting);
  for (int64_t i = begin; i < end; ++i) {
    const int now = ++m.inside;
    if (now > m.most) m.most = now;
    for (int k = 0; k < 2000 && m.most < 2; ++k) usleep(100);
    --m.inside;
  }
}

}  // namespace

TEST_CASE("who watches a pool is told of each iteration once, when it begins and when it is done") {
  Pool pool = pool_of_three();
  Seen seen;
  nestor_pool_watch(pool.get(), watch, &seen);
  std::atomic<int> ran{0};
  const auto count = [](void* ran, int64_t begin, int64_t end, int32_t) {
    *static_cast<std::atomic<int>*>(ran) += static_cast<int>(end - begin);
  };
  nestor_parallel_for(pool.get(), 100, count, &ran);
  nestor_parallel_static(pool.get(), 100, count, &ran);
  CHECK(ran == 200);
  CHECK(seen.in_order);
  CHECK(seen.begun == std::vector<int>(100, 2));
  CHECK(seen.done == std::vector<int>(100, 2));
  nestor_pool_watch(pool.get(), nullptr, nullptr);
  nestor_parallel_for(pool.get(), 100, count, &ran);
  CHECK(seen.done == std::vector<int>(100, 2));
}

#ifndef __SANITIZE_THREAD__  // it allows a forked process no threads
TEST_CASE("a forked process that tells its pool has threads of its own") {
  Pool pool = pool_of_three();
  Meeting before;
  nestor_parallel_static(pool.get(), 3, meet, &before);
  CHECK(before.most >= 2);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // rather than wait for ever
    nestor_pool_forked(pool.get());
    Meeting here;
    nestor_parallel_static(pool.get(), 3, meet, &here);
    pool.reset();
    _exit(here.most >= 2 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif
