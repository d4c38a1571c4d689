// Halide as an independent check: an unscheduled function is scheduled by Halide's autoschedulers and
// compiled by Halide.
#pragma once

#include <memory>
#include <string>

#include "nestor/ir.h"

namespace nestor {

// Empty where this build has no Halide.
std::string halide_version();

class HalideFunction {
 public:
  // scheduler: mullapudi2016, adams2019, or none. Throws UserError naming what Halide can't do, or that it
  // isn't there.
  HalideFunction(const PrimFunc& f, const std::string& scheduler = "mullapudi2016", int threads = 1);
  ~HalideFunction();
  HalideFunction(HalideFunction&&) noexcept;

  // One pointer per parameter, in order; const parameters row major. Throws UserError with Halide's words.
  void run(void* const* args) const;
  // What the autoscheduler did, as Halide source.
  std::string schedule() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nestor
