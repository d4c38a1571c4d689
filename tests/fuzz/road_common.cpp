#include "tests/fuzz/road_common.h"

#include <cstring>

#include "nestor/error.h"
#include "nestor/instruction.h"
#include "nestor/interpret.h"
#include "nestor/layout.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/verify.h"
#include "src/passes/thread_tree.h"
#include "tests/fuzz/equivalence.h"

namespace nestor {

namespace {

bool same_bits(const Tensor& a, const Tensor& b, int64_t i) {
  if (is_float(a.dtype()) && a.get(i) != a.get(i) && b.get(i) != b.get(i))
    return true;  // any NaN is any other
  const auto bytes = static_cast<size_t>(bytes_of(a.dtype())), at = static_cast<size_t>(i) * bytes;
  return !std::memcmp(static_cast<const char*>(a.data()) + at, static_cast<const char*>(b.data()) + at,
                      bytes);
}

bool is_out(const PrimFunc& f, size_t i) {
  return f.params[i].role == Role::out;
}

// The outs of the unscheduled function in f64, and after them, where rounding is bounded, the bounds.
std::vector<Tensor> bounded(const Subject& s, const PrimFunc& oracle) {
  std::vector<Tensor> args = random_args(oracle, 1);
  const std::vector<Tensor> inputs = real_args(s.func, s.seed);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_out(s.func, i)) args[i] = inputs[i].cast(args[i].dtype());
  interpret(oracle, args);
  return args;
}

std::string beyond_rounding(const Lowered& l, const std::vector<Tensor>& got) {
  const PrimFunc& f = l.subject.func;
  const auto with_bound = with_error_bound(f);
  const std::vector<Tensor> want = bounded(l.subject, with_bound ? *with_bound : to_f64(f));
  size_t bound = f.params.size();
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (!is_out(f, i)) continue;
    const Tensor value = got[i].reshaped(want[i].shape());
    const bool has_bound = with_bound && is_float(value.dtype());
    const Comparison c = has_bound ? compare(value, want[i], want.at(bound++)) : compare(value, want[i]);
    if (!c.ok()) return describe(c, f.params[i].decl.buffer->name, want[i]);
  }
  return "";
}

}  // namespace

Lowered Lowered::at(const std::vector<int64_t>& dims) const {
  return {subject.at(dims), at_sizes(scheduled, dims), at_sizes(lowered, dims), at_sizes(meant, dims),
          number};
}

std::vector<Tensor> Lowered::args() const {
  std::vector<Tensor> out;
  const std::vector<Tensor> logical = real_args(subject.func, subject.seed);
  for (size_t i = 0; i < logical.size(); ++i) {
    const BufferDecl& decl = scheduled.params[i].decl;
    const Tensor t = decl.layout ? pack(logical[i], decl) : logical[i];
    out.push_back(t.reshaped({t.size()}));
  }
  return out;
}

Road::Entry lower_for(const Target& target, const Subject& subject, const PrimFunc& scheduled, int64_t number,
                      const std::string& name, Lowered& out) {
  out = {subject, scheduled, {}, {}, number};
  LowerOptions options;
  options.check = true;
  try {
    out.lowered = lower(scheduled, target, options);
    PrimFunc plain = without_instructions(scheduled);
    if (target.kind == TargetKind::cuda) plain = passes::without_thread_trees(plain);
    out.meant = plain.body.same_as(scheduled.body) ? out.lowered : lower(plain, target, options);
  } catch (const ScheduleError& e) {
    return {false, e.diagnostic().message, {}};
  } catch (const std::exception& e) {
    return {false, "", {"lowering", e.what()}};
  }
  out.lowered.name = name;
  return {true, "", {}};
}

Finding interpret_lowered(const Lowered& l, std::vector<Tensor>& args) {
  args = l.args();
  InterpretOptions options;
  options.check_races = true;
  try {
    interpret(l.meant, args, options);
  } catch (const Error& e) {
    return {"lowered", e.what()};
  }
  return {};
}

Finding agree(const Lowered& l, const std::vector<Tensor>& expected, const std::vector<Tensor>& got,
              const std::string& who) {
  for (size_t i = 0; i < expected.size(); ++i)
    for (int64_t k = 0; k < expected[i].size(); ++k)
      if (!same_bits(expected[i], got[i], k))
        return {who, l.lowered.params[i].decl.buffer->name + "[" + std::to_string(k) + "] is " +
                         std::to_string(got[i].get(k)) + ", the lowered function interpreted gives " +
                         std::to_string(expected[i].get(k)) + "\n" + print(l.lowered)};
  const std::string beyond = beyond_rounding(l, got);
  return beyond.empty() ? Finding{} : Finding{who + " bound", beyond + "\n" + print(l.lowered)};
}

}  // namespace nestor
