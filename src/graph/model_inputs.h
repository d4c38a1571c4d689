// The types of a model's inputs: what the file declares, with the sizes that it leaves open filled in from
// BuildOptions (--dim, and the files given for inputs).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "nestor/graph.h"
#include "src/graph/problems.h"

namespace nestor {

class ModelInputs {
 public:
  ModelInputs(const Model& model, const BuildOptions& options, Problems& problems);

  // nullopt after a problem, or where only sizes are open: finish() lists these together.
  std::optional<TensorType> type_of(const ModelValue& input);
  // Whether type_of would give a type, without problems.
  bool has_type(const ModelValue& input) const;
  // The size of a dimension anywhere in the model.
  std::optional<int64_t> size_of(const ModelDim& dim) const;
  const std::shared_ptr<Symbols>& symbols() const { return symbols_; }  // null: all sizes are numbers
  // The open sizes, and what was given for no input.
  void finish();
  std::vector<std::string> not_mentioned() const;  // open sizes that no input has

 private:
  using Shape = std::vector<int64_t>;
  std::optional<Shape> given(const std::string& input) const;
  std::optional<int64_t> size_of(const ModelValue& input, size_t d) const;
  const OpenSize* open_size(const ModelValue& input, size_t d) const;
  std::optional<Dims> shape_of(const ModelValue& input);
  std::optional<Dim> symbol_for(const ModelValue& input, size_t d);

  const Model& model_;
  const BuildOptions& options_;
  Problems& problems_;
  std::map<std::string, int64_t> named_;  // sizes by the names of dimensions
  std::set<std::string> open_, mentioned_;
  std::shared_ptr<Symbols> symbols_;
};

// "[N,3,?]"
std::string declared_shape(const ModelValue& v);

}  // namespace nestor
