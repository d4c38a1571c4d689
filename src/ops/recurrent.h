// What LSTM, GRU and RNN say of their inputs. They are spelled out in smaller operators, step by step, as a
// graph is built (src/graph/spell_out_recurrent.cpp).
#pragma once

#include <string>
#include <vector>

#include "nestor/ops.h"

namespace nestor::ops {

enum RecurrentInput : size_t {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes,
  kWScale,
  kWZero,
  kRScale,
  kRZero
};

struct Activation {
  std::string name;  // one of those that ONNX lists for LSTM, as written there
  double alpha = 0, beta = 0;
};

struct RecurrentShape {
  int64_t gates = 0, directions = 0, size = 0, hidden = 0;
  Dim steps = 0, batch = 0;
  bool quantized = false;               // W and R are bytes [directions, rows of X or of the state, gates]
  bool batch_first = false;             // X is [batch, steps, size], else [steps, batch, size]
  bool backward = false;                // the one direction there is
  double clip = 0;                      // 0: none
  std::vector<Activation> activations;  // as many for each direction
};
// Fails where inputs or attributes don't fit.
RecurrentShape recurrent_shape(const OpContext& ctx);

}  // namespace nestor::ops
