// docs/models.md lists the operators of the tables; NESTOR_UPDATE=1 writes that part anew. The part behind
// it, which node cases are refused, is tests/models/node_cases.py's.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "catch.h"
#include "nestor/graph.h"
#include "tests/ops/catalog.h"

using namespace nestor;

namespace {

constexpr const char* kBegin = "<!-- from the tables -->\n";
constexpr const char* kEnd = "<!-- end of the tables -->\n";

// Those of input 0 that some case of the operator takes; f16 and bf16 are where f32 is.
std::set<DType> types_of(const std::string& op, const std::vector<CatalogEntry>& all) {
  std::set<DType> out;
  for (const CatalogEntry& e : all) {
    const Node& n = e.node.node();
    if (n.op != op || !n.domain.empty() || n.inputs.empty() || n.inputs[0] < 0) continue;
    for (size_t t = 0; t < kDTypes.size(); ++t)
      if (e.node.with_first_type(static_cast<DType>(t)).error().empty()) out.insert(static_cast<DType>(t));
  }
  if (out.count(DType::f32)) out.insert({DType::f16, DType::bf16});
  return out;
}

std::string type_words(const std::set<DType>& types) {
  std::vector<std::string> words;
  const auto group = [&](const std::string& all, auto belongs) {
    std::vector<std::string> found;
    bool complete = true;
    for (size_t t = 0; t < kDTypes.size(); ++t) {
      const auto type = static_cast<DType>(t);
      if (!belongs(type)) continue;
      if (types.count(type))
        found.push_back("`" + std::string(name_of(type)) + "`");
      else
        complete = false;
    }
    if (complete) found = {all};
    words.insert(words.end(), found.begin(), found.end());
  };
  group("floats", is_float);
  group("integers", is_int);
  group("`bool`", is_bool);
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

struct PageRow {
  int since = 1000;
  bool native = false;
  std::set<std::string> notes;
};

std::string operators_of(const std::string& domain) {
  std::map<std::string, PageRow> rows;
  for (const OpDef* op : all_ops()) {
    if (op->domain != domain) continue;
    PageRow& r = rows[op->name];
    r.since = std::min(r.since, op->since);
    r.native = r.native || !op->spelled_out;
    if (!op->note.empty()) r.notes.insert(op->note);
  }
  for (const std::string& name : composed_operators(domain)) rows[name];
  const std::vector<CatalogEntry> all = catalog();
  std::string out = "| operator | types | how | notes |\n|---|---|---|---|\n";
  for (const auto& [name, r] : rows) {
    std::string notes = r.since > 1 && r.since < 1000 ? "since opset " + std::to_string(r.since) : "";
    for (const std::string& n : r.notes) notes += (notes.empty() ? "" : "; ") + n;
    const std::string types = domain.empty() ? type_words(types_of(name, all)) : "";
    out += "| " + name + " | " + types + " | " + (r.native ? "native" : "composed") + " | " + notes + " |\n";
  }
  return out;
}

std::string page_part() {
  return std::string(kBegin) + "\n## Operators of ONNX\n\n" + operators_of("") +
         "\n## Operators of ONNX Runtime (domain `com.microsoft`)\n\n" + operators_of("com.microsoft") +
         "\n" + kEnd;
}

}  // namespace

TEST_CASE("docs/models.md lists the operators of the tables") {
  const std::string path = NESTOR_SOURCE_DIR "/docs/models.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string page = text.str(), made = page_part();
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  REQUIRE((begin != std::string::npos && end != std::string::npos));
  const size_t length = end + std::string(kEnd).size() - begin;
  if (const char* update = std::getenv("NESTOR_UPDATE"); update && *update == '1') {
    std::ofstream(path) << page.substr(0, begin) + made + page.substr(begin + length);
    return;
  }
  INFO("NESTOR_UPDATE=1 test_ops writes it anew");
  CHECK(page.substr(begin, length) == made);
}
