// The machine's memory: bounds, initialization and races are checked at each access; and the messages.
#include <algorithm>

#include "nestor/error.h"
#include "nestor/print.h"
#include "src/ir/interpret_machine.h"

namespace nestor::interpreter {

void Machine::index(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  const Word extent = r[i.c];
  for (int l = 0; l < i.lanes; ++l) {
    if (i.d >= 0 && !r[i.d + l]) {
      r[i.dst + l] = -1;
      continue;
    }
    const Word at = r[i.b + l];
    if (at < 0 || at >= extent) {
      const BufferSlot& slot = code_.buffers[static_cast<size_t>(i.buffer)];
      std::string shape;
      for (int32_t place : slot.shape) shape += (shape.empty() ? "" : ",") + std::to_string(r[place]);
      throw Fault{"index " + std::to_string(at) + " in dimension " + std::to_string(i.extra) +
                  " is outside of " + slot.buffer->name + "[" + shape + "]"};
    }
    r[i.dst + l] = i.a < 0 ? at : r[i.a + l] * extent + at;
  }
}

void Machine::load(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  Memory& m = memory_at(r, i.b);
  for (int l = 0; l < i.lanes; ++l) {
    if (i.d >= 0 && !r[i.d + l]) {
      r[i.dst + l] = 0;
      continue;
    }
    const int64_t at = m.lanes == 1 ? r[i.a + l] : r[i.a] * m.lanes + l;
    const bool wanted = i.extra < 0 || code_.wanted[static_cast<size_t>(i.extra)][static_cast<size_t>(l)];
    if (wanted && !m.initialized.empty() && !m.initialized[static_cast<size_t>(at)])
      throw Fault{element_name(m, at) + " is read before anything was stored there"};
    if (wanted && options_.check_races) check_race(c, m, at, false);
    r[i.dst + l] = read_element(m.dtype, m.data, at);
  }
}

void Machine::store(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  Memory& m = memory_at(r, i.b);
  if (m.slot->param >= 0 && m.slot->role != Role::out)
    throw Fault{"parameter " + m.slot->buffer->name + " is written, but it is not an `out`"};
  for (int l = 0; l < i.lanes; ++l) {
    if (i.d >= 0 && !r[i.d + l]) continue;
    const int64_t at = m.lanes == 1 ? r[i.a + l] : r[i.a] * m.lanes + l;
    if (options_.check_races) {
      check_race(c, m, at, true);
      for (int k = 0; k < l && m.lanes == 1; ++k)
        if (r[i.a + k] == at && (i.d < 0 || r[i.d + k]))
          throw Fault{"lanes " + std::to_string(k) + " and " + std::to_string(l) +
                      " of one store both write " + element_name(m, at)};
    }
    if (!m.initialized.empty()) m.initialized[static_cast<size_t>(at)] = 1;
    write_element(m.dtype, m.data, at, r[i.c + l]);
  }
}

void Machine::alloc(Context& c, const Instruction& i) {
  Word* r = c.frame.data();
  const BufferSlot& slot = code_.buffers[static_cast<size_t>(i.buffer)];
  std::vector<Memory*>& free_list = free_[static_cast<size_t>(i.buffer)];
  if (free_list.empty()) {
    memories_.push_back(std::make_unique<Memory>());
    free_list.push_back(memories_.back().get());
  }
  Memory& m = *free_list.back();
  free_list.pop_back();
  m.slot = &slot;
  m.dtype = slot.buffer->type.dtype;
  m.lanes = slot.buffer->type.lanes;
  m.shape.clear();
  for (int32_t place : slot.shape) m.shape.push_back(r[place]);
  m.size = product(m.shape) * m.lanes;
  if (slot.param >= 0) {
    bind_param(m);
  } else {
    m.own.resize(static_cast<size_t>(m.size * bytes_of(m.dtype)));
    m.data = m.own.data();
  }
  if (slot.param < 0 || slot.role == Role::out) m.initialized.assign(static_cast<size_t>(m.size), 0);
  if (options_.check_races) m.shadow.assign(static_cast<size_t>(m.size), {});
  r[i.dst] = reinterpret_cast<Word>(&m);
}

void Machine::bind_param(Memory& m) {
  Tensor& t = args_[static_cast<size_t>(m.slot->param)];
  const std::string wanted = to_string(m.dtype, m.shape), given = to_string(t.dtype(), t.shape());
  // A flat parameter of a lowered function takes any tensor of as many elements.
  const bool fits = t.shape() == m.shape || (m.shape.size() == 1 && t.size() == m.size);
  if (!t.defined() || t.dtype() != m.dtype || !fits)
    throw UserError(func_.name + ": parameter " + m.slot->buffer->name + " is " + wanted + ", but " +
                    (t.defined() ? given : "no tensor") + " was given");
  m.data = static_cast<uint8_t*>(t.data());
}

// ---- Errors

std::string Machine::element_name(const Memory& m, int64_t element) const {
  std::string lane = m.lanes == 1 ? "" : " lane " + std::to_string(element % m.lanes);
  element /= m.lanes;
  std::vector<int64_t> index(m.shape.size());
  for (size_t d = m.shape.size(); d-- > 0;) {
    index[d] = element % m.shape[d];
    element /= m.shape[d];
  }
  std::string out = m.slot->buffer->name + "[";
  for (size_t d = 0; d < index.size(); ++d) out += (d ? "," : "") + std::to_string(index[d]);
  return out + "]" + lane;
}

void Machine::check_written() const {
  for (const auto& m : memories_) {
    if (m->slot->param < 0) continue;
    const auto at = std::find(m->initialized.begin(), m->initialized.end(), 0);
    if (at != m->initialized.end())
      throw UserError(func_.name + ": nothing writes " + element_name(*m, at - m->initialized.begin()));
  }
}

void Machine::check_race(Context& c, Memory& m, int64_t element, bool write) {
  Shadow& s = m.shadow[static_cast<size_t>(element)];
  const int32_t site = code_.site_of[c.pc];
  const std::optional<Clash> clash = write ? races_.write(s, c.path, site) : races_.read(s, c.path, site);
  if (!clash) return;
  const LoopSite& loop = code_.loops[static_cast<size_t>(clash->loop)];
  const auto iteration = [&](int64_t v) { return loop.name + "=" + std::to_string(v); };
  fail(c,
       "iterations " + iteration(clash->earlier) + " and " + iteration(clash->current) + " of loop `" +
           loop.name + "` have no order, but " + iteration(clash->earlier) +
           (clash->with_write ? " writes " : " reads ") + element_name(m, element) + " and " +
           iteration(clash->current) + (write ? " writes" : " reads") + " it",
       {code_.sites[static_cast<size_t>(clash->with.site)].stmt, loop.stmt});
}

void Machine::fail(const Context& c, std::string message, std::vector<const void*> marked) {
  const Site& site = code_.sites[static_cast<size_t>(code_.site_of[c.pc])];
  Diagnostic d;
  d.message = func_.name + ": " + std::move(message);
  std::string where;
  for (int l = site.loop; l >= 0; l = code_.loops[static_cast<size_t>(l)].parent) {
    const LoopSite& loop = code_.loops[static_cast<size_t>(l)];
    where = loop.name + "=" + std::to_string(c.frame[static_cast<size_t>(loop.var)]) +
            (where.empty() ? "" : " ") + where;
  }
  if (!where.empty()) d.notes.push_back("in iteration " + where);
  marked.insert(marked.begin(), site.stmt);
  marked.erase(std::remove(marked.begin(), marked.end(), nullptr), marked.end());
  if (!marked.empty()) d.notes.push_back(print_marked(func_, marked));
  throw UserError(std::move(d));
}

}  // namespace nestor::interpreter
