// Every value gets its place in the frame, lazy operators become jumps, and an access becomes index
// arithmetic with checks.
#include <algorithm>

#include "nestor/error.h"
#include "src/ir/interpret_compiler.h"

namespace nestor::interpreter {

namespace {

constexpr int32_t kConstantBase = 1 << 28;  // places of constants until the frame's size is known

}  // namespace

int32_t Compiler::fresh(int lanes) {
  const int32_t place = top_;
  top_ += lanes;
  out_.frame_size = std::max(out_.frame_size, top_);
  return place;
}

int32_t Compiler::emit(Instruction i) {
  out_.code.push_back(i);
  out_.site_of.push_back(site_);
  return here() - 1;
}

void Compiler::compute(Handler fn, int32_t dst, int lanes, int32_t a, int32_t b, int32_t c) {
  NESTOR_CHECK(fn) << "the interpreter lacks an operation";
  Instruction i{.op = Op::compute, .lanes = static_cast<uint16_t>(lanes), .dst = dst, .a = a, .b = b, .c = c};
  i.fn = fn;
  emit(i);
}

int32_t Compiler::constant(Word w, int lanes) {
  const auto [it, is_new] = constants_.try_emplace({w, lanes}, constant_words_);
  if (is_new) constant_words_ += lanes;
  return kConstantBase + it->second;
}

// Constants lie behind everything else in the frame.
void Compiler::place_constants() {
  const int32_t base = out_.frame_size;
  for (const auto& [key, offset] : constants_)
    for (int l = 0; l < key.second; ++l) out_.constants.emplace_back(base + offset + l, key.first);
  const auto move = [&](int32_t& place) {
    if (place >= kConstantBase) place += base - kConstantBase;
  };
  for (Instruction& i : out_.code)
    for (int32_t* place : {&i.a, &i.b, &i.c, &i.d}) move(*place);
  for (BufferSlot& b : out_.buffers)
    for (int32_t& place : b.shape) move(place);
  out_.frame_size = base + constant_words_;
}

int32_t Compiler::expr(const Expr& e) {
  const Type t = e.type();
  const int n = t.lanes;
  return match(
      e, [&](const IntImm& i) { return constant(i.value, 1); },
      [&](const FloatImm& f) {
        return constant(
            t.dtype == DType::f64 ? put<double>(f.value) : put<float>(static_cast<float>(f.value)), 1);
      },
      [&](const VarRef& r) {
        const auto it = vars_.find(r.var);
        NESTOR_CHECK(it != vars_.end()) << "variable " << r.var->name << " is not bound here";
        return it->second;
      },
      [&](const Load& l) { return load(l, n); }, [&](const Binary& b) { return binary(b, t); },
      [&](const Unary& u) {
        const int32_t a = expr(u.a), dst = fresh(n);
        compute(unary_handler(u.op, t.dtype), dst, n, a);
        wrap(t, dst);
        return dst;
      },
      [&](const Select& s) { return select(s, n); },
      [&](const Cast& c) {
        const int32_t a = expr(c.a), dst = fresh(n);
        compute(cast_handler(c.a.dtype(), t.dtype), dst, n, a);
        return dst;
      },
      [&](const Call& c) { return call(c, t); },
      [&](const Let& l) {
        const int32_t value = expr(l.value);
        vars_[l.var] = value;
        return expr(l.body);
      },
      [&](const Ramp& r) {
        const int32_t base = expr(r.base), stride = expr(r.stride), dst = fresh(n);
        compute(ramp_handler(), dst, n, base, stride);
        wrap(t, dst);
        return dst;
      },
      [&](const Broadcast& b) { return broadcast(b.a, n); },
      [&](const VectorReduce& v) {
        const int lanes = v.a.type().lanes;
        const int32_t a = expr(v.a), scratch = fresh(lanes), dst = fresh(1);
        compute(reduce_handler(), dst, lanes, a, scratch);
        out_.code.back().extra = static_cast<int32_t>(v.op);
        out_.code.back().dtype = t.dtype;
        return dst;
      },
      [&](const Shuffle& s) { return shuffle(s, n); });
}

void Compiler::wrap(Type t, int32_t place) {
  if (Handler fn = wrap_handler(t.dtype)) compute(fn, place, t.lanes, place);
}

int32_t Compiler::broadcast(const Expr& scalar, int n) {
  if (const auto* i = scalar.as<IntImm>()) return constant(i->value, n);
  const int32_t a = expr(scalar), dst = fresh(n);
  compute(broadcast_handler(), dst, n, a);
  return dst;
}

int32_t Compiler::binary(const Binary& b, Type t) {
  const bool lazy = b.op == BinaryOp::logical_and || b.op == BinaryOp::logical_or;
  const int32_t a = expr(b.a), n = t.lanes;
  if (lazy && n == 1) {
    const int32_t dst = fresh(1);
    compute(move_handler(), dst, 1, a);
    const int32_t skip =
        emit({.op = b.op == BinaryOp::logical_and ? Op::jump_if_not : Op::jump_if, .a = dst});
    compute(move_handler(), dst, 1, expr(b.b));
    land(skip);
    return dst;
  }
  const int32_t rhs = expr(b.b), dst = fresh(n);
  const Handler fn = binary_handler(b.op, b.a.dtype());
  if (!fn)
    throw UserError(std::string("the interpreter has no `") + symbol(b.op) + "` of " +
                    std::string(name_of(b.a.dtype())));
  compute(fn, dst, n, a, rhs);
  const bool comparison = is_comparison(b.op);
  if (!comparison && b.op != BinaryOp::min && b.op != BinaryOp::max) wrap(t, dst);
  return dst;
}

int32_t Compiler::select(const Select& s, int n) {
  const int32_t cond = expr(s.cond);
  const int32_t dst = fresh(n);
  if (s.cond.type().lanes > 1) {
    const int32_t a = expr(s.a), b = expr(s.b);
    compute(select_handler(), dst, n, a, b, cond);
    return dst;
  }
  const int32_t to_else = emit({.op = Op::jump_if_not, .a = cond});
  compute(move_handler(), dst, n, expr(s.a));
  const int32_t to_end = emit({.op = Op::jump});
  land(to_else);
  compute(move_handler(), dst, n, expr(s.b));
  land(to_end);
  return dst;
}

// An operand of a shuffle, whose lanes count from `from` there.
int32_t Compiler::shuffled(const Expr& e, const Shuffle& s, int64_t from) {
  const auto* l = e.as<Load>();
  if (!l) return expr(e);
  std::vector<bool> wanted(static_cast<size_t>(e.type().lanes), false);
  for (const int64_t lane : s.lanes)
    if (lane >= from && lane - from < e.type().lanes) wanted[static_cast<size_t>(lane - from)] = true;
  out_.wanted.push_back(std::move(wanted));
  return load(*l, e.type().lanes, static_cast<int32_t>(out_.wanted.size()) - 1);
}

// Lanes that stay next to each other move together.
int32_t Compiler::shuffle(const Shuffle& s, int n) {
  const int64_t from = s.a.type().lanes;
  const int32_t a = shuffled(s.a, s, 0), b = shuffled(s.b, s, from), dst = fresh(n);
  for (int begin = 0, end = 0; begin < n; begin = end) {
    const int64_t first = s.lanes[static_cast<size_t>(begin)];
    const auto follows = [&](int at) {
      const int64_t lane = first + (at - begin);
      return s.lanes[static_cast<size_t>(at)] == lane && lane != from;
    };
    for (end = begin + 1; end < n && follows(end);) ++end;
    const auto place = static_cast<int32_t>(first < from ? a + first : b + first - from);
    compute(move_handler(), dst + begin, end - begin, place);
  }
  return dst;
}

// The values to choose from lie side by side in the frame.
int32_t Compiler::lookup(const Call& c, Type t) {
  const auto count = static_cast<int32_t>(c.args.size() - 1);
  const int32_t index = expr(c.args[0]), table = fresh(count * t.lanes), dst = fresh(t.lanes);
  for (int32_t k = 0; k < count; ++k)
    compute(move_handler(), table + k * t.lanes, t.lanes, expr(c.args[static_cast<size_t>(k) + 1]));
  compute(lookup_handler(), dst, t.lanes, index, table, constant(count, 1));
  return dst;
}

int32_t Compiler::call(const Call& c, Type t) {
  if (c.fn == Intrinsic::instruction)
    throw UserError(Diagnostic{"the interpreter can't run the hardware instruction " + c.name,
                               {},
                               {},
                               "interpret the function before lowering: there it is still its meaning"});
  NESTOR_CHECK(!c.args.empty()) << info(c.fn).name << " is in an expression";
  if (c.fn == Intrinsic::lookup) return lookup(c, t);
  int32_t places[3] = {-1, -1, -1};
  for (size_t i = 0; i < c.args.size(); ++i) places[i] = expr(c.args[i]);
  const int32_t dst = fresh(t.lanes);
  const DType from = c.args[0].dtype();
  const Handler fn = c.fn == Intrinsic::bitcast ? bitcast_handler(from, t.dtype) : call_handler(c.fn, from);
  if (!fn)
    throw UserError(std::string("the interpreter has no ") + info(c.fn).name + " of " +
                    std::string(name_of(from)));
  compute(fn, dst, t.lanes, places[0], places[1], places[2]);
  if (c.fn != Intrinsic::bitcast && c.fn != Intrinsic::is_nan) wrap(t, dst);
  return dst;
}

int32_t Compiler::slot_of(const Buffer& b) const {
  const auto it = buffers_.find(b);
  NESTOR_CHECK(it != buffers_.end()) << "buffer " << b->name << " is not bound here";
  return it->second;
}

// The row-major element index, checked dimension by dimension.
int32_t Compiler::flat_index(int32_t buffer, const std::vector<Expr>& indices, int32_t mask) {
  const BufferSlot& slot = out_.buffers[static_cast<size_t>(buffer)];
  NESTOR_CHECK(slot.shape.size() == indices.size())
      << slot.buffer->name << " has rank " << slot.shape.size() << ", not " << indices.size();
  int lanes = 1;
  for (const Expr& i : indices) lanes = std::max(lanes, i.type().lanes);
  const std::vector<int32_t> shape = slot.shape;
  if (indices.empty()) return constant(0, 1);
  int32_t flat = -1;
  for (size_t d = 0; d < indices.size(); ++d) {
    const bool scalar = indices[d].type().lanes == 1;
    const int32_t index = scalar && lanes > 1 ? broadcast(indices[d], lanes) : expr(indices[d]);
    Instruction i{
        .op = Op::index, .lanes = static_cast<uint16_t>(lanes), .a = flat, .b = index, .c = shape[d]};
    i.dst = fresh(lanes);
    i.d = mask;
    i.buffer = buffer;
    i.extra = static_cast<int32_t>(d);
    emit(i);
    flat = i.dst;
  }
  return flat;
}

Instruction Compiler::access(Op op, int32_t buffer, int32_t flat, int lanes, int32_t mask) {
  Instruction i{.op = op, .lanes = static_cast<uint16_t>(lanes), .a = flat};
  i.b = out_.buffers[static_cast<size_t>(buffer)].place;
  i.d = mask;
  i.buffer = buffer;
  return i;
}

int32_t Compiler::load(const Load& l, int n, int32_t wanted) {
  const int32_t buffer = slot_of(l.buffer);
  const int32_t mask = l.mask ? expr(l.mask) : -1;
  Instruction i = access(Op::load, buffer, flat_index(buffer, l.indices, mask), n, mask);
  i.dst = fresh(n);
  i.extra = wanted;
  emit(i);
  return i.dst;
}

void Compiler::store(const Buffer& b, const std::vector<Expr>& indices, const Expr& value,
                     const Expr& mask_expr) {
  const int32_t buffer = slot_of(b);
  const int32_t place = expr(value);
  const int32_t mask = mask_expr ? expr(mask_expr) : -1;
  int lanes = b->type.lanes;
  for (const Expr& i : indices) lanes = std::max(lanes, i.type().lanes);
  NESTOR_CHECK(lanes == value.type().lanes)
      << value.type().lanes << " lanes stored to " << lanes << " elements of " << b->name;
  Instruction i = access(Op::store, buffer, flat_index(buffer, indices, mask), lanes, mask);
  i.c = place;
  emit(i);
}

void Compiler::bind(const BufferDecl& d, int param, Role role) {
  BufferSlot slot{d.buffer, role, param, {}, -1};
  for (const Expr& e : d.shape) slot.shape.push_back(expr(e));
  slot.place = fresh(1);
  const auto index = static_cast<int32_t>(out_.buffers.size());
  buffers_[d.buffer] = index;
  emit({.op = Op::alloc, .dst = slot.place, .buffer = index});
  out_.buffers.push_back(std::move(slot));
}

}  // namespace nestor::interpreter
