#include "nestor/dim.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "nestor/print.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

template <class T>  // int64_t, or Expr
T calculate(BinaryOp op, const T& a, const T& b) {
  using std::max;
  using std::min;
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      return a / b;
    case BinaryOp::mod:
      return a % b;
    case BinaryOp::min:
      return min(a, b);
    case BinaryOp::max:
      return max(a, b);
    default:
      NESTOR_CHECK(false) << "sizes are combined by " << symbol(op);
      return a;
  }
}

bool calculate_comparison(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::eq:
      return a == b;
    case BinaryOp::lt:
      return a < b;
    case BinaryOp::le:
      return a <= b;
    case BinaryOp::gt:
      return a > b;
    default:
      return a >= b;
  }
}

void add_factors(const Expr& e, int64_t& number, std::vector<Expr>& factors) {
  const auto* product = e.as<Binary>();
  if (product && product->op == BinaryOp::mul) {
    add_factors(product->a, number, factors);
    add_factors(product->b, number, factors);
  } else if (const auto n = as_int(e)) {
    number *= *n;
  } else {
    factors.push_back(e);
  }
}

// a / b without the factors that both have; undefined where that isn't whole.
Expr cancelled(const Expr& a, const Expr& b) {
  int64_t of = 1, by = 1;
  std::vector<Expr> over, under;
  add_factors(a, of, over);
  add_factors(b, by, under);
  for (const Expr& e : under) {
    const auto same = std::find_if(over.begin(), over.end(), [&](const Expr& o) { return same_expr(o, e); });
    if (same == over.end()) return {};
    over.erase(same);
  }
  if (by == 0 || of % by != 0) return {};
  Expr out(of / by);
  for (const Expr& e : over) out = out * e;
  return out;
}

const std::shared_ptr<Symbols>& symbols_of(const Dim& a, const Dim& b) {
  NESTOR_CHECK(a.known() || b.known() || a.symbols() == b.symbols()) << "sizes of two models";
  return a.known() ? b.symbols() : a.symbols();
}

}  // namespace

// ---- Dim

Dim::Dim(Expr value, std::shared_ptr<Symbols> symbols) {
  value = symbols->reduce(value);
  if (const auto number = as_int(value)) {
    number_ = *number;
  } else {
    value_ = std::move(value);
    symbols_ = std::move(symbols);
  }
}

Dim::operator int64_t() const {
  if (known()) return number_;
  throw SymbolicSize(
      Diagnostic{"the size " + to_string(*this) + " is known only at run time, but a number is needed",
                 {},
                 {},
                 symbols_->hint(value_)});
}

int64_t Dim::typical() const {
  return known() ? number_ : symbols_->typical(value_);
}

Interval Dim::range() const {
  return known() ? Interval{number_, number_} : range_of(value_, symbols_->facts());
}

Dim combine(BinaryOp op, const Dim& a, const Dim& b) {
  if (a.known() && b.known()) return calculate<int64_t>(op, a, b);
  if (op == BinaryOp::div || op == BinaryOp::mod)
    if (const Expr whole = cancelled(a.expr(), b.expr()))
      return op == BinaryOp::div ? Dim(whole, symbols_of(a, b)) : Dim(0);
  return {calculate(op, a.expr(), b.expr()), symbols_of(a, b)};
}

bool holds(BinaryOp op, const Dim& a, const Dim& b) {
  if (a.known() && b.known()) return calculate_comparison(op, a, b);
  Symbols& symbols = *symbols_of(a, b);
  if (op == BinaryOp::eq) return symbols.equal(a.expr(), b.expr());
  return symbols.decide(make::binary(op, a.expr(), b.expr()));
}

bool surely_le(const Dim& a, const Dim& b) {
  if (a.known() && b.known()) return a <= b;
  const Symbols& symbols = *symbols_of(a, b);
  return can_prove(symbols.reduce(le(a.expr(), b.expr())), symbols.facts());
}

bool must_equal(const Dim& a, const Dim& b, const std::string& why) {
  if (a.known() && b.known()) return a == b;
  return symbols_of(a, b)->require(eq(a.expr(), b.expr()), why);
}

bool add_overflows(const Dim& a, const Dim& b, Dim& sum) {
  int64_t number = 0;
  const bool known = a.known() && b.known();
  const bool overflows =
      known && __builtin_add_overflow(static_cast<int64_t>(a), static_cast<int64_t>(b), &number);
  sum = known ? Dim(number) : a + b;
  return overflows;
}

bool mul_overflows(const Dim& a, const Dim& b, Dim& product) {
  int64_t number = 0;
  const bool known = a.known() && b.known();
  const bool overflows =
      known && __builtin_mul_overflow(static_cast<int64_t>(a), static_cast<int64_t>(b), &number);
  product = known ? Dim(number) : a * b;
  return overflows;
}

std::string to_string(const Dim& d) {
  return d.known() ? std::to_string(static_cast<int64_t>(d)) : print(d.expr());
}

// ---- Symbols

namespace {

// What a size is called, as the name of a variable.
std::string variable_name(const std::string& name) {
  std::string out;
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "n" + out : out;
}

// Those from `first` on, the latest first.
bool hold_usually(const std::vector<Symbol>& all, const std::vector<Symbols::Requirement>& requirements,
                  size_t first = 0) {
  VarMap usual;
  for (const Symbol& s : all) usual[s.var] = Expr(s.typical);
  for (size_t r = requirements.size(); r-- > first;) {
    const auto holds = as_int(simplify(substitute(requirements[r].condition, usual)));
    if (!holds || *holds == 0) return false;
  }
  return true;
}

using Equal = std::vector<std::pair<Var, Expr>>;

// Sizes that are equal to others are what these usually are. False where one can't be.
bool follow_usual(std::vector<Symbol>& all, const Equal& equal) {
  for (const auto& [var, value] : equal) {
    VarMap usual;
    for (const Symbol& s : all) usual[s.var] = Expr(s.typical);
    const auto number = as_int(simplify(substitute(value, usual)));
    for (Symbol& s : all) {
      if (s.var != var) continue;
      if (!number || *number < s.least || *number > s.most) return false;
      s.typical = *number;
    }
  }
  return true;
}

// Neither side of an equality is empty.
bool equals_some(const std::vector<Symbol>& all, const Expr& condition) {
  const auto* equality = condition.as<Binary>();
  if (!equality || equality->op != BinaryOp::eq) return true;
  VarMap usual;
  for (const Symbol& s : all) usual[s.var] = Expr(s.typical);
  return as_int(simplify(substitute(equality->a, usual))).value_or(0) > 0;
}

// What is decided by usual sizes must be possible: where these don't meet the latest requirement, one of them
// becomes the nearest that does, and meets all others; that nothing is left isn't usual. Nothing changes
// where none near does.
void make_usual_possible(std::vector<Symbol>& all, const std::vector<Symbols::Requirement>& requirements,
                         const Equal& equal) {
  constexpr int64_t kFarthest = 2048;
  if (hold_usually(all, requirements, requirements.size() - 1)) return;
  const std::vector<Symbol> guesses = all;
  const Expr& latest = requirements.back().condition;
  for (const bool empty : {false, true})
    for (size_t s = 0; s < all.size(); ++s) {
      if (!uses_var(latest, all[s].var)) continue;
      for (int64_t by = 1; by <= kFarthest; ++by)
        for (const int64_t value : {guesses[s].typical + by, guesses[s].typical - by}) {
          if (value < all[s].least || value > all[s].most) continue;
          all[s].typical = value;
          if ((empty || equals_some(all, latest)) && follow_usual(all, equal) &&
              hold_usually(all, requirements))
            return;
        }
      all = guesses;
    }
}

}  // namespace

Dim Symbols::add(const std::string& name, int64_t least, int64_t most, int64_t typical) {
  std::string own = variable_name(name);
  while (std::any_of(all_.begin(), all_.end(), [&](const Symbol& s) { return s.var->name == own; }))
    own += '_';
  all_.push_back({make_var(own), name, least, most, std::clamp(typical, least, most)});
  facts_.set(all_.back().var, {least, most});
  return {Expr(all_.back().var), shared_from_this()};
}

Dim Symbols::add_found(const std::string& name, const Dim& bound, int64_t least, int64_t typical) {
  constexpr int64_t kUsual = 100;
  const int64_t most = std::min(bound.range().hi, kMost);
  const Dim size = add(name, least, most, typical > 0 ? typical : std::min(bound.typical(), kUsual));
  all_.back().bound = bound.expr();
  if (!bound.known()) facts_.assume(le(size.expr(), bound.expr()));
  return size;
}

bool Symbols::uses_found(const Expr& e) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const Symbol& s) { return s.bound && uses_var(e, s.var); });
}

void Symbols::take_found(const Symbols& other) {
  for (const Symbol& s : other.all_) {
    const auto same = [&](const Symbol& mine) { return mine.var == s.var; };
    if (!s.bound || std::any_of(all_.begin(), all_.end(), same)) continue;
    all_.push_back(s);
    facts_.set(s.var, {s.least, s.most});
  }
  for (const Requirement& r : other.requirements_)
    if (other.uses_found(r.condition)) requirements_.push_back(r);
}

const Symbol* Symbols::find(const std::string& name) const {
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const Symbol& s) { return s.name == name; });
  return it == all_.end() ? nullptr : &*it;
}

std::string Symbols::hint(const Expr& e) const {
  std::string out;
  for (const Symbol& s : all_)
    if (!s.bound && (!e || uses_var(e, s.var)))
      out += (out.empty() ? "--dim " : " --dim ") + s.name + "=" + std::to_string(s.typical);
  return out;
}

int64_t Symbols::typical(const Expr& e) const {
  VarMap values;
  for (const Symbol& s : all_) values[s.var] = Expr(s.typical);
  const auto number = as_int(simplify(substitute(e, values)));
  NESTOR_CHECK(number.has_value()) << print(e) << " isn't of the model's symbols";
  return *number;
}

namespace {

// What was reduced last, while the symbols and requirements stay as they are: the same sizes are met again
// with each operator, and comparing with many requirements takes long. The latest of each tell them from all
// others: branches have copies, which go on in their own ways.
struct Reduced {
  Var symbol;
  Expr requirement;
  size_t requirements = 0;
  std::unordered_map<Expr, Expr, HashExpr, SameExpr> results;
};

}  // namespace

Expr Symbols::reduce(const Expr& e) const {
  if (as_int(e) || all_.empty()) return simplify(e, facts_);
  static thread_local Reduced reduced;
  const Expr latest = requirements_.empty() ? Expr() : requirements_.back().condition;
  if (reduced.symbol != all_.back().var || reduced.requirement.get() != latest.get() ||
      reduced.requirements != requirements_.size())
    reduced = {all_.back().var, latest, requirements_.size(), {}};
  if (const auto known = reduced.results.find(e); known != reduced.results.end()) return known->second;
  Expr out = simplify(put_equal(e), facts_);
  if (!choices_.empty())
    if (const Expr put = put_equal(out); !put.same_as(out)) out = simplify(put, facts_);
  reduced.results.emplace(e, out);
  return out;
}

bool Symbols::decide(const Expr& condition) {
  const Expr c = reduce(condition);
  if (const auto known = as_int(c)) return *known != 0;
  if (can_prove(c, facts_)) return true;
  const Expr opposed = logical_not(c);
  if (can_prove(opposed, facts_)) return false;
  if (closed_)
    throw SymbolicSize(Diagnostic{
        "whether " + print(c) + " holds is known only at run time, but it decides what is compiled",
        {},
        {},
        hint(c)});
  VarMap values;
  for (const Symbol& s : all_) values[s.var] = Expr(s.typical);
  const auto typical = as_int(simplify(substitute(c, values)));
  NESTOR_CHECK(typical.has_value()) << print(c) << " isn't of the model's symbols";
  Requirement& added = requirements_.emplace_back();
  added.condition = *typical != 0 ? c : simplify(opposed, facts_);
  facts_.assume(added.condition);
  return *typical != 0;
}

bool Symbols::require(const Expr& condition, const std::string& why) {
  const Expr c = reduce(condition);
  if (const auto known = as_int(c)) return *known != 0;
  if (can_prove(c, facts_)) return true;
  if (can_prove(logical_not(c), facts_)) return false;
  if (closed_)
    throw SymbolicSize(
        Diagnostic{"whether " + print(c) + " holds is known only at run time", {}, {}, hint(c)});
  requirements_.push_back({c, why});
  facts_.assume(c);
  make_usual_possible(all_, requirements_, equal_);
  if (const auto* equality = c.as<Binary>(); equality && equality->op == BinaryOp::eq)
    take_equal(equality->a, equality->b);
  return true;
}

// ---- Dims

std::vector<int64_t> Dims::typical() const {
  std::vector<int64_t> out;
  for (const Dim& d : *this) out.push_back(d.typical());
  return out;
}

std::vector<Expr> Dims::exprs() const {
  std::vector<Expr> out;
  for (const Dim& d : *this) out.push_back(d.expr());
  return out;
}

bool Dims::known() const {
  return std::all_of(begin(), end(), [](const Dim& d) { return d.known(); });
}

bool operator==(const Dims& a, const Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Dim& x, const Dim& y) { return holds(BinaryOp::eq, x, y); });
}

Dim elements_of(const Dims& shape) {
  if (shape.known()) return product(std::span<const int64_t>(shape.numbers()));
  Dim out = 1;
  for (const Dim& d : shape) out *= d;
  return out;
}

std::string text_of(DType dtype, const Dims& shape) {
  std::string out = std::string(name_of(dtype)) + "[";
  for (size_t d = 0; d < shape.size(); ++d) out += (d ? "," : "") + to_string(shape[d]);
  return out + "]";
}

}  // namespace nestor
