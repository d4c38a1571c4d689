// Every operator with sizes that are known only at run time: the one function of all sizes computes what the
// function of each size does. What refuses is listed, so that the list can only shrink.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "catch.h"
#include "nestor/interpret.h"
#include "nestor/nest_file.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "tests/ops/catalog.h"

using namespace nestor;

namespace {

const std::filesystem::path kSource = NESTOR_SOURCE_DIR;
constexpr int64_t kSizes[] = {1, 2, 3, 7, 33};

struct Built {
  Graph graph;
  PrimFunc func;
};

// The node, with its operands' extents as `change` says; constants keep theirs.
Built built(const OpCase& node, const std::function<Dim(int64_t)>& change,
            std::shared_ptr<Symbols> symbols = nullptr) {
  Built out{node.graph(), {}};
  out.graph.symbols = std::move(symbols);
  for (Value& v : out.graph.values) {
    if (v.constant.defined()) continue;
    for (Dim& d : v.type.shape) d = change(d);
  }
  Node n = node.node();
  for (int i = 0; i < node.num_outputs(); ++i)
    n.outputs.push_back(static_cast<int>(out.graph.values.size()) + i);
  std::vector<TensorType> types = find_op(n.domain, n.op, n.opset)->infer(OpContext(out.graph, n));
  types.resize(n.outputs.size());
  for (const TensorType& t : types) out.graph.values.push_back({"y", t, {}, 0});
  out.func = build_function(out.graph, n);
  return out;
}

bool all_hold(const Symbols& symbols, const VarMap& values) {
  for (const Symbols::Requirement& r : symbols.requirements())
    if (*as_int(simplify(substitute(r.condition, values))) == 0) return false;
  return true;
}

void check_same(const PrimFunc& f, const PrimFunc& g) {
  REQUIRE(f.params.size() == g.params.size());
  std::vector<Tensor> a = random_args(f, 5), b = random_args(g, 5);
  for (size_t i = 0; i < a.size(); ++i)
    REQUIRE(to_string(a[i].dtype(), a[i].shape()) == to_string(b[i].dtype(), b[i].shape()));
  interpret(f, a);
  interpret(g, b);
  const auto same = [](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || x == y || std::abs(x - y) <= 1e-5 * std::max(1.0, std::abs(y));
  };
  for (size_t k = 0; k < a.size(); ++k)
    for (int64_t i = 0; i < a[k].size(); ++i)
      if (!same(a[k].get(i), b[k].get(i))) {
        INFO("element " << i << ": " << a[k].get(i) << " and " << b[k].get(i));
        FAIL_CHECK("they differ");
        return;
      }
}

// Makes the extents `open` symbolic. Says what is refused; "" where nothing is.
std::string refusal(const OpCase& node, const std::set<int64_t>& open) {
  const auto symbols = std::make_shared<Symbols>();
  std::map<int64_t, Dim> of;
  for (const int64_t extent : open) of[extent] = symbols->add("N" + std::to_string(extent), 1, 64, extent);
  Built symbolic;
  try {
    symbolic = built(
        node, [&](int64_t extent) { return of.count(extent) ? of.at(extent) : Dim(extent); }, symbols);
  } catch (const UserError& e) {
    return e.diagnostic().message;
  }
  std::string lost;
  for (const int64_t size : kSizes) {
    VarMap values;
    int64_t next = size;
    std::map<int64_t, int64_t> now;
    for (const Symbol& s : symbols->all()) {
      values[s.var] = Expr(next);
      now[std::stoll(s.var->name.substr(1))] = next++;
    }
    const bool runs = all_hold(*symbols, values);
    PrimFunc fixed;
    try {
      fixed = built(node, [&](int64_t extent) { return now.count(extent) ? now.at(extent) : extent; }).func;
    } catch (const UserError& e) {
      INFO("at " << size << ": " << e.what());
      CHECK_FALSE(runs);
      continue;
    }
    if (runs) {
      INFO("at " << size << "\n" << print(symbolic.func));
      check_same(with_dims(symbolic.func, values), fixed);
    } else {
      lost += " " + std::to_string(size);
    }
  }
  if (!lost.empty()) {
    lost = "not at" + lost + ":";
    for (const Symbols::Requirement& r : symbols->requirements())
      lost += " " + print(r.condition) + (r.why.empty() ? "" : "(" + r.why + ")");
  }
  return lost;
}

}  // namespace

TEST_CASE("Every operator takes sizes that are known only at run time") {
  std::string refused;
  for (const CatalogEntry& e : catalog()) {
    INFO(e.what);
    std::set<int64_t> extents;
    for (const Value& v : e.node.graph().values)
      if (!v.constant.defined())
        for (const int64_t extent : v.type.shape.numbers())
          if (extent > 1) extents.insert(extent);
    std::vector<std::set<int64_t>> choices = {extents};
    if (extents.size() > 1)
      for (const int64_t one : extents) choices.push_back({one});
    for (const std::set<int64_t>& open : choices) {
      if (open.empty()) continue;
      const std::string why = refusal(e.node, open);
      if (why.empty()) continue;
      refused += e.what + ",";
      for (const int64_t extent : open) refused += " " + std::to_string(extent);
      refused += ": " + why + "\n";
    }
  }
  const std::filesystem::path path = kSource / "tests/ops/symbolic_refusals.txt";
  const char* update = std::getenv("NESTOR_UPDATE");
  if (update && std::string(update) == "1") std::ofstream(path) << refused;
  INFO("NESTOR_UPDATE=1 test_ops writes it anew");
  CHECK(refused == (std::stringstream() << std::ifstream(path).rdbuf()).str());
}
