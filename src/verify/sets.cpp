#include "src/verify/sets.h"

#include <isl/ctx.h>
#include <isl/id.h>
#include <isl/mat.h>
#include <isl/options.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <limits>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "nestor/error.h"

namespace nestor::verify {

namespace {

[[noreturn]] void too_large() {
  throw Unmodelled{"a number of an index passes 64 bits"};
}
int64_t sum_of(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out)) too_large();
  return out;
}
int64_t product_of(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out)) too_large();
  return out;
}

}  // namespace

Lin operator+(const Lin& a, const Lin& b) {
  Lin out;
  out.constant = sum_of(a.constant, b.constant);
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    if (j == b.terms.size() || (i < a.terms.size() && a.terms[i].first < b.terms[j].first)) {
      out.terms.push_back(a.terms[i++]);
    } else if (i == a.terms.size() || b.terms[j].first < a.terms[i].first) {
      out.terms.push_back(b.terms[j++]);
    } else {
      const int64_t sum = sum_of(a.terms[i].second, b.terms[j].second);
      if (sum) out.terms.emplace_back(a.terms[i].first, sum);
      ++i, ++j;
    }
  }
  return out;
}

Lin operator*(const Lin& a, int64_t factor) {
  if (!factor) return {};
  Lin out = a;
  out.constant = product_of(out.constant, factor);
  for (auto& [v, c] : out.terms) c = product_of(c, factor);
  return out;
}

Lin operator-(const Lin& a, const Lin& b) {
  // The least number of i64 has no negative, but differences from itself.
  Lin terms = b;
  terms.constant = 0;
  Lin out = a;
  out.constant = 0;
  out = out + terms * -1;
  if (__builtin_sub_overflow(a.constant, b.constant, &out.constant)) too_large();
  return out;
}

Lin renamed(const Lin& l, const Renaming& names) {
  Lin out(l.constant);
  for (const auto& [v, c] : l.terms) {
    const auto it = names.find(v);
    out = out + Lin::of(it == names.end() ? v : it->second) * c;
  }
  return out;
}

int64_t value_at(const Lin& l, const Point& p) {
  int64_t sum = l.constant;
  for (const auto& [v, c] : l.terms) {
    const auto it = p.find(v);
    int64_t term = 0;
    if (it == p.end()) continue;
    if (__builtin_mul_overflow(c, it->second, &term) || __builtin_add_overflow(sum, term, &sum))
      return (c > 0) == (it->second > 0) ? std::numeric_limits<int64_t>::max()
                                         : std::numeric_limits<int64_t>::min();
  }
  return sum;
}

// ---- Sets ------------------------------------------------------------------------------------------------

// A thread that asks isl to stop; isl counts operations too, but those say little about time. What counts is
// the processor time of the thread that proves, so that a busy machine proves as much as an idle one.
struct Sets::Clock {
  Clock(isl_ctx* ctx, double seconds) {
    clockid_t clock = CLOCK_MONOTONIC;
    pthread_getcpuclockid(pthread_self(), &clock);
    const double end = now(clock) + seconds;
    thread = std::thread([this, ctx, clock, end] {
      std::unique_lock lock(mutex);
      for (double left = end - now(clock); left > 0; left = end - now(clock))
        if (done.wait_for(lock, std::chrono::duration<double>(left), [this] { return stop; })) return;
      isl_ctx_abort(ctx);
    });
  }
  ~Clock() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    done.notify_all();
    thread.join();
  }
  static double now(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  std::mutex mutex;
  std::condition_variable done;
  bool stop = false;
  std::thread thread;
};

Sets::Sets(double seconds) : ctx_(isl_ctx_alloc()) {
  isl_options_set_on_error(ctx_, ISL_ON_ERROR_CONTINUE);
  clock_ = std::make_unique<Clock>(ctx_, seconds);
}

Sets::~Sets() {
  clock_.reset();
  isl_ctx_reset_error(ctx_);
  for (Info& i : infos_) isl_id_free(i.id);
  isl_ctx_free(ctx_);
}

V Sets::make(const std::string& name) {
  const V v = static_cast<V>(infos_.size());
  infos_.push_back(
      {name, v, isl_id_alloc(ctx_, name.c_str(), reinterpret_cast<void*>(static_cast<intptr_t>(v + 1)))});
  return v;
}

V Sets::copy(V v, int n) {
  if (n == 0) return v;
  v = origin(v);
  const auto it = copies_.find({v, n});
  if (it != copies_.end()) return it->second;
  const V made = make(name(v));
  infos_.back().origin = v;
  copies_.emplace(std::pair{v, n}, made);
  return made;
}

void Sets::fail() const {
  if (isl_ctx_aborted(ctx_) || isl_ctx_last_error(ctx_) == isl_error_abort) throw OutOfTime{};
  const char* message = isl_ctx_last_error_msg(ctx_);
  throw InternalError(std::string("isl: ") + (message ? message : "failed"));
}

// ---- Set -------------------------------------------------------------------------------------------------

Set::Set(Sets* home, isl_set* raw) : home_(home), raw_(raw) {
  if (!raw) home->fail();
}
Set::Set(const Set& other) : home_(other.home_), raw_(other.raw_ ? isl_set_copy(other.raw_) : nullptr) {}
Set::~Set() {
  isl_set_free(raw_);
}

Set Set::all(Sets& home) {
  return {&home, isl_set_universe(isl_space_params_alloc(home.ctx(), 0))};
}
Set Set::none(Sets& home) {
  return {&home, isl_set_empty(isl_space_params_alloc(home.ctx(), 0))};
}

namespace {

isl_mat* matrix(const Sets& home, const std::vector<Lin>& rows, const std::vector<V>& vars) {
  isl_ctx* ctx = home.ctx();
  const unsigned columns = static_cast<unsigned>(vars.size()) + 1;
  isl_mat* m = isl_mat_alloc(ctx, static_cast<unsigned>(rows.size()), columns);
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto put = [&](size_t column, int64_t value) {
      m = isl_mat_set_element_val(m, static_cast<int>(r), static_cast<int>(column),
                                  isl_val_int_from_si(ctx, value));
    };
    for (size_t i = 0; i < vars.size(); ++i) put(i, 0);
    for (const auto& [v, c] : rows[r].terms)
      put(static_cast<size_t>(std::lower_bound(vars.begin(), vars.end(), v) - vars.begin()), c);
    put(vars.size(), rows[r].constant);
  }
  return m;
}

}  // namespace

Set Set::where(Sets& home, const std::vector<Lin>& zero, const std::vector<Lin>& nonnegative) {
  std::vector<V> vars;
  for (const auto* rows : {&zero, &nonnegative})
    for (const Lin& l : *rows)
      for (const auto& [v, c] : l.terms) vars.push_back(v);
  std::sort(vars.begin(), vars.end());
  vars.erase(std::unique(vars.begin(), vars.end()), vars.end());
  isl_space* space = isl_space_params_alloc(home.ctx(), static_cast<unsigned>(vars.size()));
  for (size_t i = 0; i < vars.size(); ++i)
    space =
        isl_space_set_dim_id(space, isl_dim_param, static_cast<unsigned>(i), isl_id_copy(home.id(vars[i])));
  return {&home, isl_set_from_basic_set(isl_basic_set_from_constraint_matrices(
                     space, matrix(home, zero, vars), matrix(home, nonnegative, vars), isl_dim_param,
                     isl_dim_set, isl_dim_div, isl_dim_cst))};
}

Set Set::operator&(const Set& other) const {
  return {home_, isl_set_intersect(isl_set_copy(raw_), isl_set_copy(other.raw_))};
}
Set Set::operator|(const Set& other) const {
  return {home_, isl_set_coalesce(isl_set_union(isl_set_copy(raw_), isl_set_copy(other.raw_)))};
}
Set Set::operator-(const Set& other) const {
  return {home_, isl_set_subtract(isl_set_copy(raw_), isl_set_copy(other.raw_))};
}

Set Set::affine_hull() const {
  return {home_, isl_set_from_basic_set(isl_set_affine_hull(isl_set_copy(raw_)))};
}

bool Set::empty() const {
  const isl_bool b = isl_set_is_empty(raw_);
  if (b == isl_bool_error) home_->fail();
  return b == isl_bool_true;
}

bool Set::within(const Set& other) const {
  const isl_bool b = isl_set_is_subset(raw_, other.raw_);
  if (b == isl_bool_error) home_->fail();
  return b == isl_bool_true;
}

std::optional<bool> Set::within(const Set& other, unsigned long operations) const {
  isl_ctx* ctx = home_->ctx();
  isl_ctx_reset_operations(ctx);
  isl_ctx_set_max_operations(ctx, operations);
  const isl_bool b = isl_set_is_subset(raw_, other.raw_);
  isl_ctx_set_max_operations(ctx, 0);
  if (b != isl_bool_error) return b == isl_bool_true;
  if (isl_ctx_last_error(ctx) != isl_error_quota) home_->fail();
  isl_ctx_reset_error(ctx);
  return std::nullopt;
}

std::vector<V> Set::vars() const {
  std::vector<V> out;
  const isl_size n = isl_set_dim(raw_, isl_dim_param);
  for (int i = 0; i < n; ++i) {
    isl_id* id = isl_set_get_dim_id(raw_, isl_dim_param, static_cast<unsigned>(i));
    out.push_back(static_cast<V>(reinterpret_cast<intptr_t>(isl_id_get_user(id))) - 1);
    isl_id_free(id);
  }
  return out;
}

Set Set::without(const std::vector<V>& drop) const {
  const std::unordered_set<V> gone(drop.begin(), drop.end());
  const std::vector<V> now = vars();
  isl_set* s = isl_set_copy(raw_);
  for (size_t end = now.size(); end > 0;) {  // runs of neighbours at once
    size_t begin = end;
    while (begin > 0 && gone.count(now[begin - 1])) --begin;
    if (begin < end)
      s = isl_set_project_out(s, isl_dim_param, static_cast<unsigned>(begin),
                              static_cast<unsigned>(end - begin));
    else
      begin = end - 1;
    end = begin;
  }
  return {home_, s};
}

Set Set::onto(const std::vector<V>& keep) const {
  const std::unordered_set<V> kept(keep.begin(), keep.end());
  std::vector<V> drop;
  for (const V v : vars())
    if (!kept.count(v)) drop.push_back(v);
  return without(drop);
}

Set Set::renamed(const Renaming& names) const {
  const std::vector<V> now = vars();
  isl_set* s = isl_set_copy(raw_);
  for (size_t i = 0; i < now.size(); ++i)
    if (const auto it = names.find(now[i]); it != names.end() && it->second != now[i])
      s = isl_set_set_dim_id(s, isl_dim_param, static_cast<unsigned>(i), isl_id_copy(home_->id(it->second)));
  return {home_, s};
}

namespace {
constexpr int kWide = 1 << 30;
}

std::optional<Point> Set::first(const std::vector<V>& order) const {
  const std::unordered_set<V> known(order.begin(), order.end());
  std::vector<V> all;
  const std::vector<V> mine = vars();
  for (const V v : order)
    if (std::find(mine.begin(), mine.end(), v) != mine.end()) all.push_back(v);
  for (const V v : mine)
    if (!known.count(v)) all.push_back(v);
  isl_space* space = isl_space_params_alloc(home_->ctx(), static_cast<unsigned>(all.size()));
  for (size_t i = 0; i < all.size(); ++i)
    space =
        isl_space_set_dim_id(space, isl_dim_param, static_cast<unsigned>(i), isl_id_copy(home_->id(all[i])));
  isl_set* s = isl_set_from_params(isl_set_align_params(isl_set_copy(raw_), space));
  const unsigned n = static_cast<unsigned>(all.size());
  s = isl_set_move_dims(s, isl_dim_set, 0, isl_dim_param, 0, n);
  // What depends on data may be anything: the smallest point is one within wide bounds.
  for (unsigned i = 0; i < n; ++i) s = isl_set_lower_bound_si(s, isl_dim_set, i, -kWide);
  s = isl_set_lexmin(s);
  isl_point* point = isl_set_sample_point(s);
  if (!point) home_->fail();
  if (isl_point_is_void(point)) {
    isl_point_free(point);
    return std::nullopt;
  }
  Point out;
  for (unsigned i = 0; i < n; ++i) {
    isl_val* value = isl_point_get_coordinate_val(point, isl_dim_set, static_cast<int>(i));
    out[all[i]] = isl_val_get_num_si(value);
    isl_val_free(value);
  }
  isl_point_free(point);
  return out;
}

bool Set::determines(const std::vector<V>& by, const std::vector<V>& what) const {
  Renaming other;
  for (const V v : vars())
    if (std::find(by.begin(), by.end(), v) == by.end()) other[v] = home_->make(home_->name(v));
  const Set both = *this & renamed(other);
  return std::all_of(what.begin(), what.end(), [&](V v) {
    const auto it = other.find(v);
    return it == other.end() || (both & where(*home_, {}, {Lin::of(it->second) - Lin::of(v) - 1})).empty();
  });
}

std::string Set::text() const {
  char* s = isl_set_to_str(raw_);
  std::string out = s ? s : "?";
  free(s);
  return out;
}

}  // namespace nestor::verify
