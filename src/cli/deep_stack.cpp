#include "src/cli/deep_stack.h"

#include <pthread.h>

namespace nestor::cli {

namespace {

constexpr size_t kBytes = size_t{512} << 20;  // of address space; only what is touched becomes memory

struct Job {
  const std::function<int()>& f;
  int code;
};

void* start(void* argument) {
  auto* job = static_cast<Job*>(argument);
  job->code = job->f();
  return nullptr;
}

}  // namespace

int on_deep_stack(const std::function<int()>& f) {
  Job job{f, 0};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kBytes);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, start, &job) == 0;
  pthread_attr_destroy(&attributes);
  if (!started) return f();  // too little address space: what isn't deep runs all the same
  pthread_join(thread, nullptr);
  return job.code;
}

}  // namespace nestor::cli
