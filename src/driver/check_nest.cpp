// A function that a user wrote as text may access elements outside of its buffers, race, or leave elements
// unwritten, and machine code wouldn't notice. So it is checked when it is read: by the proof, which covers
// all iterations, or, if the proof can't decide and the function is small, by the interpreter.
#include "nestor/driver.h"
#include "nestor/interpret.h"
#include "nestor/print.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

constexpr double kSeconds = 2;             // for the proof; nearly all functions take milliseconds
constexpr int64_t kMostSteps = 1'000'000;  // interpreted iterations
constexpr int64_t kMostElements = int64_t{1} << 24;

constexpr double kMostNodes = 20000;  // of one expression

// Lets inside of expressions stand for their values: the proof knows no names.
struct LetExpander : Rewriter {
  Expr expr(const Expr& e) override {
    if (const auto* l = e.as<Let>()) {
      values[l->var] = expr(l->value);
      return expr(l->body);
    }
    const auto* v = e.as<VarRef>();
    const auto it = v ? values.find(v->var) : values.end();
    return it == values.end() ? children(e) : it->second;
  }
  VarMap values;
};

// Nodes of an expression as a tree, though it may share them.
struct TreeSize : Walker {
  void expr(const Expr& e) override {
    const auto [it, fresh] = sizes.try_emplace(e.get(), 1);
    if (!fresh) {
      size += it->second;
      return;
    }
    const double outer = std::exchange(size, 1);
    children(e);
    sizes[e.get()] = size;
    largest = std::max(largest, size);
    size += outer;
  }
  std::unordered_map<const ExprNode*, double> sizes;
  double size = 0, largest = 0;
};

PrimFunc without_lets(const PrimFunc& f) {
  PrimFunc out = f;
  out.body = LetExpander().stmt(f.body);
  TreeSize tree;
  tree.stmt(out.body);
  return tree.largest <= kMostNodes ? out : f;
}

[[noreturn]] void refuse(const std::string& where, const PrimFunc& f, const Proof& p) {
  Diagnostic d{where + ": " + f.name + ": " + p.reason, {}, {}, {}};
  if (!p.witness.empty()) d.notes.push_back(p.witness);
  if (!p.at.empty()) d.notes.push_back("in this function:\n" + print_marked(f, p.at));
  throw UserError(std::move(d));
}

bool is_small(const PrimFunc& f) {
  double elements = 0;
  const auto add = [&](const BufferDecl& d) {
    double n = d.buffer->type.lanes;
    for (const Expr& e : d.shape) n *= static_cast<double>(as_int(e).value_or(kMostElements));
    elements += n;
  };
  for (const auto& [buffer, decl] : declarations(f)) add(decl);
  return elements <= static_cast<double>(kMostElements);
}

// "" where the interpreter found nothing wrong, else why it couldn't look at all iterations.
std::string interpreted(const std::string& where, const PrimFunc& f) {
  bool has_instructions = false;
  for_each_expr(f.body, [&](const Expr& e) {
    const auto* call = e.as<Call>();
    has_instructions = has_instructions || (call && call->fn == Intrinsic::instruction);
  });
  if (has_instructions) return "the interpreter doesn't know hardware instructions";
  if (!is_small(f)) return "its tensors are too large to interpret it";
  std::vector<Tensor> args = random_args(f, 1);
  InterpretOptions options;
  options.check_races = options.check_written = true;
  options.max_steps = kMostSteps;
  try {
    interpret(f, args, options);
  } catch (const TooManySteps&) {
    return "it has too many iterations to interpret it";
  } catch (const UserError& e) {
    Diagnostic d = e.diagnostic();
    d.message = where + ": " + d.message;
    throw UserError(std::move(d));
  }
  return "";
}

}  // namespace

void check_nest(const PrimFunc& func, const std::string& where, const Note& note) {
  const PrimFunc f = without_lets(func);
  const Proof p = verify_function(f, {.seconds = kSeconds});
  if (p.verdict == Verdict::wrong) refuse(where, f, p);
  if (p.verdict == Verdict::proved) return;
  const std::string open =
      where + ": it isn't proved that " + f.name +
      " stays within its buffers, writes all of its outputs and has no races: " + p.reason;
  if (p.depends_on_data) {
    if (note) note(open + "\nhint: clamp the index, min(max(i, 0), extent-1), or read under a condition");
    return;
  }
  const std::string not_interpreted = interpreted(where, f);
  if (note)
    note(open + (not_interpreted.empty() ? "\nthe interpreter found nothing wrong on random inputs"
                                         : "\nand " + not_interpreted));
}

}  // namespace nestor
