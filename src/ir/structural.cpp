// Structural equality and hashing up to renaming. Variables, buffers and blocks are numbered in the order in
// which a walk meets them: two functions are equal if and only if their walks give the same numbers and the
// same contents.
#include <bit>
#include <cmath>

#include "nestor/walk.h"

namespace nestor {

namespace {

// Turns a tree into a stream of words; the sink compares or hashes. One walk defines both, so they can't
// disagree.
class Serializer {
 public:
  Serializer(std::vector<uint64_t>& out, bool names) : out_(out), names_(names) {}

  void field(const Expr& e) {
    if (!e) return word(0);
    word(1 + e->v.index());
    field(e->type);
    std::visit([this](const auto& n) { node(n); }, e->v);
  }
  void field(const Stmt& s) {
    if (!s) return word(0);
    word(101 + s->v.index());
    std::visit([this](const auto& n) { node(n); }, s->v);
  }
  void field(const BufferDecl& d) {
    field(d.buffer);
    field(d.shape);
    field(d.scope);
    word(d.layout.has_value() + 2 * d.align.size());
    for (const StrideAlign& a : d.align) {
      field(a.dim);
      field(a.factor);
      field(a.offset);
    }
    if (!d.layout) return;
    field(d.layout->vars);
    field(d.layout->exprs);
    field(d.layout->pad);
  }
  void func(const PrimFunc& f) {
    field(f.dims);
    word(f.params.size());
    for (const Param& p : f.params) {
      field(p.role);
      field(p.decl);
    }
    field(f.allocs);
    field(f.body);
  }

 private:
  void word(uint64_t w) { out_.push_back(w); }
  template <class N>
  void node(const N& n) {
    std::apply([&](auto... f) { (field(n.*f), ...); }, N::fields());
    if constexpr (std::is_same_v<N, For>)
      if (names_) field(n.var->name);
    if constexpr (std::is_same_v<N, Block>)
      if (names_) field(n.id->name);
  }
  void field(int64_t v) { word(static_cast<uint64_t>(v)); }
  void field(bool v) {  // only what is set counts: functions without it keep their hash
    if (v) word(0x73657473ULL << 32);
  }
  void field(double v) { word(std::isnan(v) ? 0x7ff8000000000000ULL : std::bit_cast<uint64_t>(v)); }
  void field(const std::string& s) {
    word(s.size());
    for (char c : s) word(static_cast<unsigned char>(c));
  }
  void field(const Type& t) { word(static_cast<uint64_t>(t.dtype) * 65536 + static_cast<uint64_t>(t.lanes)); }
  template <class E>
  requires std::is_enum_v<E>
  void field(E e) { word(static_cast<uint64_t>(e)); }
  template <class T>
  void field(const std::vector<T>& items) {
    word(items.size());
    for (const T& item : items) field(item);
  }
  void field(const Annotations& annotations) {
    word(annotations.size());
    for (const auto& [key, value] : annotations) {
      field(key);
      word(value.index());
      std::visit([this](const auto& v) { field(v); }, value);
    }
  }
  void field(const IterVar& i) { node(i); }
  void field(const Var& v) {
    number(v.get());
    field(v->type);
  }
  void field(const Buffer& b) {
    number(b.get());
    field(b->type);
  }
  void field(const BlockId& b) { number(b.get()); }
  void number(const void* identity) { word(numbers_.try_emplace(identity, numbers_.size()).first->second); }

  std::vector<uint64_t>& out_;
  bool names_;
  std::unordered_map<const void*, uint64_t> numbers_;
};

template <class T>
std::vector<uint64_t> serialize(const T& node) {
  std::vector<uint64_t> out;
  Serializer(out, false).field(node);
  return out;
}
std::vector<uint64_t> serialize(const PrimFunc& f, bool names) {
  std::vector<uint64_t> out;
  Serializer(out, names).func(f);
  return out;
}

}  // namespace

bool structural_equal(const Expr& a, const Expr& b) {
  return a.same_as(b) || serialize(a) == serialize(b);
}
bool structural_equal(const Stmt& a, const Stmt& b) {
  return a.same_as(b) || serialize(a) == serialize(b);
}
bool structural_equal(const PrimFunc& a, const PrimFunc& b, bool names) {
  return serialize(a, names) == serialize(b, names);
}

uint64_t structural_hash(const PrimFunc& f, bool names) {
  uint64_t h = 0xcbf29ce484222325ULL;  // FNV-1a over the words' bytes
  for (uint64_t w : serialize(f, names))
    for (int i = 0; i < 8; ++i) h = (h ^ ((w >> (8 * i)) & 0xff)) * 0x100000001b3ULL;
  return h;
}

}  // namespace nestor
