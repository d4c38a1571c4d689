#include "tests/fuzz/functions.h"

#include <algorithm>
#include <map>

#include "nestor/parse.h"

namespace nestor {

namespace {

// Texts with sizes to fill in: $A ... are drawn, $A+2 is a sum, $A*3 a product. Blocks are written short: `S
// i A` is a loop i in $A and the iterator vi.
struct Template {
  const char* name;
  double tolerance;
  const char* text;
};

const std::vector<Template>& templates() {
  static const std::vector<Template> all = {
      {"matmul", 0,
       "in A: f32[$M,$K], const B: f32[$K,$N], out T: f32[$M,$N] |"
       "T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * B[vk,vj]"},
      {"matmul_bias_relu", 0,
       "in A: f32[$M,$K], const W: f32[$N,$K], const B: f32[$N], out Y: f32[$M,$N] | T: f32[$M,$N] ; U: "
       "f32[$M,$N] |"
       "T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * W[vj,vk] |"
       "U: S i M, S j N : U[vi,vj] = T[vi,vj] + B[vj] |"
       "Y: S i M, S j N : Y[vi,vj] = max(0.0f32, U[vi,vj])"},
      {"conv", 0,
       "in X: f32[1,$C,$H,$H], const W: f32[$O,$C,3,3], const B: f32[$O], out Y: f32[1,$O,$H,$H] |"
       "P: f32[1,$C,$H+2,$H+2] ; T: f32[1,$O,$H,$H] |"
       "P: S n 1, S c C, S h H+2, S w H+2 : P[vn,vc,vh,vw] = if 1 <= vh && vh < $H+1 && 1 <= vw && vw < $H+1 "
       "then "
       "X[vn,vc,vh-1,vw-1] else 0.0f32 |"
       "T: S n 1, S o O, S y H, S x H, R c C, R r 3, R s 3 : init { T[vn,vo,vy,vx] = 0.0f32 } "
       "T[vn,vo,vy,vx] += P[vn,vc,vy+vr,vx+vs] * W[vo,vc,vr,vs] |"
       "Y: S n 1, S o O, S y H, S x H : Y[vn,vo,vy,vx] = max(0.0f32, T[vn,vo,vy,vx] + B[vo])"},
      {"grouped_strided_conv", 0,
       "in X: f32[4,2*$H+1], const W: f32[6,2,3], out Y: f32[6,$H] | P: f32[4,2*$H+3] |"
       "P: S c 4, S x 2*H+3 : P[vc,vx] = if 1 <= vx && vx < 2*$H+2 then X[vc,vx-1] else 0.0f32 |"
       "Y: S o 6, S x H, R c 2, R s 3 : init { Y[vo,vx] = 0.0f32 } "
       "Y[vo,vx] += P[vo/3*2+vc,vx*2+vs] * W[vo,vc,vs]"},
      {"depthwise", 0,
       "in X: f32[$C,$H+2], const W: f32[$C,3], out Y: f32[$C,$H] | T: f32[$C,$H] |"
       "T: S c C, S x H, R s 3 : init { T[vc,vx] = 0.0f32 } T[vc,vx] += X[vc,vx+vs] * W[vc,vs] |"
       "Y: S c C, S x H : Y[vc,vx] = min(6.0f32, T[vc,vx])"},
      {"max_pool", 0,
       "in X: f32[$C,2*$H], out Y: f32[$C,$H] | P: f32[$C,2*$H] |"
       "P: S c C, S x 2*H : P[vc,vx] = X[vc,vx] * 2.0f32 |"
       "Y: S c C, S x H, R r 3 : init { Y[vc,vx] = -inf_f32 } "
       "Y[vc,vx] max= if vx*2+vr < 2*$H then P[vc,vx*2+vr] else -inf_f32"},
      {"softmax", 1e-5,
       "in X: f32[$M,$N], out Y: f32[$M,$N] | Q: f32[$M] ; E: f32[$M,$N] ; Z: f32[$M] |"
       "Q: S i M, R k N : init { Q[vi] = -inf_f32 } Q[vi] max= X[vi,vk] |"
       "E: S i M, S j N : E[vi,vj] = exp(X[vi,vj] - Q[vi]) |"
       "Z: S i M, R k N : init { Z[vi] = 0.0f32 } Z[vi] += E[vi,vk] |"
       "Y: S i M, S j N : Y[vi,vj] = E[vi,vj] / Z[vi]"},
      {"layer_norm", 1e-4,
       "in X: f32[$M,$N], const G: f32[$N], out Y: f32[$M,$N] | U: f32[$M] ; D: f32[$M,$N] ; V: f32[$M] |"
       "U: S i M, R k N : init { U[vi] = 0.0f32 } U[vi] += X[vi,vk] |"
       "D: S i M, S j N : D[vi,vj] = X[vi,vj] - U[vi] * 0.125f32 |"
       "V: S i M, R k N : init { V[vi] = 1.0f32 } V[vi] += D[vi,vk] * D[vi,vk] |"
       "Y: S i M, S j N : Y[vi,vj] = D[vi,vj] / sqrt(V[vi]) * G[vj]"},
      {"reductions", 0,
       "in X: f32[$M,$N,$K], out Y: f32[$M] | T: f32[$M,$N] |"
       "T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += X[vi,vj,vk] |"
       "Y: S i M, R j N : init { Y[vi] = -inf_f32 } Y[vi] max= T[vi,vj]"},
      {"transpose_add", 0,
       "in X: f32[$M,$N], in Z: f32[$N,$M], out Y: f32[$N,$M] | T: f32[$N,$M] |"
       "T: S j N, S i M : T[vj,vi] = X[vi,vj] |"
       "Y: S j N, S i M : Y[vj,vi] = T[vj,vi] + Z[vj,vi]"},
      {"gather", 0,
       "in X: f32[4,$N], in I: i64[$M], out Y: f32[$M,$N] | S: f32[4,$N] ; T: f32[$M,$N] |"
       "S: S i 4, S j N : S[vi,vj] = X[vi,vj] * 3.0f32 |"
       "T: S i M, S j N : T[vi,vj] = S[I[vi],vj] |"
       "Y: S i M, S j N : Y[vi,vj] = T[vi,vj] - 1.0f32"},
      {"chain", 0,
       "in X: f32[$M,$N], in B: f32[$N], out Y: f32[$M,$N] | T: f32[$M,$N] ; U: f32[$M,$N] ; V: f32[$M,$N] |"
       "T: S i M, S j N : T[vi,vj] = X[vi,vj] + B[vj] |"
       "U: S i M, S j N : U[vi,vj] = T[vi,vj] * 2.0f32 |"
       "V: S i M, S j N : V[vi,vj] = abs(U[vi,vj]) - T[vi,vj] |"
       "Y: S i M, S j N : Y[vi,vj] = max(V[vi,vj], 1.0f32)"},
      {"two_matmuls", 0,
       "in A: f32[$M,$K], const B: f32[$K,$N], const C: f32[$N,$M], out Y: f32[$M,$M] | T: f32[$M,$N] |"
       "T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * B[vk,vj] |"
       "Y: S i M, S l M, R j N : init { Y[vi,vl] = 1.0f32 } Y[vi,vl] += T[vi,vj] * C[vj,vl]"},
      {"shifted", 0,
       "in X: f32[$M+3,$N], out Y: f32[$M,$N] | T: f32[$M+3,$N] ; U: f32[$M+1,$N] |"
       "T: S i M+3, S j N : T[vi,vj] = X[vi,vj] * 2.0f32 |"
       "U: S i M+1, S j N : U[vi,vj] = T[vi+1,vj] + 1.0f32 |"
       "Y: S i M, S j N : Y[vi,vj] = U[vi+1,vj] * 3.0f32"},
      {"blur", 0,
       "in X: f32[$M+4,$N+2], out Y: f32[$M,$N] | T: f32[$M+2,$N+2] ; U: f32[$M,$N+2] |"
       "T: S i M+2, S j N+2 : T[vi,vj] = X[vi,vj] + X[vi+1,vj] + X[vi+2,vj] |"
       "U: S i M, S j N+2 : U[vi,vj] = T[vi,vj] - T[vi+2,vj] |"
       "Y: S i M, S j N : Y[vi,vj] = U[vi,vj] + U[vi,vj+1] + U[vi,vj+2]"},
      {"concat", 0,
       "in X: f32[$M,$N], in Z: f32[$K,$N], out Y: f32[$M+$K,$N] | T: f32[$M+$K,$N] |"
       "T: S i M, S j N : T[vi,vj] = X[vi,vj] * 2.0f32 |"
       "U: S i K, S j N : T[vi+$M,vj] = Z[vi,vj] * 3.0f32 |"
       "Y: S i M+K, S j N : Y[vi,vj] = T[vi,vj] + 1.0f32"},
      {"causal", 0,
       "in X: f32[$M,$M], in Z: f32[$M,$N], out Y: f32[$M,$N] | S: f32[$M,$M] |"
       "S: S i M, S k M : S[vi,vk] = X[vi,vk] * 2.0f32 |"
       "Y: S i M, S j N, R k M where vk <= vi : init { Y[vi,vj] = 0.0f32 } Y[vi,vj] += S[vi,vk] * Z[vk,vj]"},
      {"started_sum", 0,
       "in X: f32[$M,$K], in Z: f32[$M], out Y: f32[$M] | T: f32[$M] |"
       "T0: S i M : T[vi] = Z[vi] * 2.0f32 |"
       "T: S i M, R k K : T[vi] += X[vi,vk] |"
       "Y: S i M : Y[vi] = T[vi] - 1.0f32"},
      {"scan", 0,
       "in X: f32[$M,$N], out Y: f32[$M,$N] | T: f32[$M,$N] |"
       "T: S i M, S j N : T[vi,vj] = (if 1 <= vi then T[vi-1,vj] else 0.0f32) + X[vi,vj] |"
       "Y: S i M, S j N : Y[vi,vj] = T[vi,vj] * 2.0f32"},
      {"upsample", 0,
       "in X: f32[$M,$N], out Y: f32[2*$M,2*$N] | T: f32[$M,$N] |"
       "T: S i M, S j N : T[vi,vj] = X[vi,vj] - 1.0f32 |"
       "Y: S i 2*M, S j 2*N : Y[vi,vj] = T[vi/2,vj/2] * 2.0f32"},
  };
  return all;
}

std::vector<std::string> split(const std::string& s, char at) {
  std::vector<std::string> out{""};
  for (size_t i = 0; i < s.size(); ++i) {
    // `|` between parts, not the `||` of a condition
    if (s[i] == at)
      out.emplace_back();
    else
      out.back() += s[i];
  }
  for (std::string& part : out) {
    while (!part.empty() && part.front() == ' ') part.erase(0, 1);
    while (!part.empty() && part.back() == ' ') part.pop_back();
  }
  return out;
}

using Sizes = std::map<char, int64_t>;

int64_t size_of(const std::string& text, const Sizes& sizes) {  // "H", "2*H+1", "3"
  int64_t total = 0;
  for (const std::string& term : split(text, '+')) {
    int64_t product = 1;
    for (const std::string& f : split(term, '*'))
      product *= std::isdigit(f[0]) ? std::stoll(f) : sizes.at(f[0]);
    total += product;
  }
  return total;
}

// Replaces $A, $A+2 and 2*$A inside brackets and conditions by numbers.
std::string fill(const std::string& s, const Sizes& sizes) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '$')
      out += std::to_string(sizes.at(s[++i]));
    else
      out += s[i];
  }
  // fold the sums and products of two numbers that this makes
  for (const char op : {'*', '+'})
    for (size_t at = out.find(op); at != std::string::npos; at = out.find(op, at + 1)) {
      size_t a = at, b = at + 1;
      while (a > 0 && std::isdigit(out[a - 1])) --a;
      while (b < out.size() && std::isdigit(out[b])) ++b;
      const bool number = a < at && b > at + 1 &&
                          (a == 0 || (!std::isalnum(out[a - 1]) && out[a - 1] != '.' && out[a - 1] != '_'));
      if (!number || (b < out.size() && (std::isalpha(out[b]) || out[b] == '.'))) continue;
      const int64_t x = std::stoll(out.substr(a, at - a)), y = std::stoll(out.substr(at + 1, b - at - 1));
      out.replace(a, b - a, std::to_string(op == '+' ? x + y : x * y));
      at = a;
    }
  return out;
}

std::string block_text(const std::string& part, const Sizes& sizes) {
  const size_t colon = part.find(':'), second = part.find(" : ");
  const std::string name = part.substr(0, colon);
  std::string loops, iters, axes = part.substr(colon + 1, second - colon - 1), where;
  if (const size_t at = axes.find("where"); at != std::string::npos) {
    where = axes.substr(at);
    axes.resize(at);
  }
  for (const std::string& axis : split(axes, ',')) {
    const std::vector<std::string> words = split(axis, ' ');
    const std::string extent = std::to_string(size_of(words[2], sizes));
    loops += (loops.empty() ? "" : ", ") + words[1] + " in " + extent;
    iters +=
        (iters.empty() ? "" : ", ") + ("v" + words[1]) + ": " + words[0] + " " + extent + " = " + words[1];
  }
  std::string body = fill(part.substr(second + 3), sizes);
  const size_t close = body.find("} ");
  if (close != std::string::npos) body.insert(close + 1, "\n");
  return "  for " + loops + " {\n    block " + name + "(" + iters + ") " + where + " {\n      " + body +
         "\n    }\n  }\n";
}

}  // namespace

int fuzz_function_count() {
  return static_cast<int>(templates().size());
}

FuzzFunction fuzz_function(int i, bool ragged, std::mt19937_64& rng) {
  const Template& t = templates().at(static_cast<size_t>(i));
  const std::vector<int64_t> pool =
      ragged ? std::vector<int64_t>{3, 5, 7, 9, 11} : std::vector<int64_t>{4, 6, 8};
  Sizes sizes;
  for (char c : {'C', 'H', 'K', 'M', 'N', 'O'}) sizes[c] = pool[rng() % pool.size()];
  // Convolutions have seven loops: keep them small.
  for (char c : {'C', 'H', 'O'}) sizes[c] = std::min<int64_t>(sizes[c], ragged ? 5 : 4);
  const std::vector<std::string> parts = split(t.text, '|');
  std::string text = "func " + std::string(t.name) + "(" + fill(parts[0], sizes) + ") {\n";
  // `a && b` in a condition has no '|', so parts are whole; the second part may be the temporaries.
  size_t first = 1;
  if (parts.size() > 1 && parts[1].find(": f32") != std::string::npos &&
      parts[1].find(" : ") == std::string::npos) {
    for (const std::string& temp : split(parts[1], ';')) text += "  alloc " + fill(temp, sizes) + "\n";
    first = 2;
  }
  for (size_t k = first; k < parts.size(); ++k) text += block_text(parts[k], sizes);
  return {t.name, t.tolerance, parse_func(text + "}\n", t.name)};
}

}  // namespace nestor
