#include "tuner/correction.h"

#include <xgboost/c_api.h>

#include <array>
#include <cmath>

#include "nestor/error.h"

namespace nestor {

namespace {

constexpr size_t kFewest = 16;  // measurements that say more than the price does
constexpr int kTrees = 60;

constexpr std::array kTerms = {&Cost::total,  &Cost::arithmetic, &Cost::loads, &Cost::stores,
                               &Cost::issue,  &Cost::latency,    &Cost::l2,    &Cost::l3,
                               &Cost::memory, &Cost::waiting};

void must(int result) {
  NESTOR_CHECK(result == 0) << "XGBoost: " << XGBGetLastError();
}

double log_price(const Cost& c) {
  return std::log1p(c.total);
}

class Rows {
 public:
  template <class Costs, class CostOf>
  Rows(const Costs& costs, const CostOf& cost_of) {
    std::vector<float> values;
    values.reserve(costs.size() * kTerms.size());
    for (const auto& c : costs)
      for (const auto term : kTerms) values.push_back(static_cast<float>(std::log1p(cost_of(c).*term)));
    must(XGDMatrixCreateFromMat_omp(values.data(), costs.size(), kTerms.size(), NAN, &handle_, 1));
  }
  ~Rows() { XGDMatrixFree(handle_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  DMatrixHandle get() const { return handle_; }

 private:
  DMatrixHandle handle_ = nullptr;
};

class Trees {
 public:
  Trees(const Rows& rows, const std::vector<float>& wanted) {
    must(XGDMatrixSetFloatInfo(rows.get(), "label", wanted.data(), wanted.size()));
    const DMatrixHandle of = rows.get();
    must(XGBoosterCreate(&of, 1, &handle_));
    // One thread: the same sums in the same order, so the same trees.
    constexpr std::array<std::array<const char*, 2>, 6> kParameters = {{{"nthread", "1"},
                                                                        {"max_depth", "4"},
                                                                        {"eta", "0.15"},
                                                                        {"min_child_weight", "2"},
                                                                        {"tree_method", "exact"},
                                                                        {"verbosity", "0"}}};
    for (const auto& [name, value] : kParameters) must(XGBoosterSetParam(handle_, name, value));
    for (int i = 0; i < kTrees; ++i) must(XGBoosterUpdateOneIter(handle_, i, rows.get()));
  }
  ~Trees() { XGBoosterFree(handle_); }
  Trees(const Trees&) = delete;
  Trees& operator=(const Trees&) = delete;

  std::vector<float> predict(const Rows& rows) const {
    bst_ulong size = 0;
    const float* out = nullptr;
    must(XGBoosterPredict(handle_, rows.get(), 0, 0, 0, &size, &out));
    return {out, out + size};
  }

 private:
  BoosterHandle handle_ = nullptr;
};

}  // namespace

void Correction::learn(const std::string& trace, const Cost& cost, double ns) {
  measured_[trace] = {cost, ns};
}

std::vector<double> Correction::order(const std::vector<Cost>& costs) const {
  std::vector<double> out;
  for (const Cost& c : costs) out.push_back(log_price(c));
  if (measured_.size() < kFewest || costs.empty()) return out;
  std::vector<float> off;
  for (const auto& [trace, m] : measured_)
    off.push_back(static_cast<float>(std::log(m.ns) - log_price(m.cost)));
  const Trees trees(Rows(measured_, [](const auto& m) -> const Cost& { return m.second.cost; }), off);
  const std::vector<float> corrections =
      trees.predict(Rows(costs, [](const Cost& c) -> const Cost& { return c; }));
  for (size_t i = 0; i < out.size(); ++i) out[i] += static_cast<double>(corrections[i]);
  return out;
}

}  // namespace nestor
