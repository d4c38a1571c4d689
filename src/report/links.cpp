#include "src/report/links.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/report/diff.h"
#include "src/report/loop_costs.h"

namespace nestor::report {

namespace {

using Loops = std::vector<int>;  // ascending

bool contains(const Loops& all, const Loops& part) {
  return std::includes(all.begin(), all.end(), part.begin(), part.end());
}
Loops united(const Loops& a, const Loops& b) {
  Loops out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}
Loops common(const Loops& a, const Loops& b) {
  Loops out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

// A statement that writes, in the scheduled function.
struct Writer {
  std::string buffer;
  Loops path;
};
struct ScheduledLoop {
  std::string name;
  Loops path;  // with itself
};

class Scheduled : public Walker {
 public:
  explicit Scheduled(const Stmt& body) { stmt(body); }
  std::vector<ScheduledLoop> loops;
  std::vector<Writer> writers;

 private:
  void stmt(const Stmt& s) override {
    if (const auto* st = s.as<Store>()) writers.push_back({st->buffer->name, path_});
    if (const auto* u = s.as<Update>()) writers.push_back({u->buffer->name, path_});
    const auto* loop = s.as<For>();
    if (!loop) return children(s);
    path_.push_back(static_cast<int>(loops.size()));
    loops.push_back({loop->var->name, path_});
    children(s);
    path_.pop_back();
  }
  Loops path_;
};

std::set<std::string> written(const Stmt& s) {
  std::set<std::string> names;
  for_each_stmt(s, [&](const Stmt& x) {
    if (const auto* st = x.as<Store>()) names.insert(st->buffer->name);
  });
  return names;
}

class Linker {
 public:
  Linker(const PrimFunc& scheduled, const PrimFunc& lowered)
      : from_(scheduled.body),
        printed_(print_with_spans(lowered)),
        lines_(split_lines(printed_.text).size()) {
    find_kept(lowered.body, {});
    link(lowered.body, {});
  }
  std::vector<Loops> lines() const { return lines_; }

 private:
  // The scheduled loop that a lowered one is, seen from the loops around it: of its name, inside them, and
  // with something in it that the lowered one writes. -1: lowering made it.
  int origin(const Stmt& s, const For& loop, const Loops& path) const {
    const std::set<std::string> writes = written(s);
    for (size_t i = 0; i < from_.loops.size(); ++i) {
      const ScheduledLoop& l = from_.loops[i];
      if (l.name != loop.var->name || !contains(l.path, path) || l.path.size() == path.size()) continue;
      for (const Writer& w : from_.writers)
        if (writes.count(w.buffer) && contains(w.path, l.path)) return static_cast<int>(i);
    }
    return -1;
  }

  Loops below(const Stmt& s, const For& loop, const Loops& path) const {
    const int at = origin(s, loop, path);
    return at < 0 ? path : united(path, {at});
  }

  void find_kept(const Stmt& s, const Loops& path) {
    if (const auto* loop = s.as<For>()) {
      const Loops inside = below(s, *loop, path);
      kept_ = united(kept_, inside);
      return find_kept(loop->body, inside);
    }
    if (const auto* q = s.as<Seq>()) {
      for (const Stmt& c : q->stmts) find_kept(c, path);
    } else if (const auto* a = s.as<Alloc>()) {
      find_kept(a->body, path);
    } else if (const auto* l = s.as<LetStmt>()) {
      find_kept(l->body, path);
    } else if (const auto* i = s.as<If>()) {
      find_kept(i->then_case, path);
      if (i->else_case) find_kept(i->else_case, path);
    }
  }

  // The loops of a statement that writes `buffer` under the kept loops `path`.
  Loops loops_of(const std::string& buffer, const Loops& path) const {
    Loops exact, near;
    for (const Writer& w : from_.writers) {
      if (w.buffer != buffer || !contains(w.path, path)) continue;
      near = united(near, w.path);
      if (common(w.path, kept_) == path) exact = united(exact, w.path);
    }
    return !exact.empty() ? exact : !near.empty() ? near : path;
  }

  // Marks the lines of s; what comes back is what they have in common.
  Loops link(const Stmt& s, const Loops& path) {
    return match(
        s, [&](const Seq& q) { return link_all(q.stmts, path); },
        [&](const For& f) {
          const Loops inside = below(s, f, path);
          mark(s, inside);
          link(f.body, inside);
          return inside;
        },
        [&](const Store& st) { return mark(s, loops_of(st.buffer->name, path)); },
        [&](const If& i) {
          return mark(
              s,
              link_all(i.else_case ? std::vector{i.then_case, i.else_case} : std::vector{i.then_case}, path));
        },
        [&](const Alloc& a) {
          link(a.body, path);
          return mark(s, path);
        },
        [&](const LetStmt& l) { return mark(s, link(l.body, path)); },
        [&](const Evaluate&) { return mark(s, path); }, [&](const Block&) { return path; },
        [&](const Update&) { return path; });
  }

  Loops link_all(const std::vector<Stmt>& stmts, const Loops& path) {
    Loops all;
    for (size_t i = 0; i < stmts.size(); ++i) {
      const Loops one = link(stmts[i], path);
      all = i ? common(all, one) : one;
    }
    return stmts.empty() ? path : all;
  }

  // Loops that share a line: the last one, which is the innermost, has them all.
  Loops mark(const Stmt& s, const Loops& loops) {
    const auto it = printed_.spans.find(s.get());
    if (it != printed_.spans.end()) lines_[static_cast<size_t>(it->second.line - 1)] = loops;
    return loops;
  }

  Scheduled from_;
  Printed printed_;
  std::vector<Loops> lines_;
  Loops kept_;
};

}  // namespace

std::vector<std::vector<int>> link_lines(const PrimFunc& scheduled, const PrimFunc& lowered) {
  // Read back from their text: no node stands twice, so that each has one line.
  const PrimFunc read = parse_func(print(lowered));
  std::vector<Loops> lines = Linker(scheduled, read).lines();
  // A closing brace belongs where its statement does.
  const Lines text = split_lines(print(lowered));
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t first = text[i].find_first_not_of(' ');
    if (first != std::string::npos && text[i][first] == '}' && !open.empty()) {
      lines[i] = lines[open.back()];
      open.pop_back();
    }
    if (!text[i].empty() && text[i].back() == '{') open.push_back(i);
  }
  return lines;
}

std::vector<std::vector<int>> link_code(const std::vector<CodeLine>& code,
                                        const std::vector<std::vector<int>>& lines) {
  // At the margin, and no label inside a function: what CUDA source says around kernels is there too.
  const auto begins_function = [](const CodeLine& l) {
    return l.text.empty() || (l.text[0] != '\t' && l.text[0] != ' ' && l.text[0] != '.');
  };
  std::vector<Loops> out(code.size());
  Loops before;
  for (size_t i = 0; i < code.size();) {
    if (begins_function(code[i])) before.clear();
    if (code[i].line > 0) {
      out[i] = before = lines[static_cast<size_t>(code[i].line - 1)];
      ++i;
      continue;
    }
    size_t next = i + 1;
    while (next < code.size() && code[next].line == 0 && !begins_function(code[next])) ++next;
    const bool ends = next == code.size() || begins_function(code[next]);
    const Loops shared = ends ? Loops{} : common(before, lines[static_cast<size_t>(code[next].line - 1)]);
    for (; i < next; ++i) out[i] = shared;
  }
  return out;
}

}  // namespace nestor::report
