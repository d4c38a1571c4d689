// Statements as CUDA C++. A thread loop becomes a constant, its blockIdx or
// threadIdx; all other loops stay. The names are the IR's, so that the text can be read beside the schedule.
#include <fmt/format.h>

#include <algorithm>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "src/codegen/cuda_source.h"

namespace nestor {

namespace {

constexpr int64_t kMostUnrolled = 128;  // iterations of a loop that chooses among registers

bool has_barrier(const Stmt& s) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& inner) {
    const auto* e = inner.as<Evaluate>();
    const auto* c = e ? e->call.as<Call>() : nullptr;
    found |= c && c->fn == Intrinsic::sync;
  });
  return found;
}

// True if something loads or stores several elements of b at once.
bool has_vectors(const Stmt& s, const Buffer& b) {
  bool found = false;
  for_each_expr(s, [&](const Expr& e) {
    const auto* l = e.as<Load>();
    found |= l && l->buffer == b && e.type().is_vector();
  });
  for_each_stmt(s, [&](const Stmt& inner) {
    const auto* st = inner.as<Store>();
    found |= st && st->buffer == b && st->value.type().is_vector();
  });
  return found;
}

}  // namespace

CudaWriter::CudaWriter(const KernelPart& part, CudaHelpers& helpers, const Printed* printed)
    : part_(part), helpers_(helpers), printed_(printed) {}

std::string CudaWriter::write() {
  narrow_ = fits_int();
  const std::string header = signature();
  if (part_.launch.dynamic_shared) line("extern __shared__ __align__(16) unsigned char shared_memory[];");
  for (const BufferDecl& d : part_.outer) declare_buffer(d);
  // Shared memory is declared at the top, where one sees how much of it there is.
  for_each_stmt(part_.body, [&](const Stmt& s) {
    const auto* a = s.as<Alloc>();
    if (a && a->decl.scope == Scope::shared) declare_buffer(a->decl);
  });
  stmt(part_.body);
  lines_.insert(lines_.begin(), static_cast<size_t>(std::count(header.begin(), header.end(), '\n')), 0);
  lines_.push_back(0);
  return header + out_ + "}\n";
}

std::string CudaWriter::signature() {
  const auto& [x, y, z] = part_.launch.block;
  std::string params;
  for (const BufferDecl& d : part_.arguments) {
    bool written = false;
    for_each_stmt(part_.body,
                  [&](const Stmt& s) { written |= s.as<Store>() && s.as<Store>()->buffer == d.buffer; });
    const std::string name = new_name(d.buffer->name);
    buffers_[d.buffer] = name;
    scopes_[d.buffer] = Scope::global;
    params += fmt::format("{}{}{}* __restrict__ {}", params.empty() ? "" : ", ", written ? "" : "const ",
                          cuda_name(d.buffer->type.dtype), name);
  }
  return fmt::format("extern \"C\" __global__ void __launch_bounds__({})\n{}({}) {{\n",
                     std::max<int64_t>(x * y * z, 1), part_.launch.name, params);
}

// True if every index, and every part of it, lies within int.
bool CudaWriter::fits_int() const {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  Facts facts;
  bool fits = true;
  const auto known = [&](const Var& v, const Expr& value) {
    if (value.dtype() == DType::i64) facts.set(v, range_of(value, facts));
  };
  for_each_stmt(part_.body, [&](const Stmt& s) {
    if (const auto* f = s.as<For>())
      facts.set(f->var, {0, std::max<int64_t>(range_of(f->extent, facts).hi - 1, 0)});
    if (const auto* l = s.as<LetStmt>()) known(l->var, l->value);
  });
  for_each_expr(part_.body, [&](const Expr& e) {
    if (const auto* l = e.as<Let>()) known(l->var, l->value);
  });
  for_each_expr(part_.body, [&](const Expr& e) {
    if (!is_index(e) || e.type().is_vector()) return;
    const Interval r = range_of(e, facts);
    // What is read from memory is data, computed in `long long` wherever it goes; its variables aren't known
    // here yet.
    fits &= r.lo >= -most && r.hi <= most;
  });
  return fits;
}

void CudaWriter::line(const std::string& text) {
  out_ += std::string(static_cast<size_t>(indent_) * 2, ' ') + text + "\n";
  lines_.push_back(here_);
}

void CudaWriter::nested(const std::string& open, const std::function<void()>& inside) {
  const auto outer = taken_;
  line(open);
  ++indent_;
  inside();
  --indent_;
  taken_ = outer;
}

std::string CudaWriter::bind(const Var& v) {
  return vars_[v] = new_name(v->name);
}

void CudaWriter::declare_buffer(const BufferDecl& d) {
  const char* prefix = d.scope != Scope::shared            ? ""
                       : has_vectors(part_.body, d.buffer) ? "alignas(16) __shared__ "
                                                           : "__shared__ ";
  const std::string name = new_name(d.buffer->name);
  buffers_[d.buffer] = name;
  scopes_[d.buffer] = d.scope;
  if (part_.launch.dynamic_shared && d.scope == Scope::shared) {
    line(fmt::format("{0}* const {1} = ({0}*)(shared_memory + {2});  // {3} of them",
                     cuda_name(d.buffer->type.dtype), name, shared_, elements_of(d)));
    shared_ += bytes_of_shared(d);
    return;
  }
  line(fmt::format("{}{} {}[{}];", prefix, cuda_name(d.buffer->type.dtype), name,
                   std::max<int64_t>(elements_of(d), 1)));
}

void CudaWriter::stmt(const Stmt& s) {
  const int around = here_;
  if (printed_)
    if (const auto it = printed_->spans.find(s.get()); it != printed_->spans.end()) here_ = it->second.line;
  node(s);
  here_ = around;
}

void CudaWriter::node(const Stmt& s) {
  match(
      s,
      [&](const Seq& seq) {
        for (const Stmt& inner : seq.stmts) stmt(inner);
      },
      [&](const For& f) {
        f.kind == ForKind::thread&& f.thread != ThreadTag::vthread ? thread_loop(f) : loop(f);
      },
      [&](const Store& st) { store(st); },
      [&](const If& i) {
        const Facts outer = facts_;
        const std::string cond = expr(i.cond);
        nested("if (" + cond + ") {", [&] {
          facts_.assume(i.cond);
          stmt(i.then_case);
        });
        facts_ = outer;
        if (i.else_case) nested("} else {", [&] { stmt(i.else_case); });
        line("}");
      },
      [&](const Alloc& a) {
        if (a.decl.scope != Scope::shared) declare_buffer(a.decl);
        stmt(a.body);
      },
      [&](const LetStmt& l) {
        let(l.var, l.value);
        stmt(l.body);
      },
      [&](const Evaluate& e) {
        const auto* c = e.call.as<Call>();
        if (c && c->fn == Intrinsic::instruction) return instruction(*c);
        if (c && c->fn == Intrinsic::sync) {
          waits_ = true;
          line("__syncthreads();");
        }
        if (c && c->fn == Intrinsic::prefetch) {
          const auto* l = c->args[0].as<Load>();
          helpers_.insert("prefetch_l2");
          line("prefetch_l2(&" + element(l->buffer, l->indices) + ");");
        }
      },
      [&](const Block&) { throw InternalError("a block in lowered code"); },
      [&](const Update&) { throw InternalError("an update in lowered code"); });
}

// name(&c[0], &a[0], ...): its threads are those of one warp, all of them.
void CudaWriter::instruction(const Call& c) {
  const auto& [x, y, z] = part_.launch.block;
  if (x % 32 != 0 || x * y * z % 32 != 0)
    throw UserError(Diagnostic{"kernel " + part_.launch.name + " has " + std::to_string(x) +
                                   " threads along threadIdx.x, and " + c.name + " needs whole warps of 32",
                               {},
                               {},
                               "bind loops of 32 or a multiple of it to threadIdx.x"});
  helpers_.insert(c.name);
  waits_ = true;  // a warp's threads do it together
  std::string args;
  for (const Expr& e : c.args) {
    const auto* l = e.as<Load>();
    args += (args.empty() ? "" : ", ") + (l ? "&" + element(l->buffer, l->indices) : expr(e));
  }
  line(c.name + "(" + args + ");");
}

void CudaWriter::loop(const For& f) {
  const std::string extent = operand(f.extent, 10);
  facts_.set(f.var, {0, std::max<int64_t>(range_of(f.extent, facts_).hi - 1, 0)});
  const auto outer = taken_;
  const std::string name = bind(f.var);
  if (is_unrolled(f)) line("#pragma unroll");
  nested(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", narrow_ ? "int" : "long long", name, extent),
         [&] { stmt(f.body); });
  line("}");
  taken_ = outer;
}

// Registers have no addresses: a loop that chooses among them has to be unrolled.
bool CudaWriter::is_unrolled(const For& f) const {
  if (f.kind == ForKind::unrolled) return true;
  const int64_t extent = as_int(f.extent).value_or(0);
  if (extent < 2 || extent > kMostUnrolled) return false;
  bool chooses = false;
  const auto see = [&](const Buffer& b, const std::vector<Expr>& indices) {
    const auto scope = scopes_.find(b);  // not yet known: allocated inside
    chooses |= scope != scopes_.end() && scope->second == Scope::local && uses_var(indices.at(0), f.var);
  };
  for_each_expr(f.body, [&](const Expr& e) {
    if (const auto* l = e.as<Load>(); l && !l->indices.empty()) see(l->buffer, l->indices);
  });
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* st = s.as<Store>(); st && !st->indices.empty()) see(st->buffer, st->indices);
  });
  return chooses;
}

void CudaWriter::thread_loop(const For& f) {
  bool is_block = false;
  const auto axis = static_cast<size_t>(axis_of(f.thread, is_block));
  const int64_t extent = as_int(f.extent).value_or(0);
  const int64_t all = (is_block ? part_.blocks : part_.launch.block)[axis];
  facts_.set(f.var, {0, std::max<int64_t>(extent - 1, 0)});
  line(fmt::format("const {} {} = {};  // {} of {}", narrow_ ? "int" : "long long", bind(f.var),
                   is_block ? block_index(axis) : name_of(f.thread), f.var->name, extent));
  inside_.push_back(f.thread);
  if (extent == all) {
    stmt(f.body);
  } else {
    if (has_barrier(f.body))
      throw InternalError(part_.launch.name + ": only some of the threads would reach a barrier in loop " +
                          f.var->name);
    nested(fmt::format("if ({} < {}) {{", vars_.at(f.var), extent), [&] { stmt(f.body); });
    line("}");
  }
  inside_.pop_back();
}

std::string CudaWriter::block_index(size_t axis) const {
  const auto& [x, y, z] = part_.blocks;
  const std::array<std::string, 3> own = {"blockIdx.x", "blockIdx.y", "blockIdx.z"},
                                   all_along_x = {fmt::format("blockIdx.x % {}", x),
                                                  fmt::format("blockIdx.x / {} % {}", x, y),
                                                  fmt::format("blockIdx.x / {}", x * y)};
  return part_.launch.grid == part_.blocks ? own[axis] : all_along_x[axis];
}

void CudaWriter::store(const Store& s) {
  require_all_threads(s.buffer);
  const std::string value = expr(s.value), target = s.value.type().is_vector()
                                                        ? vector_at(s.buffer, s.indices[0], false)
                                                        : element(s.buffer, s.indices);
  line(target + " = " + value + ";");
}

// A store outside of some thread loop would run once for each of its threads.
void CudaWriter::require_all_threads(const Buffer& b) const {
  if (scopes_.at(b) == Scope::local) return;
  for (size_t a = 0; a < 3; ++a)
    for (const bool is_block : {true, false}) {
      if ((is_block ? part_.blocks : part_.launch.block)[a] <= 1) continue;
      const auto tag = static_cast<ThreadTag>(
          static_cast<size_t>(is_block ? ThreadTag::block_x : ThreadTag::thread_x) + a);
      NESTOR_CHECK(std::find(inside_.begin(), inside_.end(), tag) != inside_.end())
          << part_.launch.name << " stores to " << b->name << " outside of its " << name_of(tag)
          << " loop (pass merge_threads)";
    }
}

}  // namespace nestor
