// Small models with random weights, one for each kind of network.
#pragma once

#include <string>
#include <vector>

#include "nestor/graph.h"

namespace nestor::testing {

struct NamedModel {
  std::string name;
  Model model;
};
Model mobilenet_v2(int64_t size);  // all of its layers, on images of size x size
Model bert_block(int64_t tokens, int64_t hidden, int64_t heads);
Model lstm_step(int64_t inputs, int64_t hidden);
Model unet_block(int64_t size);
// The same in f16 or bf16: inputs, weights and all between.
Model in_halves(Model model, DType half);
// Digits, MobileNetV2, a BERT block, an LSTM step, a U-Net block, of sizes that are quickly emulated.
const std::vector<NamedModel>& small_models();
Model gather_rows();  // of a table, by indices that are an input

}  // namespace nestor::testing
