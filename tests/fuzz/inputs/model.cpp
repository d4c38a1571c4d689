// A model file: protobuf bytes or JSON, as its content says.
#include "tests/fuzz/inputs/target.h"

namespace nestor::fuzz {

void read_input(std::string_view input) {
  const Model model = read_model(as_file("model", input));
  BuildOptions options;
  for (const ModelValue& v : model.inputs)
    for (const ModelDim& d : v.shape)
      if (!d.value && !d.name.empty()) options.dims[d.name] = 2;
  follow(build_graph(model, options));
}

}  // namespace nestor::fuzz
