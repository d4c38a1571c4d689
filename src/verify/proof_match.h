// Compares two functions. Expressions are compared from the outputs down, each under a relation between the
// points of its statement and those of the other one.
#pragma once

#include <functional>
#include <set>

#include "src/verify/proof_flow.h"

namespace nestor::verify {

// An instance of a statement, its variables in a copy of their own.
struct Frame {
  Flow* flow = nullptr;
  const Statement* statement = nullptr;
  int copy = 0;

  const Model& model() const { return flow->model(); }
  std::vector<V> vars() const;
  Renaming names(const std::vector<V>& canonical) const;
};

// An expression inside of an instance.
struct Term {
  Frame at;
  Expr e;
};

class Matcher {
 public:
  Matcher(Sets& home, Flow& before, Flow& after) : home_(home), before_(before), after_(after) {}

  // Throws Failure unless the two are equal at all points of `where`, which is over the variables of both
  // frames.
  void match(const Term& b, const Term& a, const Set& where);
  void match_output(const Buffer& before, const Buffer& after);
  bool reassociated() const { return reassociated_; }
  bool assumes_finite() const { return assumes_finite_; }

 private:
  friend class Reductions;
  friend class Families;
  friend class Guesser;
  using Key = std::tuple<const ExprNode*, int, const ExprNode*, int>;

  bool split_select(const Term& x, const Term& b, const Term& a, const Set& where);
  bool match_temporaries(const Term& b, const Term& a, const Set& where);
  // Proves that the two are equal at the points of `where`, or at more, unless that is known; it is then.
  void claim(const Term& b, const Term& a, const Set& where, const std::function<void(const Set&)>& prove);
  void expand_loads(const Term& b, const Term& a, Set where);
  std::vector<std::pair<Term, Set>> stored(const Term& x, const Source* s, const Renaming& free,
                                           const Set& where, const Term& other);
  void match_nodes(const Term& b, const Term& a, const Set& where);
  void match_inputs(const Term& b, const Term& a, const Set& where);
  void match_operands(const Term& b, const Term& a, const Set& where);
  void attempt(const std::function<void()>& first, const std::function<void()>& second);
  std::optional<Set> unequal(const Term& b, const Term& a, const Set& where) const;
  bool match_indices(const Term& b, const Term& a, const Set& where);
  [[noreturn]] void differ(const Term& b, const Term& a, const Set& where, Verdict verdict,
                           const std::string& why);

  // Do forms that differ have different values at the point? What to say of it; empty where nobody knows.
  std::string other_value(const Term& b, const Term& a, const Point& p) const;

  const Source* source_of(const Term& x) const;  // null where x isn't a load of a temporary
  // Below, `free` names the variables of x's indices that depend on data: see `data_of`.
  void check_troubles(const Term& x, const Source& s, const Renaming& free, const Set& where) const;
  // The relation with its reader in x's frame and its writer in a new one.
  std::pair<Frame, Set> enter(const Term& x, const Source::Piece& piece, const Renaming& free);
  // Where x reads an element that has been updated.
  Set reduced(const Term& x, const Source& s, const Renaming& free) const;
  Set instances(const Frame& at, int copy) const;  // in that copy of its variables
  // What relations between the frames speak of: their variables, and those that stand for data.
  std::vector<V> vars_of(const Frame& b, const Frame& a) const;
  // The variable that stands for an integer expression which depends on data; `where` comes to say that it
  // equals those of equal expressions on the other side.
  V data(const Term& x, Set& where);
  void link(size_t i, Set& where);
  Set linked(Set where);  // which data are equal at these points
  Renaming data_of(const Term& x, Set& where);
  bool match_data(const Term& b, const Term& a, const Set& where);
  const Read& read_of(const Term& x) const;
  Set condition(const Term& x, const Set& canonical) const;

  Sets& home_;
  Flow &before_, &after_;
  int next_copy_ = 10;
  int depth_ = 0;
  int attempts_ = 0;  // under way, each with another way to go
  bool reassociated_ = false, assumes_finite_ = false;
  std::map<Key, std::vector<Set>> claims_;  // proved, or being proved
  std::set<Key> narrow_;                    // pairs that aren't equal at all points that are alike
  std::vector<Expr> made_;                  // so that no claim speaks of an address that is used again
  struct Data {
    Term term;
    V value;
  };
  std::vector<Data> data_;  // in scope
};

// Two loads of elements that are reduced: the same start and the same terms, in whatever order.
void match_reductions(Matcher& m, const Term& b, const Term& a, const Set& where);

}  // namespace nestor::verify
