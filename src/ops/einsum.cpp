// Einsum: the sum of products of elements whose dimensions of one letter go together, over the letters that
// the result doesn't have. A letter that an operand has twice takes its diagonal. A dimension of 1 is
// repeated. Products of matrices of floats, or batches of them, become MatMuls in a graph
// (src/graph/multiply_einsums.cpp); this is the definition.
#include "src/ops/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

constexpr size_t kMostUnderDots = 10;  // dimensions: a digit each

// `...` as that many digits, the last of them '0'; fails on anything but letters.
std::string letters_of(const OpContext& ctx, const std::string& term, size_t dots) {
  std::string out;
  for (size_t i = 0; i < term.size(); ++i) {
    const auto c = static_cast<unsigned char>(term[i]);
    if (term.compare(i, 3, "...") == 0 && term.find("...", i + 3) == std::string::npos) {
      for (size_t d = dots; d-- > 0;) out += static_cast<char>('0' + d);
      i += 2;
    } else if (std::isalpha(c)) {
      out += term[i];
    } else {
      ctx.fail(fmt::format("term \"{}\" of the equation is not of letters and at most one \"...\"", term));
    }
  }
  return out;
}

bool has_dots(const std::string& term) {
  return term.find("...") != std::string::npos;
}

// Dimensions that stand under an operand's dots.
size_t dots_of(const OpContext& ctx, const std::string& term, size_t rank, int input) {
  letters_of(ctx, term, 0);  // it has nothing else
  const size_t letters = term.size() - (has_dots(term) ? 3 : 0);
  if (letters > rank || (!has_dots(term) && letters != rank))
    ctx.fail(fmt::format("term \"{}\" of the equation doesn't fit input {}, {}", term, input,
                         to_string(ctx.input(input))));
  if (rank - letters > kMostUnderDots)
    ctx.fail(fmt::format("term \"{}\" of the equation has more than {} dimensions under \"...\"", term,
                         kMostUnderDots));
  return rank - letters;
}

// Without an arrow: what all operands have under dots, then each letter that comes once, by the alphabet.
std::string implicit_result(const Einsum& e) {
  std::map<char, int> count;
  for (const std::string& term : e.operands)
    for (const char c : term) ++count[c];
  std::string digits, letters;
  for (const auto& [c, n] : count)
    if (std::isdigit(static_cast<unsigned char>(c)))
      digits.insert(digits.begin(), c);
    else if (n == 1)
      letters += c;
  return digits + letters;
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  for (int i = 1; i < ctx.num_inputs(); ++i) require_same_type(ctx, 0, i);
  return {{ctx.input(0).dtype, parse_einsum(ctx).shape()}};
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Einsum e = parse_einsum(ctx);
  const auto axes = [&](const std::string& letters) {
    std::vector<Axis> a;
    for (const char c : letters)
      a.push_back({std::isdigit(static_cast<unsigned char>(c)) ? std::string{'b', c} : std::string{c},
                   e.extents.at(c)});
    return a;
  };
  const std::string summed = e.summed();
  const auto product = [&](const Exprs& s, const Exprs& r) {
    Expr all;
    for (size_t k = 0; k < in.size(); ++k) {
      Exprs at;
      for (size_t d = 0; d < e.operands[k].size(); ++d) {
        const char c = e.operands[k][d];
        const size_t of_result = e.result.find(c);
        at.push_back(in[k].shape[d] == 1              ? Expr(0)
                     : of_result != std::string::npos ? s[of_result]
                                                      : r[summed.find(c)]);
      }
      const Expr x = in[k].at(at);
      all = all ? all * x : x;
    }
    return all;
  };
  if (summed.empty())
    b.compute(out[0], axes(e.result), [&](const Exprs& s) { return product(s, {}); });
  else
    b.reduce(out[0], axes(e.result), axes(summed), ReduceOp::add, product);
}

}  // namespace

Dims Einsum::shape() const {
  Dims out;
  for (const char c : result) out.push_back(extents.at(c));
  return out;
}

std::string Einsum::summed() const {
  std::string out;
  for (const std::string& term : operands)
    for (const char c : term)
      if (result.find(c) == std::string::npos && out.find(c) == std::string::npos) out += c;
  return out;
}

Einsum parse_einsum(const OpContext& ctx) {
  std::string equation = ctx.get_string("equation", "");
  if (!ctx.node().attrs.count("equation")) ctx.fail("`equation` is missing");
  std::erase_if(equation, [](unsigned char c) { return std::isspace(c); });
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow))
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  if (static_cast<int>(terms.size()) != ctx.num_inputs())
    ctx.fail(
        fmt::format("equation \"{}\" has {} terms for {} inputs", equation, terms.size(), ctx.num_inputs()));
  Einsum e;
  size_t most = 0;  // dimensions under dots
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const auto& term = terms[static_cast<size_t>(i)];
    const Dims& shape = ctx.input(i).shape;
    const size_t dots = dots_of(ctx, term, shape.size(), i);
    most = std::max(most, dots);
    e.operands.push_back(letters_of(ctx, term, dots));
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto [at, first] = e.extents.emplace(e.operands.back()[d], shape[d]);
      if (at->second == 1) at->second = shape[d];
      if (shape[d] != 1 && !must_equal(shape[d], at->second))
        ctx.fail(fmt::format("`{}` of equation \"{}\" is {} and, in input {}, {}", at->first, equation,
                             to_string(at->second), i, to_string(shape[d])));
    }
  }
  e.result =
      arrow == std::string::npos ? implicit_result(e) : letters_of(ctx, equation.substr(arrow + 2), most);
  for (const char c : e.result) {
    if (!e.extents.count(c))
      ctx.fail(fmt::format("the result of equation \"{}\" has `{}`, which no input has", equation, c));
    if (std::count(e.result.begin(), e.result.end(), c) > 1)
      ctx.fail(fmt::format("the result of equation \"{}\" has `{}` twice", equation, c));
  }
  return e;
}

void register_einsum(Rows& rows) {
  rows.push_back({.name = "Einsum",
                  .since = 12,
                  .min_inputs = 1,
                  .max_inputs = -1,
                  .pattern = Pattern::anchor,
                  .params = "X W",
                  .infer = infer,
                  .build = build});
}

}  // namespace nestor::ops
