// A sum of products of bytes runs four times as fast, of bf16 twice as fast, by instructions that take
// several steps of the reduction at once: each lane adds up `group` products of neighbours in memory. The
// shared operand's group is loaded once and repeated in all lanes; the other operand's groups lie side by
// side, lane after lane, which is the layout that it is packed in.
//
// Whether a reduction is of that form is seen in the types of what it multiplies, and in how these move: the
// lanes are an iterator that the first factor doesn't move with, the group is one of the reduction's that
// both move with. The instructions are those of schedules/instructions; the widest that fills a register of
// the target is taken. tensorize then looks at every detail, and where it refuses, the plain tile is what is
// left.
#include "schedules/library/dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "nestor/instruction.h"
#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

constexpr int64_t kUsesToPay = 32;  // of an element that is copied: about 2 cycles against 1/10 for each use

// A load, perhaps in a wider type.
const Load* factor(const Expr& e) {
  const auto* c = e.as<Cast>();
  return (c ? c->a : e).as<Load>();
}

const Access* access_of(const BlockInfo& b, const Buffer& buffer) {
  for (const Access& a : b.accesses)
    if (a.buffer == buffer) return &a;
  return nullptr;
}

struct Shape {
  std::string name;
  int64_t lanes, group, registers;
};

// The instruction for sums of products of these types, with so many lanes.
std::optional<Shape> instruction_for(DType shared, DType own, DType sum, int64_t lanes,
                                     const Target& target) {
  for (const std::string& name : instruction_names()) {
    const Instruction& i = *find_instruction(name);
    const std::vector<IterVar>& iters = i.block().iters;
    if (iters.size() != 2 || iters[0].kind != IterKind::spatial || iters[1].kind != IterKind::reduce)
      continue;
    const auto* u = i.block().body.as<Update>();
    const auto* product = u ? u->value.as<Binary>() : nullptr;
    if (!product || product->op != BinaryOp::mul || u->op != ReduceOp::add) continue;
    const Load *a = factor(product->a), *b = factor(product->b);
    if (!a || !b || a->buffer->type.dtype != shared || b->buffer->type.dtype != own ||
        u->buffer->type.dtype != sum || a->indices.size() != 1 || b->indices.size() != 2 ||
        as_int(iters[0].extent) != lanes)
      continue;
    const auto here = std::find_if(i.lowerings.begin(), i.lowerings.end(), [&](const InstructionLowering& l) {
      return l.kind == TargetKind::cpu && meets(target, l);
    });
    if (here != i.lowerings.end()) return Shape{name, lanes, *as_int(iters[1].extent), here->registers};
  }
  return std::nullopt;
}

bool is_plain(const Access& a, const Iter& i) {
  return std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) {
    const auto* v = e.as<VarRef>();
    return v && v->var == i.var;
  });
}

// How often an element of the operand is used.
int64_t uses_of(const BlockInfo& b, const Access& a) {
  int64_t uses = 1, touched = 1;
  for (const Iter& i : b.iters) {
    uses *= i.extent;
    if (a.uses(i)) touched *= i.extent;
  }
  return uses / std::max<int64_t>(1, std::min(touched, a.elements));
}

// Groups that are mostly full.
bool fills_groups(int64_t extent, int64_t group) {
  return extent * 2 > group && ceil_div(extent, group) * group * 2 <= extent * 3;
}

// So many vectors beside each other that no single column is left over, which would be no vector; `wanted` if
// it may be, 0 if there is no such number.
int64_t vectors_for(int64_t extent, int64_t lanes, int64_t wanted) {
  constexpr int64_t kMost = 7;
  const auto good = [&](int64_t n) { return n * lanes >= extent || extent % (n * lanes) != 1; };
  if (good(wanted)) return wanted;
  for (const int64_t n : {2, 3, 4, 5, 6})
    if (good(n)) return n;
  return good(kMost) ? kMost : 0;
}

// Of the tiles whose accumulators leave room for what the instruction makes of a step's vectors and of an
// element that rows share, and one register more on the way, the one that makes least for each product.
void fit_registers(Tile& t, const Dot& dot, const Target& target) {
  constexpr int64_t kMostVectors = 4;  // more than that gain nothing
  const int64_t extent = t.vector->extent, most_rows = t.row ? t.row->extent : 1;
  double least = 0;
  for (int64_t n = 1; n <= kMostVectors && (n - 1) * dot.lanes < extent; ++n) {
    const int64_t rows = std::min(most_rows, (target.vector_registers - dot.registers * (n + 1) - 1) / n);
    if (rows < 1) break;
    const double made = 1.0 / static_cast<double>(rows) + 1.0 / static_cast<double>(n);
    if (vectors_for(extent, dot.lanes, n) != n || (least > 0 && made >= least)) continue;
    least = made;
    t.rows = rows;
    t.width = std::min(n * dot.lanes, extent);
    t.why_size = fmt::format(
        "with {} x {} accumulators, {} registers leave {} for each of a step's {} vectors and for a "
        "broadcast",
        rows, n, target.vector_registers, dot.registers, n);
  }
}

}  // namespace

std::optional<Dot> find_dot(const PrimFunc& f, const BlockInfo& b, const Target& target) {
  const auto* u = find_block(f, b.name)->body.as<Update>();
  const auto* product = u ? u->value.as<Binary>() : nullptr;
  if (!product || product->op != BinaryOp::mul || u->op != ReduceOp::add) return std::nullopt;
  const Load *first = factor(product->a), *second = factor(product->b);
  if (!first || !second || first->buffer == second->buffer) return std::nullopt;
  const auto shape = instruction_for(first->buffer->type.dtype, second->buffer->type.dtype,
                                     u->buffer->type.dtype, lanes_of(b, target), target);
  if (!shape) return std::nullopt;
  const Access &shared = *access_of(b, first->buffer), &own = *access_of(b, second->buffer);
  if (!own.has_plain_indices() || (!own.constant && uses_of(b, own) < kUsesToPay)) return std::nullopt;
  std::optional<Dot> best;
  // Steps made for one that counts, whether a copy, whether results of neighbouring lanes lie apart (1x1 from
  // 64 to 256 channels by lanes along 16 blocks of them: twice the time), columns.
  std::tuple<double, bool, bool, int64_t> least;
  for (const Iter* v : b.spatial()) {
    if (v->loop.empty() || v->extent * 2 < shape->lanes || shared.uses(*v) || !is_plain(own, *v)) continue;
    if (vectors_for(v->extent, shape->lanes, 1) == 0) continue;
    for (const Iter* r : b.reduced()) {
      if (r->loop.empty() || !fills_groups(r->extent, shape->group) || !is_plain(own, *r)) continue;
      // Several instructions for one don't pay for a group that is never full (3 channels: 1.7 times the
      // time).
      if (shape->registers > 1 && r->extent < shape->group) continue;
      const bool copy = shared.stride(*r) != 1;
      if (copy && (!is_plain(shared, *r) || uses_of(b, shared) < kUsesToPay)) continue;
      const auto made = static_cast<double>(ceil_div(r->extent, shape->group) * shape->group);
      const std::tuple cost(made / static_cast<double>(r->extent), copy, write_of(b)->stride(*v) != 1,
                            -v->extent);
      if (best && cost >= least) continue;
      best = Dot{shape->name,   shape->lanes,   shape->group, shape->registers, v->loop, r->loop,
                 first->buffer, second->buffer, copy};
      least = cost;
    }
  }
  return best;
}

Tile choose_tile(const BlockInfo& b, const Dot& dot, const Target& target) {
  Tile t = choose_tile(b, target, b.iter(dot.vector));
  t.turned = t.taps = nullptr;
  if (t.beside) t.rows = std::min(t.row->extent, t.rows * std::exchange(t.beside, nullptr)->extent);
  const int64_t wanted = ceil_div(t.width, dot.lanes);
  if (const int64_t n = vectors_for(t.vector->extent, dot.lanes, wanted); n != wanted) {
    t.width = std::min(n * dot.lanes, t.vector->extent);
    t.rows = std::min(t.rows, (target.vector_registers - 1 - n) / n);
  }
  if (dot.registers > 1) fit_registers(t, dot, target);
  t.packed.clear();
  t.copied.clear();
  (access_of(b, dot.own)->constant ? t.packed : t.copied).push_back(dot.own);
  t.why_vector = fmt::format("{} sums {} steps of {} in each of {} lanes of {}", dot.instruction, dot.group,
                             dot.reduced, dot.lanes, dot.vector);
  return t;
}

void lay_out_shared(Schedule& s, const std::string& block, const Dot& dot) {
  if (!dot.copy_shared) return;
  Buffer buffer = dot.shared;
  s.because(fmt::format("{} needs {} contiguous elements of {}, and {} has them strided", dot.instruction,
                        dot.group, dot.reduced, buffer->name));
  if (find_param(s.func(), buffer)) {
    const std::string copy = buffer->name + "_packed";
    s(fmt::format("{} = cache_read {} {} global", copy, block, buffer->name));
    buffer = analyze(s.func(), copy).output;
  }
  const BlockInfo b = analyze(s.func(), block);
  const Access& a = *access_of(b, buffer);
  std::vector<std::string> names, map;
  std::string inner;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    names.push_back(fmt::format("d{}", d));
    const auto* v = a.indices[d].as<VarRef>();
    const bool grouped = v && v->var == b.iter(dot.reduced)->var;
    map.push_back(grouped ? fmt::format("d{}/{}", d, dot.group) : names.back());
    if (grouped) inner = fmt::format("d{}%{}", d, dot.group);
  }
  map.push_back(inner);
  s(fmt::format("transform_layout {} ({}) -> ({})", buffer->name, fmt::join(names, ", "),
                fmt::join(map, ", ")));
}

}  // namespace nestor::library
