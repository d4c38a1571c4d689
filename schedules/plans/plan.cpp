#include "nestor/plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

#include "schedules/plans/families.h"

namespace nestor {

namespace {

const std::string& any_of(const PlanField& field, std::mt19937_64& rng) {
  return field.values[rng() % field.values.size()];
}

// Its neighbour where values are an order of sizes, mostly; else any other.
std::string another(const PlanField& field, const std::string& value, std::mt19937_64& rng) {
  const auto at = std::find(field.values.begin(), field.values.end(), value) - field.values.begin();
  const auto size = static_cast<std::ptrdiff_t>(field.values.size());
  if (size > 3 && rng() % 2) {
    const std::ptrdiff_t next = at + (rng() % 2 ? 1 : -1);
    if (next >= 0 && next < size) return field.values[static_cast<size_t>(next)];
  }
  const auto i = static_cast<std::ptrdiff_t>(rng() % static_cast<uint64_t>(size - 1));
  return field.values[static_cast<size_t>(i < at ? i : i + 1)];
}

std::optional<double> number(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<double>(n);
}

// The same value, the nearest number, or what is mostly good.
const std::string& nearest(const PlanField& field, const std::string& value) {
  if (const auto same = std::find(field.values.begin(), field.values.end(), value);
      same != field.values.end())
    return *same;
  const auto wanted = number(value);
  const auto distance = [&](const std::string& v) {
    const auto n = number(v);
    return wanted && n ? std::abs(std::log2((*n + 1) / (*wanted + 1))) : 0;
  };
  return *std::min_element(
      field.values.begin(), field.values.end(),
      [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
}

template <class Make>
std::optional<SchedulePlan> first_that_fits(const PlanSpace& space, int tries, const Make& make) {
  for (int i = 0; i < tries; ++i) {
    SchedulePlan p = make();
    if (space.misfit(p).empty()) return p;
  }
  return std::nullopt;
}

}  // namespace

std::optional<SchedulePlan> PlanSpace::draw(std::mt19937_64& rng) const {
  return first_that_fits(*this, 1000, [&] {
    SchedulePlan p{family(), {}};
    for (const PlanField& f : fields()) p.values.push_back(any_of(f, rng));
    return p;
  });
}

std::optional<SchedulePlan> PlanSpace::change(const SchedulePlan& plan, std::mt19937_64& rng) const {
  if (fields().empty()) return std::nullopt;
  return first_that_fits(*this, 100, [&] {
    SchedulePlan p = plan;
    do {
      const size_t i = rng() % fields().size();
      p.values[i] = another(fields()[i], p.values[i], rng);
    } while (rng() % 3 == 0);
    return p;
  });
}

std::optional<SchedulePlan> PlanSpace::cross(const SchedulePlan& a, const SchedulePlan& b,
                                             std::mt19937_64& rng) const {
  return first_that_fits(*this, 20, [&] {
    SchedulePlan p = a;
    for (size_t i = 0; i < p.values.size(); ++i)
      if (rng() % 2) p.values[i] = b.values[i];
    return p;
  });
}

std::string PlanSpace::print(const SchedulePlan& plan) const {
  std::string out = plan.family;
  for (size_t i = 0; i < plan.values.size(); ++i) out += " " + fields()[i].name + "=" + plan.values[i];
  return out;
}

std::optional<SchedulePlan> PlanSpace::parse(const std::string& text) const {
  std::istringstream in(text);
  SchedulePlan p;
  in >> p.family;
  if (p.family != family()) return std::nullopt;
  for (const PlanField& f : fields()) {
    std::string word;
    in >> word;
    if (!word.starts_with(f.name + "=")) return std::nullopt;
    p.values.push_back(word.substr(f.name.size() + 1));
    if (std::find(f.values.begin(), f.values.end(), p.values.back()) == f.values.end()) return std::nullopt;
  }
  std::string rest;
  return in >> rest ? std::nullopt : std::optional(p);
}

std::optional<SchedulePlan> PlanSpace::carry_over(const std::string& text) const {
  std::istringstream in(text);
  SchedulePlan p;
  in >> p.family;
  if (p.family != family()) return std::nullopt;
  std::map<std::string, std::string> said;
  for (std::string word; in >> word;)
    if (const size_t at = word.rfind('='); at != std::string::npos)
      said[word.substr(0, at)] = word.substr(at + 1);
  for (const PlanField& f : fields()) {
    const auto it = said.find(f.name);
    p.values.push_back(it == said.end() ? f.values.front() : nearest(f, it->second));
  }
  return misfit(p).empty() ? std::optional(p) : std::nullopt;
}

std::vector<std::unique_ptr<PlanSpace>> plan_spaces(const PrimFunc& f, const Target& target) {
  std::vector<std::unique_ptr<PlanSpace>> out;
  if (auto any = plans::any_plans(f, target)) out.push_back(std::move(any));
  return out;
}

}  // namespace nestor
