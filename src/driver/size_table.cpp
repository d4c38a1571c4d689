#include "src/driver/size_table.h"

#include <algorithm>

#include "nestor/error.h"
#include "nestor/limits.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/driver/most_of.h"

namespace nestor {

namespace {

const Type kI64{DType::i64, 1}, kF64{DType::f64, 1};

}  // namespace

// The numbers are computed before any requirement is looked at, so they rely on the bounds alone.
SizeTable::SizeTable(std::shared_ptr<const Symbols> symbols) : symbols_(std::move(symbols)) {
  for (const Symbol& s : symbols_->all()) bounds_.set(s.var, {s.least, s.most});
  for (const Symbols::Requirement& r : symbols_->requirements())
    require(r.condition, print(r.condition) + " must hold" + (r.why.empty() ? "" : ": " + r.why));
  for (const Symbol& s : symbols_->all())
    if (s.bound && !as_int(s.bound))
      require(le(s.var, s.bound),
              s.name + " is more than " + print(s.bound) + ", for which memory was taken");
}

namespace {

// Divides by at least 1, and tells what it divides by.
class SafeDivisions : public Rewriter {
 public:
  explicit SafeDivisions(const Facts& facts) : facts_(facts) {}
  std::vector<Expr> divisors;
  Expr expr(const Expr& e) override {
    const Expr out = children(e);
    const auto* binary = out.as<Binary>();
    if (binary && (binary->op == BinaryOp::div || binary->op == BinaryOp::mod) && is_int(out.dtype()))
      return make::binary(binary->op, binary->a, safe(binary->b));
    const auto* call = out.as<Call>();
    if (call && call->fn == Intrinsic::tdiv)
      return make::call(call->fn, {call->args[0], safe(call->args[1])});
    return out;
  }

 private:
  Expr safe(const Expr& divisor) {
    if (can_prove(ge(divisor, 1), facts_)) return divisor;
    divisors.push_back(divisor);
    return max(divisor, 1);
  }
  const Facts& facts_;
};

// Sums and products whose bounds an i64 doesn't hold, innermost first.
class LargeNumbers : public Walker {
 public:
  explicit LargeNumbers(const Facts& bounds) : bounds_(bounds) {}
  std::vector<Expr> found;
  void expr(const Expr& e) override {
    children(e);
    const auto* b = e.as<Binary>();
    if (!b || e.dtype() != DType::i64) return;
    if (b->op != BinaryOp::add && b->op != BinaryOp::sub && b->op != BinaryOp::mul) return;
    const Interval range = range_of(e, bounds_);
    if (range.lo <= Interval::kMin || range.hi >= Interval::kMax) found.push_back(e);
  }

 private:
  const Facts& bounds_;
};

}  // namespace

// Computed in floating point, which doesn't wrap around. What it is computed from isn't too large either.
void SizeTable::require_no_overflow(const Expr& number) {
  LargeNumbers large(bounds_);
  large.expr(number);
  for (const Expr& e : large.found) {
    if (std::any_of(small_.begin(), small_.end(), [&](const Expr& s) { return same_expr(s, e); })) continue;
    small_.push_back(e);
    const auto* b = e.as<Binary>();
    const Expr value = make::binary(b->op, make::cast(kF64, b->a), make::cast(kF64, b->b));
    const Expr most = make::float_imm(static_cast<double>(Interval::kMax), kF64);
    const Expr least = make::float_imm(static_cast<double>(Interval::kMin), kF64);
    require(logical_and(make::binary(BinaryOp::le, value, most), make::binary(BinaryOp::ge, value, least)),
            print(e) + " is too large");
  }
}

// A processor ends the program that divides by 0, so the run is refused instead.
Expr SizeTable::divided_safely(const Expr& number) {
  SafeDivisions safe(bounds_);
  const Expr out = safe.expr(number);
  for (const Expr& d : safe.divisors) {
    const Expr positive = ge(d, 1);
    const bool required =
        std::any_of(positive_.begin(), positive_.end(), [&](const Expr& e) { return same_expr(e, d); });
    if (!required) {
      positive_.push_back(d);
      require(positive, print(positive) + " must hold: another size is divided by it");
    }
  }
  return out;
}

Expr SizeTable::checked(const Expr& number) {
  const Expr out = divided_safely(number);
  require_no_overflow(out);
  return out;
}

int SizeTable::add(const Expr& unsafe) {
  const Expr number = checked(unsafe);
  const auto same =
      std::find_if(numbers_.begin(), numbers_.end(), [&](const Expr& e) { return same_expr(e, number); });
  if (same != numbers_.end()) return static_cast<int>(same - numbers_.begin());
  return add_list({number});
}

int SizeTable::add_list(const std::vector<Expr>& unsafe) {
  std::vector<Expr> numbers;
  for (const Expr& e : unsafe) numbers.push_back(checked(e));
  const auto same = std::search(numbers_.begin(), numbers_.end(), numbers.begin(), numbers.end(), same_expr);
  if (same != numbers_.end()) return static_cast<int>(same - numbers_.begin());
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  return static_cast<int>(numbers_.size() - numbers.size());
}

int SizeTable::add_most(const Expr& number) {
  if (!symbols_->uses_found(number)) return add(number);
  return add(symbols_->reduce(max(most_of(number, *symbols_), 0)));
}

void SizeTable::require(const Expr& condition, const std::string& text) {
  const int number = add(make::select(condition, Expr(1), Expr(0)));
  requirements_.push_back({text, number});
}

// In floating point, which doesn't wrap around.
void SizeTable::require_bytes(const Dims& shape, DType dtype, const std::string& name) {
  if (shape.known()) return;
  Expr bytes = make::float_imm(static_cast<double>(bytes_of(dtype)), kF64);
  for (const Dim& d : shape)
    bytes = make::binary(BinaryOp::mul, bytes, make::cast(kF64, most_of(d.expr(), *symbols_)));
  const Expr most = make::float_imm(static_cast<double>(kMostBytes), kF64);
  const std::string would_be = "`" + name + "` would be " + to_string(dtype, shape) + ", ";
  require(make::binary(BinaryOp::le, bytes, most), would_be + "which is too large");
  for (const Dim& d : shape)
    if (!d.known() && !can_prove(ge(d.expr(), 0), symbols_->facts()))
      require(ge(d.expr(), 0), would_be + "but " + to_string(d) + " is negative");
}

PrimFunc SizeTable::function(const std::string& name) const {
  PrimFunc f;
  f.name = name;
  const Buffer in = make_buffer("N", kI64), out = make_buffer("S", kI64);
  const auto length = [](size_t n) { return std::vector<Expr>{Expr(static_cast<int64_t>(n))}; };
  f.params = {{Role::in, {in, length(symbols_->all().size()), Scope::global, std::nullopt}},
              {Role::out, {out, length(numbers_.size()), Scope::global, std::nullopt}}};
  VarMap values;
  for (size_t s = 0; s < symbols_->all().size(); ++s)
    values[symbols_->all()[s].var] = make::load(in, {Expr(static_cast<int64_t>(s))});
  std::vector<Stmt> stores;
  for (size_t i = 0; i < numbers_.size(); ++i)
    stores.push_back(make::store(out, {Expr(static_cast<int64_t>(i))}, substitute(numbers_[i], values)));
  f.body = make::seq(std::move(stores));
  return f;
}

int64_t SizeTable::symbol(const std::string& name) const {
  const Symbol* s = symbols_->find(name);
  NESTOR_CHECK(s) << "no size is called " << name;
  return s - symbols_->all().data();
}

PlanSizes SizeTable::finish(const std::vector<PlanTensor>& names, const std::vector<Dims>& inputs,
                            const std::vector<int64_t>& found) {
  PlanSizes out;
  const auto what = [&](size_t i, size_t d) {
    const std::string text = to_string(inputs[i][d]);
    return "dimension " + std::to_string(d) + " of input '" + names[i].name + "'" +
           (inputs[i][d].known() ? "" : " (" + text + ")");
  };
  for (const Symbol& s : symbols_->all())
    out.symbols.push_back({s.bound ? s.name : s.var->name, s.name, s.least, s.most, kFoundByRun});
  int64_t place = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t d = 0; d < inputs[i].size(); ++d, ++place) {
      out.checks.push_back({what(i, d), place, add(inputs[i][d].expr())});
      const auto* ref = inputs[i][d].expr().as<VarRef>();
      for (size_t s = 0; ref && s < out.symbols.size(); ++s)
        if (symbols_->all()[s].var == ref->var && out.symbols[s].place < 0) {
          out.symbols[s].place = place;
          out.symbols[s].what = what(i, d);
        }
    }
  for (size_t s = 0; s < out.symbols.size(); ++s)
    NESTOR_CHECK(out.symbols[s].place >= 0 ||
                 std::count(found.begin(), found.end(), static_cast<int64_t>(s)) ||
                 std::none_of(numbers_.begin(), numbers_.end(),
                              [&](const Expr& e) { return uses_var(e, symbols_->all()[s].var); }))
        << "nothing says the size " << out.symbols[s].name;
  out.requirements = requirements_;
  for (PlanSizes::Requirement& r : out.requirements)
    for (const int64_t s : found)
      if (uses_var(numbers_[static_cast<size_t>(r.number)], symbols_->all()[static_cast<size_t>(s)].var))
        r.after = s;
  out.numbers = static_cast<int64_t>(numbers_.size());
  return out;
}

}  // namespace nestor
