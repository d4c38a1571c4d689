// Packs a tensor by a layout: weights at compile time, and in tests the conversion between logical and
// physical tensors.
//
// Most expressions of a layout use one logical index each (c/16, c%16, o), so an element's place in memory is
// a sum of one table entry per logical dimension. Dimensions that occur in the same expression share a table.
// Evaluating the expressions costs the sum of the table sizes, not the size of the tensor. The rest is a
// copy.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "nestor/error.h"
#include "nestor/layout.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

int64_t evaluate(const Expr& e, const std::unordered_map<Var, int64_t>& values) {
  if (const auto* i = e.as<IntImm>()) return i->value;
  if (const auto* v = e.as<VarRef>()) return values.at(v->var);
  const auto* b = e.as<Binary>();
  NESTOR_CHECK(b) << "a layout of something other than + - * / %";  // physical_shape refused it before
  const int64_t x = evaluate(b->a, values), y = evaluate(b->b, values);
  const auto floor_div = [&] { return x / y - ((x % y != 0) && ((x % y < 0) != (y < 0))); };
  switch (b->op) {
    case BinaryOp::add:
      return x + y;
    case BinaryOp::sub:
      return x - y;
    case BinaryOp::mul:
      return x * y;
    case BinaryOp::div:
      return floor_div();
    case BinaryOp::mod:
      return x - y * floor_div();
    default:
      throw InternalError(std::string("`") + symbol(b->op) + "` in a layout");
  }
}

// Logical dimensions that one expression reads together, first to last, and the offset of each combination of
// them.
struct Table {
  std::vector<size_t> dims;
  std::vector<int64_t> offsets;  // row major over dims
};

class PhysicalOrder {
 public:
  explicit PhysicalOrder(const BufferDecl& decl) : physical_(physical_shape(decl)), vars_(decl.layout->vars) {
    for (const Expr& n : decl.shape) shape_.push_back(*as_int(n));
    std::vector<size_t> group(shape_.size());
    std::iota(group.begin(), group.end(), 0);
    const auto join = [&](size_t a, size_t b) {
      const size_t from = group[b], to = group[a];
      for (size_t& g : group)
        if (g == from) g = to;
    };
    const std::vector<Expr>& exprs = decl.layout->exprs;
    for (const Expr& e : exprs) {
      const std::vector<size_t> used = dims_of(e);
      for (size_t d : used) join(used[0], d);
    }
    for (size_t g = 0; g < shape_.size(); ++g) {
      Table t;
      for (size_t d = 0; d < shape_.size(); ++d)
        if (group[d] == g) t.dims.push_back(d);
      if (!t.dims.empty()) tables_.push_back(std::move(t));
    }
    int64_t stride = 1;
    std::vector<int64_t> strides(exprs.size());
    for (size_t p = exprs.size(); p-- > 0;) {
      strides[p] = stride;
      stride *= physical_[p];
    }
    for (Table& t : tables_) fill(t, exprs, strides);
    for (size_t p = 0; p < exprs.size(); ++p)
      if (dims_of(exprs[p]).empty()) constant_ += strides[p] * evaluate(exprs[p], {});
  }

  const std::vector<int64_t>& physical_shape_of() const { return physical_; }

  // Calls f(logical flat index, physical flat index) for every logical element, in logical order.
  template <class F>
  void for_each(F&& f) const {
    const int64_t total = product(shape_);
    if (total == 0) return;
    std::vector<int64_t> index(shape_.size(), 0);
    const size_t last = shape_.empty() ? 0 : shape_.size() - 1;
    const Table* inner = nullptr;  // the table of the innermost dimension, walked in a plain loop
    for (const Table& t : tables_)
      if (!t.dims.empty() && t.dims.back() == last) inner = &t;
    for (int64_t flat = 0; flat < total;) {
      int64_t base = constant_;
      for (const Table& t : tables_)
        if (&t != inner) base += t.offsets[row(t, index)];
      if (!inner) {
        f(flat++, base);
      } else {
        const int64_t* offsets = &inner->offsets[row(*inner, index)];
        for (int64_t i = 0; i < shape_[last]; ++i) f(flat++, base + offsets[i]);
      }
      for (size_t d = last; d-- > 0;) {  // the next row of the innermost dimension
        if (++index[d] < shape_[d]) break;
        index[d] = 0;
      }
    }
  }

 private:
  std::vector<size_t> dims_of(const Expr& e) const {
    std::vector<size_t> out;
    for (size_t d = 0; d < vars_.size(); ++d)
      if (uses_var(e, vars_[d])) out.push_back(d);
    return out;
  }
  size_t row(const Table& t, const std::vector<int64_t>& index) const {
    int64_t at = 0;
    for (size_t d : t.dims) at = at * shape_[d] + index[d];
    return static_cast<size_t>(at);
  }
  void fill(Table& t, const std::vector<Expr>& exprs, const std::vector<int64_t>& strides) const {
    std::vector<size_t> mine;
    for (size_t p = 0; p < exprs.size(); ++p) {
      const std::vector<size_t> used = dims_of(exprs[p]);
      if (!used.empty() && std::find(t.dims.begin(), t.dims.end(), used[0]) != t.dims.end())
        mine.push_back(p);
    }
    int64_t count = 1;
    for (size_t d : t.dims) count *= shape_[d];
    std::unordered_map<Var, int64_t> values;
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i;
      for (size_t k = t.dims.size(); k-- > 0;) {
        values[vars_[t.dims[k]]] = rest % shape_[t.dims[k]];
        rest /= shape_[t.dims[k]];
      }
      int64_t offset = 0;
      for (size_t p : mine) offset += strides[p] * evaluate(exprs[p], values);
      t.offsets.push_back(offset);
    }
  }

  std::vector<int64_t> shape_, physical_;
  std::vector<Var> vars_;
  std::vector<Table> tables_;
  int64_t constant_ = 0;
};

// Copies elements of one width; the compiler makes plain moves of it.
template <class Visit>
void copy_elements(int width, const void* from, void* to, bool scatter, Visit&& visit) {
  const auto run = [&]<class T>(T) {
    const T* in = static_cast<const T*>(from);
    T* out = static_cast<T*>(to);
    if (scatter)
      visit([&](int64_t logical, int64_t physical) { out[physical] = in[logical]; });
    else
      visit([&](int64_t logical, int64_t physical) { out[logical] = in[physical]; });
  };
  switch (width) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

}  // namespace

Tensor pack(const Tensor& logical, const BufferDecl& decl) {
  NESTOR_CHECK(logical.size() == product(logical_shape(decl)) && logical.dtype() == decl.buffer->type.dtype)
      << "packing " << to_string(logical.dtype(), logical.shape()) << " as " << decl.buffer->name;
  if (!decl.layout) return logical;
  const PhysicalOrder order(decl);
  Tensor out(logical.dtype(), order.physical_shape_of());
  if (decl.layout->pad != 0)
    for (int64_t i = 0; i < out.size(); ++i) out.set(i, decl.layout->pad);
  copy_elements(bytes_of(logical.dtype()), logical.data(), out.data(), true,
                [&](auto&& f) { order.for_each(f); });
  return out;
}

Tensor unpack(const Tensor& physical, const BufferDecl& decl) {
  NESTOR_CHECK(physical.size() == physical_size(decl) && physical.dtype() == decl.buffer->type.dtype)
      << "unpacking " << to_string(physical.dtype(), physical.shape()) << " as " << decl.buffer->name;
  Tensor out(physical.dtype(), logical_shape(decl));
  if (!decl.layout) {
    std::memcpy(out.data(), physical.data(), static_cast<size_t>(out.bytes()));
    return out;
  }
  const PhysicalOrder order(decl);
  copy_elements(bytes_of(out.dtype()), physical.data(), out.data(), false,
                [&](auto&& f) { order.for_each(f); });
  return out;
}

}  // namespace nestor
