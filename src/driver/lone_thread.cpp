// Work outside of all thread loops is done by the kernel's first thread (merge_threads): correct, but as slow
// as one thread is. Steps that distribute this work are found by trying them. Inner loops come first, because
// neighbouring threads should access neighbouring elements, and no more threads are used than the kernel has.
#include "nestor/lone_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestor/schedule.h"
#include "schedules/nest.h"

namespace nestor {

namespace {

using schedules::Place;

constexpr ThreadTag kTags[] = {ThreadTag::thread_x, ThreadTag::thread_y, ThreadTag::thread_z};

bool is_over_threads(const For& l) {
  return l.kind == ForKind::thread &&
         std::find(std::begin(kTags), std::end(kTags), l.thread) != std::end(kTags);
}

// Threads by tag, in the kernel that `s` is.
std::map<ThreadTag, int64_t> threads_of(const Stmt& s) {
  std::map<ThreadTag, int64_t> out;
  for_each_stmt(s, [&](const Stmt& inner) {
    const auto* l = inner.as<For>();
    if (l && is_over_threads(*l)) out[l->thread] = std::max(out[l->thread], as_int(l->extent).value_or(1));
  });
  return out;
}

bool is_local(const PrimFunc& f, const Block& b) {
  const auto decls = declarations(f);
  bool local = true;
  for_each_stmt(b.body, [&](const Stmt& s) {
    const auto* st = s.as<Store>();
    const auto* u = s.as<Update>();
    if (st || u) local = local && decls.at(st ? st->buffer : u->buffer).scope == Scope::local;
  });
  return local;
}

// Of a block that isn't in a loop over threads.
std::vector<std::string> binding_steps(PrimFunc f, const std::string& block,
                                       const std::map<ThreadTag, int64_t>& threads) {
  const QuietRefusals quiet;
  std::vector<std::string> out;
  for (const ThreadTag tag : kTags) {
    const auto most = threads.find(tag);
    if (most == threads.end()) continue;
    std::vector<Stmt> loops = schedules::find_place(f, block)->own_loops();
    std::reverse(loops.begin(), loops.end());
    for (const Stmt& l : loops) {
      const int64_t extent = schedules::extent_of(l);
      if (extent < 2 || extent > most->second) continue;
      const std::string line = fmt::format("bind {}.{} {}", block, schedules::loop_name(l), name_of(tag));
      try {
        f = apply(f, parse_step(line));
      } catch (const ScheduleError&) {
        continue;
      }
      out.push_back(line);
      break;
    }
  }
  return out;
}

}  // namespace

std::vector<LoneBlock> lone_blocks(const PrimFunc& scheduled) {
  std::vector<LoneBlock> out;
  std::vector<Stmt> kernels = {scheduled.body};
  if (const auto* seq = scheduled.body.as<Seq>()) kernels = seq->stmts;
  for (const Stmt& kernel : kernels) {
    const std::map<ThreadTag, int64_t> threads = threads_of(kernel);
    int64_t all = 1;
    for (const auto& [tag, n] : threads) all *= n;
    if (all == 1) continue;
    for (const Place& p : schedules::places_under(scheduled.body, kernel)) {
      const std::vector<Stmt> loops = p.loops();
      if (std::any_of(loops.begin(), loops.end(),
                      [](const Stmt& l) { return is_over_threads(schedules::as_for(l)); }) ||
          is_local(scheduled, p.block()))
        continue;
      LoneBlock lone{p.name(), all, binding_steps(scheduled, p.name(), threads)};
      if (!lone.steps.empty()) out.push_back(std::move(lone));
    }
  }
  return out;
}

}  // namespace nestor
