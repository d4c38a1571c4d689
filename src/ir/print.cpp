// Prints functions and statements: the layout of lines, headers and declarations, and the spans of what was
// printed.
#include <cmath>
#include <memory>

#include "src/ir/printer.h"

namespace nestor {

namespace {

const char* keyword(const For& f) {
  if (f.kind == ForKind::serial) return "for";
  return f.kind == ForKind::thread ? name_of(f.thread) : name_of(f.kind);
}

// Loops of one kind with nothing between them share a line; annotated ones stand alone, to be seen.
const For* chained(const For& outer) {
  const For* inner = outer.body.as<For>();
  const bool same_kind = inner && inner->kind == outer.kind && outer.kind != ForKind::thread;
  return same_kind && outer.annotations.empty() && inner->annotations.empty() ? inner : nullptr;
}

std::string print_pad(double pad) {
  std::string text = print_literal(FloatImm{pad}, {DType::f64, 1});
  const size_t suffix = text.find(text.find("_f64") == std::string::npos ? "f64" : "_f64");
  return text.substr(0, suffix);
}

}  // namespace

// ---- Lines --------------------------------------------------------------------------------------

void Printer::begin_line() {
  out_.append(static_cast<size_t>(2 * indent_), ' ');
}
void Printer::end_line() {
  out_ += '\n';
  ++line_;
  line_start_ = out_.size();
}
void Printer::span(const void* node, size_t from) {
  if (!options_.spans || from < line_start_) return;
  spans_.try_emplace(
      node, Span{line_, static_cast<int>(from - line_start_) + 1, static_cast<int>(out_.size() - from)});
}

// ---- Declarations -------------------------------------------------------------------------------

void Printer::decl(const BufferDecl& d) {
  put(buffer(d.buffer) + ": " + print_type(d.buffer->type) + "[");
  Compact compact(*this);
  list(d.shape, ",");
  put("]");
  if (d.scope != Scope::global) put(std::string(" ") + name_of(d.scope));
  if (d.layout) layout(*d.layout);
  for (const StrideAlign& a : d.align)
    put(" align (" + std::to_string(a.dim) + "," + std::to_string(a.factor) + "," + std::to_string(a.offset) +
        ")");
}

// A layout's variables are its own: only the function's dimensions are in scope with them.
void Printer::layout(const IndexMap& map) {
  Compact compact(*this);
  auto outer_names = std::move(var_names_);
  auto outer_used = std::move(used_vars_);
  var_names_.clear();
  used_vars_.clear();
  const auto bind = [&](const Var& v, std::string name) {
    used_vars_.insert(name);
    var_names_[v.get()] = std::move(name);
  };
  for (const Var& v : dims_) bind(v, outer_names[v.get()]);
  put(" layout (");
  for (size_t i = 0; i < map.vars.size(); ++i) {
    std::string name = fresh_variable(map.vars[i], false);
    put((i ? "," : "") + name);
    bind(map.vars[i], std::move(name));
  }
  put(") -> (");
  list(map.exprs, ",");
  put(")");
  if (map.pad != 0 || std::signbit(map.pad)) put(" pad " + print_pad(map.pad));
  var_names_ = std::move(outer_names);
  used_vars_ = std::move(outer_used);
}

void Printer::annotations(const Annotations& annotations) {
  for (const auto& [key, value] : annotations) {
    put(" @" + (identifier(key) == key ? key : quote(key)) + "(");
    if (const auto* text = std::get_if<std::string>(&value)) put(quote(*text));
    if (const auto* number = std::get_if<int64_t>(&value)) put(std::to_string(*number));
    put(")");
  }
}

void Printer::func(const PrimFunc& f) {
  dims_ = f.dims;
  put("func " + (options_.canonical ? "f" : unique(f.name, {})));
  if (!f.dims.empty()) {
    put("[");
    for (size_t i = 0; i < f.dims.size(); ++i) {
      std::string name = fresh_variable(f.dims[i], false);
      put((i ? ", " : "") + name);
      used_vars_.insert(name);
      var_names_[f.dims[i].get()] = std::move(name);
    }
    put("]");
  }
  put("(");
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (i) put(", ");
    put(std::string(name_of(f.params[i].role)) + " ");
    decl(f.params[i].decl);
  }
  put(") {");
  end_line();
  ++indent_;
  for (const BufferDecl& d : f.allocs) {
    begin_line();
    put("alloc ");
    decl(d);
    end_line();
  }
  body(f.body);
  --indent_;
  put("}");
  end_line();
}

// ---- Statements ---------------------------------------------------------------------------------

void Printer::body(const Stmt& s) {
  if (!s) return;
  if (const auto* seq = s.as<Seq>()) {
    for (const Stmt& inner : seq->stmts) body(inner);
    if (!seq->stmts.empty() && seq->stmts[0])  // a sequence is marked where it begins
      if (const auto it = spans_.find(seq->stmts[0].get()); it != spans_.end()) {
        const Span first = it->second;
        spans_.try_emplace(s.get(), first);
      }
    return;
  }
  begin_line();
  statement(s);
  end_line();
}

void Printer::nested(const Stmt& inner) {
  put(" {");
  end_line();
  ++indent_;
  body(inner);
  --indent_;
  begin_line();
  put("}");
}

void Printer::destination(const Buffer& b, const std::vector<Expr>& indices, const Expr& mask) {
  put(buffer(b) + "[");
  {
    Compact compact(*this);
    list(indices, ",");
  }
  put("]");
  if (!mask) return;
  put(" mask ");
  expr(mask, kPrimary);
}

// The statement after its indentation, without the line's end.
void Printer::statement(const Stmt& s) {
  const size_t from = mark();
  match(
      s, [&](const Seq&) {}, [&](const For&) { loops(s); }, [&](const Block& b) { block(s, b); },
      [&](const If& i) { if_chain(s, i); },
      [&](const Store& st) {
        destination(st.buffer, st.indices, st.mask);
        put(st.streaming ? " streaming = " : " = ");
        expr(st.value);
        span(s.get(), from);
      },
      [&](const Update& u) {
        destination(u.buffer, u.indices, {});
        put(std::string(" ") + symbol(u.op) + " ");
        expr(u.value);
        span(s.get(), from);
      },
      [&](const Alloc& a) {
        put("alloc ");
        decl(a.decl);
        span(s.get(), from);
        nested(a.body);
      },
      [&](const LetStmt& l) {
        std::string name = fresh_variable(l.var, false);
        put("let " + name + " = ");
        expr(l.value);
        span(s.get(), from);
        Binding binding(*this, l.var, std::move(name));
        nested(l.body);
      },
      [&](const Evaluate& e) {
        expr(e.call);
        span(s.get(), from);
      });
}

void Printer::loops(const Stmt& s, bool continues) {
  const For& f = *s.as<For>();
  if (continues) put(", ");
  const size_t from = mark();
  if (!continues) put(std::string(keyword(f)) + " ");
  std::string name = fresh_variable(f.var, true);
  put(name + " in ");
  {
    Compact compact(*this);
    expr(f.extent);
  }
  annotations(f.annotations);
  span(s.get(), from);
  Binding binding(*this, f.var, std::move(name));
  if (chained(f))
    loops(f.body, true);
  else
    nested(f.body);
}

void Printer::block(const Stmt& s, const Block& b) {
  const size_t from = mark();
  put("block " + block_name(b.id) + "(");
  // Bindings see the scope outside: names are chosen now and bound after the header.
  std::vector<std::string> names;
  std::unordered_set<std::string> taken = used_vars_;
  for (const IterVar& i : b.iters) {
    if (!names.empty()) put(", ");
    names.push_back(options_.canonical ? unique("v" + std::to_string(canonical_vars_++), taken)
                                       : unique(i.var->name, taken));
    taken.insert(names.back());
    Compact compact(*this);
    put(names.back() + (i.kind == IterKind::spatial ? ": S " : ": R "));
    expr(i.extent, kSum);
    put(" = ");
    expr(i.binding);
  }
  put(")");
  std::vector<std::unique_ptr<Binding>> bindings;
  for (size_t i = 0; i < b.iters.size(); ++i)
    bindings.push_back(std::make_unique<Binding>(*this, b.iters[i].var, names[i]));
  if (b.where) {
    put(" where ");
    expr(b.where);
  }
  annotations(b.annotations);
  span(s.get(), from);
  put(" {");
  end_line();
  ++indent_;
  if (b.init) init(b.init);
  body(b.body);
  --indent_;
  begin_line();
  put("}");
}

void Printer::init(const Stmt& s) {
  begin_line();
  put("init");
  if (s.as<Store>()) {
    put(" { ");
    statement(s);
    put(" }");
  } else {
    nested(s);
  }
  end_line();
}

void Printer::if_chain(const Stmt& s, const If& i) {
  const size_t from = mark();
  put("if ");
  expr(i.cond);
  span(s.get(), from);
  nested(i.then_case);
  if (!i.else_case) return;
  put(" else");
  if (const auto* next = i.else_case.as<If>()) {
    put(" ");
    if_chain(i.else_case, *next);
  } else {
    nested(i.else_case);
  }
}

// ---- Entry points -------------------------------------------------------------------------------

std::string print(const PrimFunc& f) {
  Printer p({});
  p.func(f);
  return p.take_text();
}
std::string print(const Stmt& s) {
  Printer p({});
  p.body(s);
  return p.take_text();
}
std::string print(const Expr& e) {
  Printer p({});
  p.expr(e);
  return p.take_text();
}
Printed print_with_spans(const PrimFunc& f) {
  Printer p({.spans = true});
  p.func(f);
  std::string text = p.take_text();
  return {std::move(text), p.take_spans()};
}

}  // namespace nestor
