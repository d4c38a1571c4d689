// The search for what one read sees: slot by slot backwards in time (proof_flow.cpp), and which of the stores
// and updates in a slot count (proof_settle.cpp).
#pragma once

#include "src/verify/proof_flow.h"

namespace nestor::verify {

// l's variables in the n-th copy of s.
Lin in_copy(const Statement& s, const Lin& l, int n);
// Does the path go on below the first n items of `prefix`?
bool starts_with(const std::vector<PathItem>& path, const std::vector<PathItem>& prefix, size_t n);

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}
// The quotients in the indices of a read.
std::vector<V> quotients_of(const Statement& s, const Read& read);

struct Flow::Slot {
  size_t depth;  // into the reader's path
  bool carried;  // by the loop there; else a child before the reader's own
  std::vector<const Statement*> writers;
};

struct Flow::Found {
  const Statement* writer;
  size_t depth, shared;
  bool carried;
  Set relation;  // shared loops, reader's variables, writer's first copy
  Set readers;   // that were still looking
};

// One search for the sources of one read.
class Flow::Tracer {
 public:
  Tracer(Flow& flow, const Statement& reader, const Read& read)
      : flow_(flow),
        m_(flow.m_),
        home_(m_.home()),
        r_(reader),
        read_(read),
        quotients_(quotients_of(reader, read)),
        dims_(m_.dim_vars()),
        vars_(reader.vars) {
    append(vars_, read.free);
  }
  Source run();

 private:
  Set readers_at(size_t shared, const std::vector<V>& more);
  std::vector<V> own(size_t shared, bool carried) const;
  void take(const Slot& slot);
  // Readers and the instances of w in the slot that wrote the element they read.
  Set relate(const Slot& slot, size_t shared, const Statement& w);
  Set relation_only(const Found& f) const;
  Set readers_only(const Set& s) const;
  void trouble(const Set& readers, Failure f, bool unwritten = false);
  std::string reading(const Point& p) const;
  // Of several stores into an element the last one counts.
  void keep_last(std::vector<Found>& stores);
  // Is there an instance of x before one of y that writes the same element?
  bool any_before(const Found& x, const Found& y);
  Set copy_set(const Statement& s, int n, size_t shared);
  // Do all instances that store to one element store the same, as far as one can see?
  bool unambiguous(const Found& f);
  Set second(const Set& first) const;
  // The instances of f, with all their loops, after which none of the others stores to what the reader reads;
  // nullopt, and `unordered` says why, where they have no fixed order.
  std::optional<Set> last_of(const Found& f, const std::vector<const Found*>& others, Failure& unordered);
  void without_overwritten(Found& f, const std::vector<const Found*>& others);
  // The updates behind the last store to the element; what came before it counts no more. nullopt where one
  // of them happens twice, or there is no order.
  std::optional<Set> after_the_last(const Found& u, const std::vector<Found>& stores);
  static bool used(const Statement& w, V v);
  // Loops of a slot in which an element may be started anew, so that only what one iteration does counts:
  // none, or the first few that the update and the stores have in common.
  struct Epoch {
    size_t depth, shared;
  };
  // Between the store that starts an element and its reading, each update must happen once.
  void check_updates(Found& u, const std::vector<Found>& stores);
  // In each iteration of the first `shared` loops that has an update of an element, a store starts it; and
  // where one does, all its updates follow: so the last such iteration, which the reader sees, is like every
  // other.
  bool starts_anew(const Found& u, const std::vector<Found>& stores, size_t shared);
  // Has each iteration of the first `shared` loops the same updates? Not where the writer's iterators tell
  // the iterations apart.
  bool all_alike(const Found& u, size_t shared);
  // As f.relation, with the writer's first `shared` loops.
  Set within_slot(const Found& f, size_t shared);
  std::optional<Source::Trouble> once_each(const Found& u, Epoch e);
  std::vector<V> order_of(const Statement& s, int n, size_t shared) const;
  // What is stored after an update destroys it.
  std::optional<Source::Trouble> store_comes_first(const Found& s, const Found& u, Epoch e);
  void nothing_written();
  // Each statement's updates as one relation. Which updates a reader sees must depend on its variables alone:
  // else some reading comes too early.
  void settle_updates();
  void complete(const Statement& w, const Set& wanted, const Set& relation);

  Flow& flow_;
  const Model& m_;
  Sets& home_;
  const Statement& r_;
  const Read& read_;
  std::vector<V> quotients_, dims_;
  std::vector<V> vars_;  // the reader's, and of indices that depend on data
  std::optional<Set> pending_;
  // Stores of iterations before, which only some iterations of a loop see that the reader doesn't tell apart.
  bool starts_again_ = false;
  std::vector<Found> updates_;
  Source out_;
};

}  // namespace nestor::verify
