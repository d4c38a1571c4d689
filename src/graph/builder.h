// Building a graph from a model: what build.cpp (values) and build_nodes.cpp (nodes) share.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nestor/ops.h"
#include "src/graph/control_flow.h"
#include "src/graph/fold_budget.h"
#include "src/graph/model_inputs.h"
#include "src/graph/model_names.h"
#include "src/graph/problems.h"

namespace nestor {

class Builder {
 public:
  // `fold`: nodes whose values are found on the way are left out, not only known.
  Builder(const Model& model, const BuildOptions& options, bool fold);
  Graph run();

 private:
  // What a body has of the graph around it: the values that its inputs are, with types. Those with elements
  // are no inputs of the body's graph.
  struct Around {
    int depth = 0;  // of bodies
    std::shared_ptr<Symbols> symbols;
    bool branch = false;  // then the symbols are its own: it may require more of them
    std::vector<Value> inputs;
  };
  Builder(const Model& model, const BuildOptions& options, bool fold, const Around* around);

  // ---- Values (build.cpp)

  ValueId define(const std::string& name, const std::string& what, TensorType type, bool known);
  ValueId find(const std::string& name) const;  // -1: nothing defines it
  bool is_known(ValueId v) const { return known_[static_cast<size_t>(v)]; }
  void add_inputs();
  void add_input(const ModelValue& v, bool read);
  void add_initializers(const ModelGraph& g);
  std::optional<Tensor> bound(const TensorSource& source, const TensorType& type);
  void check_constants();
  void add_outputs(const ModelNode& n);
  void add_graph_outputs();
  void check_declared();
  void drop_dead_steps();
  std::string nearest_value(const std::string& name) const;

  // ---- Loops (build_loops.cpp)

  void build_scan(const ModelNode& mn);
  void build_loop(const ModelNode& mn);
  std::vector<std::string> inline_body(const ModelNode& mn, const ModelGraph& body, Renaming names);
  std::string add_number(const ModelNode& mn, int64_t value, DType type);
  void join_elements(const ModelNode& mn, size_t k, std::vector<std::string> elements, int64_t axis,
                     bool backward);
  void give_states(const ModelNode& mn, const std::vector<std::string>& state);
  bool few_copies(const ModelNode& mn, const ModelGraph& body, int64_t trips);
  struct ScanForm;
  std::optional<ScanForm> read_scan(const ModelNode& mn, const Node& n);
  bool build_long_scan(const ModelNode& mn, const Node& n, const ScanForm& f, std::string& why,
                       std::string& hint);
  bool build_without_growth(const ModelNode& mn, const Node& n);
  bool build_long_loop(const ModelNode& mn, const Node& n);
  void build_scan_of_batch(const ModelNode& mn);
  void spell_out_scan(const ModelNode& mn, const ScanForm& f);
  void spell_out_loop(const ModelNode& mn, const Node& n);
  ValueId axis_first(const ModelNode& mn, const std::string& name, int64_t axis);
  ValueId add_size(const ModelNode& mn, const Dim& size);
  std::optional<Dim> size_in(ValueId v) const;
  std::string size_hint(ValueId v) const;
  std::optional<int64_t> known_number(const ModelNode& mn, ValueId v, const char* what);

  // ---- Bodies (build_bodies.cpp)

  struct BodyInput {
    std::string name;
    TensorType type;
    Tensor known;  // or undefined
  };
  struct Body {
    Graph graph;
    std::vector<ValueId> captured;   // what its last inputs are, outside
    std::string refused, hint;       // why there is none
    std::vector<std::string> sizes;  // then: what --dim might bound
  };
  static constexpr int64_t kMostCounted = 100'000;  // iterations, whose condition is computed here
  std::optional<Body> build_body(const ModelNode& mn, const ModelGraph& body,
                                 const std::vector<BodyInput>& inputs, const std::vector<bool>& wanted,
                                 bool branch = false);
  ValueId made_by_body(const std::string& name, const TensorType& type);
  void append_with_bodies(Node n);
  void build_branch(const ModelNode& mn, ValueId condition, const ModelGraph& then_branch,
                    const ModelGraph& else_branch);
  std::optional<Dim> trips_of(const Graph& body, const std::vector<ValueId>& states, const Dim& most);
  std::optional<int64_t> count_trips(const Graph& body, const std::vector<ValueId>& states, int64_t most);
  std::string unlike_states(const Graph& body, const std::vector<ValueId>& states) const;
  void append_loop(const ModelNode& mn, Body body, const std::vector<ValueId>& inputs, const LoopForm& form,
                   const std::vector<std::string>& results);

  // ---- Nodes (build_nodes.cpp)

  // What was done with one node of the model, for finding out afterwards what nothing depended on.
  struct Step {
    std::vector<ValueId> reads, makes;
  };
  void add_node(const ModelNode& n);
  void add_in_order(const std::vector<ModelNode>& nodes);
  void add_inner(const std::vector<ModelNode>& nodes);
  void build_node(const ModelNode& mn);
  void build_if(const ModelNode& mn);
  // build_found.cpp
  void build_found(const ModelNode& mn, Node n);
  void take_for_sizes(ValueId v);
  std::string ask_for_bounds(ValueId v);
  std::string ask_for_value_or_bounds(ValueId v);
  void inline_branch(const ModelNode& mn, const ModelGraph& branch);
  void assume_declared(const ModelNode& mn);
  std::vector<ValueId> inputs_behind(ValueId v) const;
  std::string ask_for(ValueId v);
  int opset_of(const ModelNode& mn) const;
  NodeLabel label_of(const ModelNode& mn) const;
  NodeLabel full_label(const ModelNode& mn) const;
  void refuse(const ModelNode& mn, const std::string& message, const std::string& hint = "");
  void refuse_as(const ModelNode& mn, const Node& n, const Diagnostic& d, const std::string& hint);
  bool resolve_inputs(const ModelNode& mn, Node& n);
  void append(Node n, const OpDef& op);
  const OpDef* supported(const ModelNode& mn);
  bool knows_attributes(const ModelNode& mn, int opset);
  bool counts_fit(const ModelNode& mn, const Node& n, const OpDef& op);
  std::vector<TensorType> infer(const Node& n, const OpDef& op);
  ValueId add_unread(TensorType type);
  bool fold(const Node& n, const OpDef& op);
  bool is_small(const Node& n) const;

  const Model& m_;
  const BuildOptions& options_;
  const EvaluateFn evaluate_;
  const bool fold_;
  const Around* const around_;  // null: it is no body
  Problems problems_;
  ModelInputs inputs_;
  FreshNames fresh_;
  Graph g_;
  std::optional<FoldBudget> budget_;
  std::map<std::string, ValueId> by_name_;
  std::map<std::string, std::string> defined_by_;
  std::map<std::string, const ModelValue*> declared_;
  std::vector<bool> known_;               // by value: whether its type is
  std::set<std::string> read_;            // names that live nodes or outputs read
  std::set<std::string> undefined_;       // names that were reported
  std::set<std::string> unknown_inputs_;  // whose values nodes asked for
  std::set<std::string> unbounded_;       // integers that would be sizes, if --dim said how large they may be
  std::vector<std::string> disagree_;     // declared shapes that aren't what the nodes make
  std::vector<Step> steps_;
  bool branches_ = false;  // an If was replaced by its branch
};

}  // namespace nestor
