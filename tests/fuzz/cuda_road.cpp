#include "nestor/cuda.h"
#include "nestor/emulate.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "tests/fuzz/road_common.h"
#include "tests/fuzz/roads.h"

namespace nestor {

namespace {

class CudaRoad : public Road {
 public:
  Entry add(const Subject& subject, const PrimFunc& scheduled, int64_t number) override {
    Lowered l;
    Entry entry = lower_for(target_, subject, scheduled, number, "f" + std::to_string(batch_.size()), l);
    if (!entry.taken) return entry;
    try {
      programs_.push_back(make_cuda(l.lowered, target_));
    } catch (const UserError& e) {
      return {false, e.diagnostic().message, {}};
    } catch (const std::exception& e) {
      return {false, "", {"lowering", e.what()}};
    }
    batch_.push_back(std::move(l));
    return entry;
  }

  std::vector<std::pair<int64_t, Finding>> run() override {
    std::vector<std::pair<int64_t, Finding>> out;
    if (batch_.empty()) return out;
    std::optional<Emulator> emulator;
    try {
      emulator.emplace(programs_);
    } catch (const UserError& e) {
      if (batch_.size() > 1) throw;
      return {{batch_[0].number, {"cuda", e.what()}}};
    }
    for (size_t i = 0; i < batch_.size(); ++i) out.emplace_back(batch_[i].number, run_one(i, *emulator));
    batch_.clear();
    programs_.clear();
    return out;
  }

 private:
  Finding run_one(size_t i, const Emulator& emulator) const {
    const Lowered& l = batch_[i];
    std::vector<Tensor> expected;
    if (const Finding f = interpret_lowered(l, expected); f.failed()) return f;
    for (const LoopOrder order : {LoopOrder::forward, LoopOrder::reverse, LoopOrder::random}) {
      std::vector<Tensor> got = l.args();
      try {
        emulator.run(programs_[i], got, order, l.subject.seed);
      } catch (const UserError& e) {
        return {"cuda", e.what()};
      }
      const Finding v = agree(l, expected, got, "cuda");
      if (v.failed()) return {v.kind, v.what + programs_[i].source};
    }
    return {};
  }

  Target target_ = parse_target("cuda:sm_80");
  std::vector<Lowered> batch_;
  std::vector<CudaProgram> programs_;
};

}  // namespace

std::unique_ptr<Road> cuda_road() {
  return std::make_unique<CudaRoad>();
}

}  // namespace nestor
