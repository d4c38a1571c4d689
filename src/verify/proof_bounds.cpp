// Checks that accesses are within their buffers. For each dimension, "below the box" and "above the box" are
// separate questions: each is a search for one point, far cheaper than a difference of sets.
#include "src/verify/proof_checks.h"

namespace nestor::verify {

namespace {

class Bounds {
 public:
  Bounds(Flow& flow, std::string after) : flow_(flow), m_(flow.model()), after_(std::move(after)) {}

  void check(const Statement& s) {
    const std::vector<std::optional<Lin>> element(s.element.begin(), s.element.end());
    check(s, s.buffer, element, flow_.seen_from(s, 0, quotients_in(s, s.element)),
          s.op ? " updates " : " writes ", true, s.node);
    for (const Read& r : s.reads) {
      std::vector<Lin> known;
      for (const auto& i : r.indices)
        if (i) known.push_back(*i);
      check(s, r.buffer, r.indices, flow_.seen_from(s, 0, quotients_in(s, known)) & r.guard, " reads ",
            r.exact, r.expr);
    }
  }

 private:
  void check(const Statement& s, const Buffer& b, const std::vector<std::optional<Lin>>& indices,
             const Set& points, const std::string& verb, bool exact, const void* at) {
    for (size_t d = 0; d < indices.size(); ++d) {
      if (!indices[d]) continue;  // depends on data: the same as before, or the outputs would differ
      const Lin size = m_.shape(b, d);
      for (const Lin& outside : {*indices[d] * -1 - 1, *indices[d] - size}) {
        const Set where = points & Set::where(m_.home(), {}, {outside}) & m_.definitions_of(size);
        if (where.empty()) continue;
        const std::string instance = s.block ? "block " + s.name : "a statement";
        Failure f{exact ? Verdict::wrong : Verdict::unproved,
                  instance + verb + "outside of " + b->name + after_,
                  "",
                  {at}};
        if (const auto p = (where & s.domain).first(s.loop_vars(s.loops.size())))
          f.witness = sizes_at(m_, *p) + instance_at(s, *p) + verb + element_at(b, indices, *p) + ", and " +
                      b->name + " is " + shape_of(b, *p);
        throw f;
      }
    }
  }

  std::string shape_of(const Buffer& b, const Point& p) const {
    std::string out;
    for (size_t d = 0; d < m_.decl(b).shape.size(); ++d)
      out += (d ? "," : "[") + std::to_string(value_at(m_.shape(b, d), p));
    return out + "]";
  }

  Flow& flow_;
  const Model& m_;
  const std::string after_;
};

// Updates of which no read sees anything, by their variables. Of an update that a read sees it is known that
// a store came before, unless it may have been done a second time.
Set unseen(Flow& flow, const Statement& update) {
  const Model& m = flow.model();
  std::vector<V> vars = update.vars;
  vars.insert(vars.end(), m.dim_vars().begin(), m.dim_vars().end());
  Renaming first;
  for (const V v : update.vars) first[m.home().copy(v, 1)] = v;
  Set left = update.domain.onto(vars);
  const auto seen_by = [&](const Statement& s, const Read& r) {
    if (r.buffer != update.buffer || left.empty()) return;
    const Source& source = flow.source(s, r);
    if (!source.voided.empty()) return;
    for (const Source::Piece& piece : source.updates)
      if (piece.writer == &update) {
        std::vector<V> keep = m.dim_vars();
        for (const V v : update.vars) keep.push_back(m.home().copy(v, 1));
        left = left - piece.relation.onto(keep).renamed(first);
      }
  };
  if (may_repeat(*update.op)) return left;
  for (const Statement& s : m.statements())
    for (const Read& r : s.reads) seen_by(s, r);
  for (const Param& p : m.func().params)
    if (p.role == Role::out && p.decl.buffer == update.buffer) {
      const Statement& caller = flow.final_reader(p.decl.buffer);
      seen_by(caller, caller.reads.front());
    }
  return left;
}

}  // namespace

void check_bounds(Flow& flow, const std::string& after) {
  Bounds bounds(flow, after);
  for (const Statement& s : flow.model().statements()) bounds.check(s);
}

void check_reads(Flow& flow) {
  const auto check = [&](const Statement& s, const Read& r) {
    if (flow.model().is_input(r.buffer)) return;
    for (const Source::Trouble& t : flow.source(s, r).troubles)
      if (t.unwritten) throw t.failure;
  };
  for (const Statement& s : flow.model().statements()) {
    for (const Read& r : s.reads) check(s, r);
    if (!s.op) continue;
    Read own;  // an update reads the element that it changes, whether or not anyone reads it afterwards
    own.buffer = s.buffer;
    own.indices.assign(s.element.begin(), s.element.end());
    own.points = s.element;
    own.guard = unseen(flow, s);
    if (!own.guard.empty()) check(s, own);
  }
}

void check_outputs(Flow& flow) {
  for (const Param& p : flow.model().func().params) {
    if (p.role != Role::out) continue;
    const Statement& caller = flow.final_reader(p.decl.buffer);
    for (const Source::Trouble& t : flow.source(caller, caller.reads.front()).troubles)
      if (t.unwritten) throw t.failure;
  }
}

}  // namespace nestor::verify
