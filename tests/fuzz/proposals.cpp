// Proposals: for each primitive a line that is plausible for the function as it is; few are sure to be legal.
#include "tests/fuzz/proposals.h"

#include <algorithm>

#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "schedules/nest.h"

namespace nestor {

namespace {

class Proposer {
 public:
  Proposer(const Schedule& s, const std::string& focus, bool gpu, std::mt19937_64& rng)
      : s_(s), f_(s.func()), focus_(focus), gpu_(gpu), rng_(rng), blocks_(block_names(f_)) {}

  // "" where there is nothing to propose.
  std::string line(const std::string& primitive) {
    if (blocks_.empty()) return "";
    if (primitive == "split") return split();
    if (primitive == "fuse") return fuse();
    if (primitive == "reorder") return reorder();
    if (primitive == "tile") return tile();
    if (primitive == "parallel") return with_loop("parallel ", below(3));
    if (primitive == "vectorize") return with_loop("vectorize ", -1 - below(3));
    if (primitive == "unroll") return with_loop("unroll ", -1 - below(4));
    if (primitive == "bind")
      return with_loop("bind ", below(4),
                       " " + any({"blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread"}));
    if (primitive == "compute_at" || primitive == "reverse_compute_at") return move(primitive);
    if (primitive == "compute_inline" || primitive == "reverse_compute_inline")
      return primitive + " " + any_block();
    if (primitive == "skip_zeros") return zeros();
    if (primitive == "cache_read") return cache_read();
    if (primitive == "cache_write") return name("C") + " = cache_write " + any_block() + " " + scope();
    if (primitive == "set_scope") return set_scope();
    if (primitive == "decompose_reduction") return decompose();
    if (primitive == "rfactor" || primitive == "reduce_threads") return rfactor(primitive);
    if (primitive == "fission") return fission();
    if (primitive == "merge") return merge();
    if (primitive == "pad_einsum") return pad_einsum();
    if (primitive == "blockize") return with_loop(name("O") + " = blockize ", below(6));
    if (primitive == "annotate") return with_loop("annotate ", below(5), " note=" + std::to_string(below(9)));
    if (primitive == "transform_layout") return transform_layout();
    if (primitive == "sample_factors") return sample_factors();
    if (primitive == "sample_choice")
      return name("q") + " = sample_choice [1, 2, 3, 4] -> " + std::to_string(1 + below(4));
    if (primitive == "loop_partition") return partition();
    if (primitive == "split_buffer") return split_buffer();
    if (primitive == "add_unit_loop")
      return below(3) ? with_loop("u" + std::to_string(below(99)) + " = add_unit_loop ", below(5))
                      : "add_unit_loop " + any_block();
    if (primitive == "sample_location") return sample_location();
    if (primitive == "storage_align") return storage_align();
    if (primitive == "reindex" || primitive == "pack" || primitive == "prefetch") return of_buffer(primitive);
    if (primitive == "software_pipeline") return pipeline();
    throw InternalError("the fuzzer doesn't know " + primitive);
  }

 private:
  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  template <class T>
  T any(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int>(items.size())))];
  }
  std::string any(const std::vector<const char*>& items) { return any<const char*>(items); }
  std::string name(const std::string& stem) { return stem + "_" + std::to_string(s_.trace().steps.size()); }
  std::string any_block() {
    return std::count(blocks_.begin(), blocks_.end(), focus_) && below(2) ? focus_ : any(blocks_);
  }
  std::string scope() { return any({"global", gpu_ ? "shared" : "global", "local"}); }

  // Loop number i of a block, from the inside where negative.
  std::string with_loop(const std::string& before, int i, const std::string& after = "") {
    const std::string block = any_block();
    const auto loops = loops_of(f_, block);
    if (loops.empty()) return "";
    const int n = static_cast<int>(loops.size());
    const int at = std::clamp(i < 0 ? n + i : i, 0, n - 1);
    return before + block + "." + loops[static_cast<size_t>(at)].name + after;
  }

  std::string split() {
    std::string factors =
        any({"_, 2", "_, 3", "_, 4", "_, 5", "_, 2, 2", "_, 2, 3", "3, _", "2, _, 2", "_, 1", "4, 4"});
    // A name that sample_* bound may stand for a factor.
    const auto& steps = s_.trace().steps;
    for (size_t i = steps.size(); i-- > 0;)
      if (steps[i].primitive.starts_with("sample_") && below(2)) {
        factors = "_, " + steps[i].results.back();
        break;
      }
    const std::string lines = below(3) ? "" : " at_lines=" + any(f_.params).decl.buffer->name;
    return with_loop("split ", lines.empty() ? below(7) : -1,
                     " [" + factors + "]" +
                         any({"", " tail=guard", " tail=peel", " tail=mask", " tail=balanced"}) + lines);
  }

  // Where a sum multiplies by zeros that are chosen; else what brings them there, a padding inlined.
  std::string zeros() {
    std::string padding;
    for (const std::string& name : blocks_) {
      const Block& b = *find_block(f_, name);
      const auto* update = b.body.as<Update>();
      bool chooses = false;
      if (update) for_each_expr(update->value, [&](const Expr& e) { chooses |= e.as<Select>() != nullptr; });
      const auto in = loops_of(f_, name);
      if (chooses) return "skip_zeros " + name + (below(3) || in.empty() ? "" : " masks=" + in.back().name);
      if (const auto* store = b.body.as<Store>(); store && store->value.as<Select>()) padding = name;
    }
    return padding.empty() ? "skip_zeros " + any_block() : "compute_inline " + padding;
  }

  std::string partition() {
    const std::string block = any_block();
    const auto loops = loops_of(f_, block);
    if (loops.empty() || blocks_.size() > 8) return "";  // copies of copies of ... grow
    const LoopInfo& l = loops[static_cast<size_t>(below(static_cast<int>(loops.size())))];
    const int n = static_cast<int>(std::max<int64_t>(l.extent, 2)), first = 1 + below(n);
    const std::string second = below(3) ? "" : ", " + std::to_string(first + 1 + below(n));
    return "loop_partition " + block + "." + l.name + " [" + std::to_string(first) + second + "]";
  }

  // Of a temporary that is made in parts; else what makes parts of its writer or of its readers.
  std::string split_buffer() {
    for (const BufferDecl& d : f_.allocs) {
      std::vector<std::string> writers, users;
      for (const std::string& b : blocks_) {
        bool writes = false, reads = false;
        for_each_stmt(find_block(f_, b)->body, [&](const Stmt& s) {
          const auto* store = s.as<Store>();
          const auto* update = s.as<Update>();
          writes |= (store && store->buffer == d.buffer) || (update && update->buffer == d.buffer);
        });
        for_each_expr(find_block(f_, b)->body, [&](const Expr& e) {
          const auto* l = e.as<Load>();
          reads |= l && l->buffer == d.buffer;
        });
        if (writes) writers.push_back(b);
        if (writes || reads) users.push_back(b);
      }
      if (writers.size() > 1 && below(2)) return name("B") + " = split_buffer " + any(writers);
      if (users.size() < 2 || blocks_.size() > 6) continue;
      for (const std::string& b : users) {
        const auto loops = loops_of(f_, b);
        if (!loops.empty() && loops[0].extent > 1 && below(4))
          return "loop_partition " + b + "." + loops[0].name + " [" + std::to_string(loops[0].extent / 2) +
                 "]";
      }
    }
    return name("B") + " = split_buffer " + any_block();
  }

  std::string fuse() {
    const std::string block = any_block();
    const auto loops = loops_of(f_, block);
    if (loops.size() < 2) return "";
    const int n = std::min<int>(2 + below(2), static_cast<int>(loops.size()));
    const int first = below(static_cast<int>(loops.size()) - n + 1);
    std::string names;
    for (int i = 0; i < n; ++i) names += (i ? " " : "") + loops[static_cast<size_t>(first + i)].name;
    return "fuse " + block + " (" + names + ")";
  }

  std::string reorder() {
    const std::string block = any_block();
    auto loops = loops_of(f_, block);
    if (loops.size() < 2) return "";
    if (below(2)) loops.erase(loops.begin() + below(static_cast<int>(loops.size())));
    for (size_t i = loops.size(); i > 1; --i)
      std::swap(loops[i - 1], loops[static_cast<size_t>(below(static_cast<int>(i)))]);
    std::string names;
    for (const LoopInfo& l : loops) names += (names.empty() ? "" : " ") + l.name;
    return "reorder " + block + " (" + names + ")";
  }

  std::string tile() {
    const std::string block = any_block();
    const auto loops = loops_of(f_, block);
    if (loops.size() < 2) return "";
    const size_t first = static_cast<size_t>(below(static_cast<int>(loops.size()) - 1));
    return "tile " + block + " (" + loops[first].name + " " + loops[first + 1].name + ") " +
           any({"[2, 2]", "[2, 3]", "[3, 4]"}) + any({"", " tail=peel", " tail=mask", " tail=balanced"});
  }

  // A block, and a loop around a block that shares a buffer with it.
  std::string move(const std::string& primitive) {
    const std::string tail = primitive == "compute_at" ? any({"", " tail=guard"}) : "";
    for (const Step& s : s_.trace().steps)
      if (s.primitive == "sample_location" && s.options[0].second == primitive && below(2))
        return primitive + " " + s.args[0] + " " + s.results[0] + tail;
    const std::string block = any_block();
    const bool forward = primitive == "compute_at";
    std::vector<std::string> partners;
    for (const std::string& other : blocks_) {
      const Block &producer = *find_block(f_, forward ? block : other),
                  &consumer = *find_block(f_, forward ? other : block);
      for (const BlockAccess& w : accesses_of(producer))
        for (const BlockAccess& r : accesses_of(consumer))
          if (other != block && w.write && r.read && w.buffer == r.buffer) partners.push_back(other);
    }
    if (partners.empty()) return "";
    const std::string partner = any(partners);
    const auto loops = loops_of(f_, partner);
    return loops.empty() ? "" : primitive + " " + block + " " + partner + "." + any(loops).name + tail;
  }

  // A name for a place; move() uses it half of the time where one has been bound.
  std::string sample_location() {
    const std::string moved = move(any({"compute_at", "compute_at", "reverse_compute_at"}));
    if (moved.empty()) return "";
    const Step s = parse_step(moved);
    return name("l") + " = sample_location " + s.args[0] + " by=" + s.primitive + " -> " +
           (below(4) ? s.args[1] : any({"root", "inline"}));
  }

  std::string storage_align() {
    const auto temps = temporaries();
    if (temps.empty()) return "";
    const BufferDecl d = any(temps);
    return "storage_align " + d.buffer->name + " " +
           std::to_string(below(static_cast<int>(d.shape.size()) + 1)) + any({" 8 3", " 4 0", " 2 1"});
  }

  // Steps about what a block does with a buffer.
  std::string of_buffer(const std::string& primitive) {
    const std::string block = any_block();
    const auto accesses = accesses_of(*find_block(f_, block));
    const auto loops = loops_of(f_, block);
    if (accesses.empty() || loops.empty()) return "";
    const BlockAccess a = any(accesses);
    const std::string loop = block + "." + any(loops).name;
    if (primitive == "reindex") return name("I") + " = reindex " + block + " " + a.buffer->name;
    if (primitive == "prefetch")
      return "prefetch " + loop + " " + a.buffer->name + " distance=" + std::to_string(1 + below(3)) +
             (below(2) ? " shares=" + any(loops).name : "");
    std::string vars, places;
    for (size_t i = 0; i < a.indices.size(); ++i) {
      const std::string v(1, static_cast<char>('a' + i));
      vars += (i ? ", " : "") + v;
      places += (i ? ", " : "") + v + (i == 0 ? "/2" : "");
    }
    return name("K") + " = pack " + (below(3) ? loop : block) + " " + a.buffer->name + " (" + vars +
           ") -> (" + places + (vars.empty() ? "" : ", a%2") + ")" + any({"", " pad=0", " scope=local"});
  }

  // A loop whose body is several statements, the first of which copies.
  std::string pipeline() {
    std::vector<std::string> found;
    for_each_stmt(f_.body, [&](const Stmt& s) {
      const auto* loop = s.as<For>();
      Stmt body = loop ? loop->body : Stmt();
      while (body.as<Alloc>()) body = body.as<Alloc>()->body;
      if (!body.as<Seq>() || is_const_int(loop->extent, 1)) return;
      const Block* first = nullptr;
      for_each_stmt(body, [&](const Stmt& inner) { first = first ? first : inner.as<Block>(); });
      const auto* store = first ? first->body.as<Store>() : nullptr;
      if (store && (store->value.as<Load>() || below(8) == 0))
        found.push_back(first->id->name + "." + loop->var->name);
    });
    const std::string way = below(2) ? " through=registers" : " stages=" + std::to_string(2 + below(2));
    return found.empty() ? "" : "software_pipeline " + any(found) + way;
  }

  std::string cache_read() {
    const std::string block = any_block();
    std::vector<std::string> buffers;
    for (const BlockAccess& a : accesses_of(*find_block(f_, block)))
      if (a.read) buffers.push_back(a.buffer->name);
    return buffers.empty() ? "" : name("R") + " = cache_read " + block + " " + any(buffers) + " " + scope();
  }

  std::vector<BufferDecl> temporaries() {
    std::vector<BufferDecl> out = f_.allocs;
    for_each_stmt(f_.body, [&](const Stmt& s) {
      if (const auto* a = s.as<Alloc>()) out.push_back(a->decl);
    });
    return out;
  }

  std::string set_scope() {
    const auto t = temporaries();
    return t.empty() ? "" : "set_scope " + any(t).buffer->name + " " + scope();
  }

  std::string decompose() {
    std::vector<std::string> reductions;
    for (const std::string& b : blocks_)
      if (find_block(f_, b)->init) reductions.push_back(b);
    if (reductions.empty()) return "";
    const std::string block = any(reductions);
    const auto loops = loops_of(f_, block);
    return loops.empty() ? "" : name("Z") + " = decompose_reduction " + block + "." + any(loops).name;
  }

  std::string pad_einsum() {
    const std::string block = any_block();
    std::string multiples;
    for (size_t i = 0; i < find_block(f_, block)->iters.size(); ++i)
      multiples += (i ? ", " : "") + any({"1", "2", "3", "4"});
    return "pad_einsum " + block + " [" + multiples + "]";
  }

  // Loops around several statements; sometimes cut after one block.
  std::string fission() {
    std::vector<std::string> lines;
    for_each_stmt(f_.body, [&](const Stmt& s) {
      Stmt body = s.as<For>() ? s.as<For>()->body : Stmt();
      while (body && body.as<Alloc>()) body = body.as<Alloc>()->body;
      if (!body || !body.as<Seq>()) return;
      const auto inside = schedules::places(body);
      if (inside.size() > 1)
        lines.push_back("fission " + inside[0].name() + "." + s.as<For>()->var->name +
                        (below(2) ? " at=" + any(inside).name() : ""));
    });
    return lines.empty() ? "" : any(lines);
  }

  std::string merge() {  // loops that stand one behind the other
    std::vector<std::string> lines;
    const auto named = [](const Stmt& loop) {
      return " " + schedules::places(loop).at(0).name() + "." + loop.as<For>()->var->name;
    };
    for_each_stmt(f_.body, [&](const Stmt& s) {
      for (size_t i = 1; s.as<Seq>() && i < s.as<Seq>()->stmts.size(); ++i) {
        const Stmt &a = s.as<Seq>()->stmts[i - 1], &b = s.as<Seq>()->stmts[i];
        if (a.as<For>() && b.as<For>()) lines.push_back("merge" + named(a) + named(b));
      }
    });
    return lines.empty() ? "" : any(lines);
  }

  std::string rfactor(const std::string& primitive) {
    std::vector<std::string> lines;
    for (const std::string& b : blocks_)
      for (const IterVar& i : find_block(f_, b)->iters)
        for (const LoopInfo& l : loops_of(f_, b)) {
          bool used = false;
          for_each_expr(i.binding, [&](const Expr& e) {
            used = used || (e.as<VarRef>() && e.as<VarRef>()->var->name == l.name);
          });
          if (used && i.kind == IterKind::reduce) lines.push_back(" = " + primitive + " " + b + "." + l.name);
        }
    if (lines.empty()) return "";
    return name("F") + any(lines) + (primitive == "rfactor" ? any({"", "", " axis=0"}) : "");
  }

  std::string transform_layout() {
    auto decls = temporaries();
    for (const Param& p : f_.params)
      if (p.role == Role::constant) decls.push_back(p.decl);
    if (decls.empty()) return "";
    const BufferDecl d = any(decls);
    std::string vars, outer, inner;
    const int split = below(static_cast<int>(d.shape.size()));
    for (int i = 0; i < static_cast<int>(d.shape.size()); ++i) {
      const std::string v(1, static_cast<char>('a' + i));
      vars += (i ? ", " : "") + v;
      outer += (i ? ", " : "") + v + (i == split ? "/2" : "");
      if (i == split) inner = v + "%2";
    }
    // In turn: from the third on, every third, or each row one later. Seldom two elements in one place.
    const std::string turned = vars.substr(0, vars.size() - 1) + "(" + vars.back() +
                               any({"+2)", "*3)", "+a)"}) + "%" + print(d.shape.back());
    const std::string places = below(3) == 0 ? turned : below(8) ? outer + ", " + inner : outer;
    return "transform_layout " + d.buffer->name + " (" + vars + ") -> (" + places + ")";
  }

  std::string sample_factors() {
    const std::string block = any_block();
    const auto loops = loops_of(f_, block);
    if (loops.empty()) return "";
    const LoopInfo l = any(loops);
    DecisionSite site;
    site.extent = l.extent, site.parts = 2, site.max = 4;
    const auto d = draw_decision(site, rng_);
    return name("f") + " " + name("g") + " = sample_factors " + block + "." + l.name + " parts=2 max=4 -> [" +
           d[0] + ", " + d[1] + "]";
  }

  const Schedule& s_;
  const PrimFunc& f_;
  const std::string& focus_;
  bool gpu_;
  std::mt19937_64& rng_;
  std::vector<std::string> blocks_;
};

}  // namespace

std::string propose(const Schedule& s, const std::string& primitive, const std::string& focus, bool gpu,
                    std::mt19937_64& rng) {
  return Proposer(s, focus, gpu, rng).line(primitive);
}

}  // namespace nestor
