// The names in the text. The IR compares variables, buffers and blocks by identity, so two may share a name,
// and the text must still parse back to the same identities. A variable's name is unique on its path
// (siblings may reuse it), a buffer's and a block's in the function; what clashes gets `_1`, `_2` ... A
// printed name clashes with nothing, so that printing what was parsed changes no byte.
#include <array>
#include <cctype>

#include "src/ir/printer.h"

namespace nestor {

std::string identifier(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 128;
    out += plain ? c : '_';
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out.insert(out.begin(), '_');
  return out;
}

bool is_reserved_word(std::string_view word) {
  static constexpr std::array<std::string_view, 16> words = {
      "func", "for", "parallel", "vectorized", "unrolled", "block", "if",    "then",
      "else", "let", "in",       "where",      "alloc",    "true",  "false", "vthread"};
  for (const std::string_view w : words)
    if (w == word) return true;
  const bool special_float = word.starts_with("inf_") || word.starts_with("nan_");
  return special_float && parse_dtype(word.substr(4)).has_value();
}

std::string Printer::unique(std::string_view wanted, const std::unordered_set<std::string>& taken) {
  const std::string base = identifier(wanted);
  std::string name = base;
  for (int i = 1; taken.contains(name) || is_reserved_word(name); ++i) name = base + "_" + std::to_string(i);
  return name;
}

Printer::Binding::Binding(Printer& printer, const Var& v, std::string name)
    : printer_(printer), var_(v.get()), name_(std::move(name)) {
  std::string& current = printer.var_names_[var_];
  shadowed_ = std::move(current);
  current = name_;
  printer.used_vars_.insert(name_);
}
Printer::Binding::~Binding() {
  if (shadowed_.empty())
    printer_.var_names_.erase(var_);
  else
    printer_.var_names_[var_] = shadowed_;
  printer_.used_vars_.erase(name_);
}

std::string Printer::fresh_variable(const Var& v, bool keep_name) {
  if (options_.canonical && !keep_name) return unique("v" + std::to_string(canonical_vars_++), used_vars_);
  return unique(v->name, used_vars_);
}

// A variable bound nowhere (an expression printed on its own) keeps the name it gets at first sight.
std::string Printer::variable(const Var& v) {
  if (!v) return "<null>";
  std::string& name = var_names_[v.get()];
  if (name.empty()) {
    name = fresh_variable(v, false);
    used_vars_.insert(name);
  }
  return name;
}

std::string Printer::buffer(const Buffer& b) {
  if (!b) return "<null>";
  std::string& name = buffer_names_[b.get()];
  if (name.empty()) {
    const std::string wanted = options_.canonical ? "b" + std::to_string(used_buffers_.size()) : b->name;
    name = unique(wanted, used_buffers_);
    used_buffers_.insert(name);
  }
  return name;
}

std::string Printer::block_name(const BlockId& id) {
  if (!id) return "<null>";
  std::string& name = block_names_[id.get()];
  if (name.empty()) {
    name = unique(id->name, used_blocks_);
    used_blocks_.insert(name);
  }
  return name;
}

}  // namespace nestor
