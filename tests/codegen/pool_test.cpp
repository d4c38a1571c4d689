// The kernels' thread pool under pressure: every iteration runs once, whatever else goes on.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/pinning.h"
#include "runtime/kernel_rt.h"

namespace {

using Pool = std::unique_ptr<nestor_pool, void (*)(nestor_pool*)>;
// As many threads as that, whatever there are of CPUs.
Pool make_pool(int threads) {
  Pool pool{nestor_pool_create(threads), nestor_pool_destroy};
  nestor_pool_allow(pool.get(), threads);
  return pool;
}

struct Counts {
  explicit Counts(int64_t n) : ran(static_cast<size_t>(n)) {}
  std::vector<std::atomic<int>> ran;
  std::atomic<int> bad_worker{0};
  std::vector<std::atomic<int>> busy = std::vector<std::atomic<int>>(64);
};

void count(void* ctx, int64_t begin, int64_t end, int32_t worker) {
  auto& c = *static_cast<Counts*>(ctx);
  if (c.busy[static_cast<size_t>(worker)].fetch_add(1) != 0) ++c.bad_worker;
  for (int64_t i = begin; i < end; ++i) ++c.ran[static_cast<size_t>(i)];
  c.busy[static_cast<size_t>(worker)].fetch_sub(1);
}

bool all_once(const Counts& c) {
  for (const auto& n : c.ran)
    if (n != 1) return false;
  return c.bad_worker == 0;
}

}  // namespace

TEST_CASE("each iteration runs once, for any count and any number of threads") {
  for (int threads : {1, 2, 3, 7}) {
    Pool pool = make_pool(threads);
    CHECK(nestor_pool_threads(pool.get()) == threads);
    for (int64_t n : {0, 1, 2, 3, 7, 8, 9, 27, 28, 29, 1000}) {
      Counts c(n);
      nestor_parallel_for(pool.get(), n, count, &c);
      CHECK(all_once(c));
    }
  }
}

TEST_CASE("without a pool the loop runs in the caller") {
  CHECK(nestor_pool_threads(nullptr) == 1);
  std::set<std::thread::id> threads;
  const auto task = [](void* ctx, int64_t begin, int64_t end, int32_t worker) {
    CHECK(begin == 0);
    CHECK(end == 5);
    CHECK(worker == 0);
    static_cast<std::set<std::thread::id>*>(ctx)->insert(std::this_thread::get_id());
  };
  nestor_parallel_for(nullptr, 5, task, &threads);
  CHECK(threads == std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_CASE("loops follow each other without rest, and after rests long enough to fall asleep") {
  Pool pool = make_pool(4);
  for (int round = 0; round < 3000; ++round) {
    Counts c(round % 40);
    nestor_parallel_for(pool.get(), round % 40, count, &c);
    if (!all_once(c)) FAIL("round " << round);
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

TEST_CASE("several threads share one pool, and use pools of their own") {
  Pool shared = make_pool(3);
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      Pool own = make_pool(2);
      for (int round = 0; round < 300; ++round) {
        Counts a(17), b(5);
        nestor_parallel_for(shared.get(), 17, count, &a);
        nestor_parallel_for(own.get(), 5, count, &b);
        if (!all_once(a) || !all_once(b)) ++failures;
      }
    });
  for (std::thread& t : callers) t.join();
  CHECK(failures == 0);
}

TEST_CASE("a loop inside a loop runs serially, on its own pool or another") {
  struct Nested {
    nestor_pool* pool;
    std::atomic<int> total{0}, split{0};
  };
  Pool outer = make_pool(3), other = make_pool(2);
  for (nestor_pool* inner : {outer.get(), other.get()}) {
    Nested nested{inner};
    const auto leaf = [](void* ctx, int64_t begin, int64_t end, int32_t) {
      auto& n = *static_cast<Nested*>(ctx);
      if (begin != 0 || end != 10) ++n.split;
      n.total += static_cast<int>(end - begin);
    };
    struct Both {
      Nested* nested;
      nestor_task leaf;
    } both{&nested, leaf};
    const auto branch = [](void* ctx, int64_t begin, int64_t end, int32_t) {
      auto& b = *static_cast<Both*>(ctx);
      for (int64_t i = begin; i < end; ++i) nestor_parallel_for(b.nested->pool, 10, b.leaf, b.nested);
    };
    nestor_parallel_for(outer.get(), 20, branch, &both);
    nestor_parallel_for(outer.get(), 1, branch, &both);  // shared with nobody, and a loop all the same
    CHECK(nested.total == 210);
    CHECK(nested.split == 0);
  }
}

TEST_CASE("a long iteration lets the caller sleep and wakes it") {
  Pool pool = make_pool(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done{0};
    const auto task = [](void* ctx, int64_t begin, int64_t end, int32_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(begin % 2 ? 3 : 0));
      static_cast<std::atomic<int>*>(ctx)->fetch_add(static_cast<int>(end - begin));
    };
    nestor_parallel_for(pool.get(), 8, task, &done);
    CHECK(done == 8);
  }
}

TEST_CASE("a host's own parallel loop takes the place of the workers") {
  int calls = 0;
  const auto run = [](void* host, int64_t n, nestor_task fn, void* ctx) {
    ++*static_cast<int*>(host);
    fn(ctx, n / 2, n, 1);
    fn(ctx, 0, n / 2, 0);
  };
  Pool pool{nestor_pool_from_host(2, run, &calls), nestor_pool_destroy};
  Counts c(9);
  nestor_parallel_for(pool.get(), 9, count, &c);
  CHECK(all_once(c));
  CHECK(calls == 1);
}

TEST_CASE("a pool that never ran, and one that just ran, can be destroyed") {
  make_pool(8);
  for (int round = 0; round < 50; ++round) {
    Pool pool = make_pool(3);
    Counts c(6);
    nestor_parallel_for(pool.get(), 6, count, &c);
    CHECK(all_once(c));
  }
}

TEST_CASE("a forked process has no workers: it does all by itself, and may destroy the pool") {
  Pool pool = make_pool(3);
  Counts before(6);
  nestor_parallel_for(pool.get(), 6, count, &before);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // rather than wait for ever
    Counts dynamic(29), of_parts(29);
    nestor_parallel_for(pool.get(), 29, count, &dynamic);
    nestor_parallel_static(pool.get(), 29, count, &of_parts);
    // Threads of the child get the stacks, and with them the names, of the workers that it doesn't have:
    // joining those would wait for these. The thread sanitizer allows a forked process no threads.
#ifdef __SANITIZE_THREAD__
    constexpr int kStrangers = 0;
#else
    constexpr int kStrangers = 2;
#endif
    std::atomic<bool> destroyed{false};
    std::vector<std::thread> strangers;
    for (int i = 0; i < kStrangers; ++i)
      strangers.emplace_back([&] {
        while (!destroyed) std::this_thread::yield();
      });
    pool.reset();
    destroyed = true;
    for (std::thread& t : strangers) t.join();
    _exit(all_once(dynamic) && all_once(of_parts) ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  Counts after(6);
  nestor_parallel_for(pool.get(), 6, count, &after);
  CHECK(all_once(after));
}

TEST_CASE("a loop inside a host's loop runs serially and doesn't ask the host again") {
  int host_loops = 0;
  const auto run = [](void* host, int64_t n, nestor_task fn, void* ctx) {
    ++*static_cast<int*>(host);
    fn(ctx, 0, n, 1);
  };
  struct Nested {
    nestor_pool* pool;
    int inner_workers = 0, inner = 0;
  } state{nestor_pool_from_host(2, run, &host_loops)};
  nestor_parallel_for(
      state.pool, 3,
      [](void* ctx, int64_t begin, int64_t end, int32_t) {
        for (int64_t i = begin; i < end; ++i)
          nestor_parallel_for(
              static_cast<Nested*>(ctx)->pool, 5,
              [](void* inner, int64_t b, int64_t e, int32_t worker) {
                static_cast<Nested*>(inner)->inner += static_cast<int>(e - b);
                static_cast<Nested*>(inner)->inner_workers += worker;
              },
              ctx);
      },
      &state);
  nestor_pool_destroy(state.pool);
  CHECK(host_loops == 1);
  CHECK(state.inner == 15);
  CHECK(state.inner_workers == 0);
}

TEST_CASE("a static split gives each worker one part, the same in every loop, unless it is late or asleep") {
  for (const int threads : {1, 2, 3, 7}) {
    Pool pool = make_pool(threads);
    for (const int64_t n : {0, 1, 2, 3, 7, 29, 1000}) {
      for (int round = 0; round < 20; ++round) {
        Counts c(n);
        nestor_parallel_static(pool.get(), n, count, &c);
        CHECK(all_once(c));
        nestor_parallel_for(pool.get(), n, count, &c);  // the two kinds may follow each other
        for (const auto& ran : c.ran) CHECK(ran == 2);
      }
    }
  }
  struct Parts {
    std::atomic<int> unequal{0}, moved{0}, calls{0};
  } parts;
  Pool pool = make_pool(3);
  for (int round = 0; round < 200; ++round)
    nestor_parallel_static(
        pool.get(), 10,
        [](void* ctx, int64_t begin, int64_t end, int32_t worker) {
          auto& p = *static_cast<Parts*>(ctx);
          ++p.calls;
          const int64_t part = begin == 0 ? 0 : begin == 4 ? 1 : 2;
          const bool equal = end == (part == 0 ? 4 : part == 1 ? 7 : 10);
          (!equal ? p.unequal : p.moved) += !equal || (worker != part && worker != 0);
        },
        &parts);
  CHECK(parts.calls == 600);
  CHECK((parts.unequal == 0 && parts.moved < 100));
}

TEST_CASE("of a dynamic split each thread begins with its own part, and ends with the others' last chunks") {
  struct State {
    std::vector<std::vector<int64_t>> began = {{}, {}};
    std::atomic<int> ran{0};
    std::atomic<bool> worker_came{false};
    static void wait_for(const std::function<bool()>& what) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!what() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
  } state;
  Pool pool = make_pool(2);
  nestor_parallel_for(
      pool.get(), 8,
      [](void* ctx, int64_t begin, int64_t, int32_t worker) {
        auto& s = *static_cast<State*>(ctx);
        s.began[static_cast<size_t>(worker)].push_back(begin);
        if (worker == 1) s.worker_came = true;
        if (worker == 1) State::wait_for([&] { return s.ran == 7; });
        if (begin == 0) State::wait_for([&] { return s.worker_came.load(); });
        ++s.ran;
      },
      &state);
  CHECK(state.began == std::vector<std::vector<int64_t>>{{0, 1, 2, 3, 7, 6, 5}, {4}});
}

TEST_CASE("a pool that keeps parts splits every loop statically") {
  Pool pool = make_pool(3);
  nestor_pool_keep_parts(pool.get());
  std::atomic<int> calls{0};
  for (int round = 0; round < 50; ++round)
    nestor_parallel_for(
        pool.get(), 10,
        [](void* ctx, int64_t begin, int64_t end, int32_t) {
          if (end - begin >= 3) ++*static_cast<std::atomic<int>*>(ctx);  // chunks would be of one iteration
        },
        &calls);
  CHECK(calls == 150);
}

TEST_CASE("a static loop inside a loop runs serially, and asks a host for its own") {
  int host_loops = 0;
  const auto run = [](void* host, int64_t n, nestor_task fn, void* ctx) {
    ++*static_cast<int*>(host);
    fn(ctx, 0, n, 1);
  };
  Pool host{nestor_pool_from_host(2, run, &host_loops), nestor_pool_destroy}, own = make_pool(2);
  for (nestor_pool* pool : {host.get(), own.get()}) {
    struct Nested {
      nestor_pool* pool;
      std::atomic<int> split{0}, ran{0};
    } nested{pool};
    nestor_parallel_static(
        pool, 2,
        [](void* ctx, int64_t begin, int64_t end, int32_t) {
          auto& n = *static_cast<Nested*>(ctx);
          for (int64_t i = begin; i < end; ++i)
            nestor_parallel_static(
                n.pool, 5,
                [](void* inner, int64_t b, int64_t e, int32_t worker) {
                  static_cast<Nested*>(inner)->split += b != 0 || e != 5 || worker != 0;
                  static_cast<Nested*>(inner)->ran += static_cast<int>(e - b);
                },
                ctx);
        },
        &nested);
    CHECK(nested.split == 0);
    CHECK(nested.ran == 10);
  }
  CHECK(host_loops == 1);
}

TEST_CASE("workers stay where they are pinned, the caller isn't touched") {
  const std::vector<int32_t> cpus = nestor::cpus_for(3, nestor::Pinning::compact);
  REQUIRE(cpus.size() == 3);
  const std::set<int32_t> different(cpus.begin(), cpus.end());
  CHECK(different.size() == std::min<size_t>(3, std::thread::hardware_concurrency()));
  CHECK(nestor::cpus_for(3, nestor::Pinning::none).empty());
  const auto allowed = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return set;
  };
  const cpu_set_t before = allowed();
  Pool pool = make_pool(3);
  nestor_pool_pin(pool.get(), cpus.data());
  struct Seen {
    const std::vector<int32_t>& cpus;
    std::atomic<int> elsewhere{0};
  } seen{cpus};
  for (int round = 0; round < 50; ++round)
    nestor_parallel_static(
        pool.get(), 3,
        [](void* ctx, int64_t, int64_t, int32_t worker) {
          auto& s = *static_cast<Seen*>(ctx);
          if (worker > 0 && sched_getcpu() != s.cpus[static_cast<size_t>(worker)]) ++s.elsewhere;
        },
        &seen);
  CHECK(seen.elsewhere == 0);
  const cpu_set_t after = allowed();
  CHECK(CPU_EQUAL(&before, &after));
  CHECK(nestor_allowed_cpus() == CPU_COUNT(&before));
  std::thread([&] {
    CHECK(nestor_pin_thread(cpus[0]) == 0);
    CHECK(nestor_allowed_cpus() == 1);
  }).join();
  CHECK(nestor_pin_thread(-1) == -1);
  CHECK(nestor_pin_thread(1 << 20) == -1);
  CHECK_THROWS_AS(nestor::parse_pinning("scatter"), nestor::UserError);
}

TEST_CASE("where CPUs are named twice, workers stay on the others") {
  const std::vector<int32_t> different = nestor::cpus_for(2, nestor::Pinning::compact);
  if (different[0] == different[1]) return;  // of one CPU
  const std::vector<int32_t> cpus = {different[0], different[0], different[1]};
  Pool pool{nestor_pool_create(3), nestor_pool_destroy};
  nestor_pool_pin(pool.get(), cpus.data());
  struct Seen {
    int32_t cpu;
    std::atomic<int> elsewhere{0}, by_worker{0};
  } seen{different[1]};
  for (int round = 0; round < 20; ++round)
    nestor_parallel_static(
        pool.get(), 2,
        [](void* ctx, int64_t begin, int64_t, int32_t worker) {
          auto& s = *static_cast<Seen*>(ctx);
          s.by_worker += worker > 0;
          if (worker > 0 && sched_getcpu() != s.cpu) ++s.elsewhere;
          if (begin == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the other part is the worker's
        },
        &seen);
  CHECK(seen.by_worker > 0);
  CHECK(seen.elsewhere == 0);
}
