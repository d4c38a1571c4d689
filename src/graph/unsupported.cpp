#include "src/graph/unsupported.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/ops.h"

namespace nestor {

namespace {

struct Kind {
  std::vector<const char*> ops;
  Refusal refusal;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {{"SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
        "SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence"},
       {"sequences of tensors aren't supported", "export the model with tensors in their place"}},
      {{"Optional", "OptionalGetElement", "OptionalHasElement"},
       {"optional values aren't supported", "export the model with tensors in their place"}},
      {{"StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"},
       {"strings aren't supported", "start the model after the text processing"}},
      {{"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"},
       {"random numbers aren't supported", "make them an input of the model"}},
  };
  return all;
}

std::string domain_text(const std::string& domain) {
  return domain.empty() ? "ONNX's domain" : "the domain `" + domain + "`";
}

}  // namespace

Refusal why_unsupported(const ModelNode& n) {
  for (const OpDef* other : all_ops())
    if (other->name == n.op && other->domain == n.domain)
      return {fmt::format("this opset's {} isn't supported", n.op),
              fmt::format("opset {}{} is", other->since,
                          other->until < 1000 ? fmt::format(" to {}", other->until) : " and later")};
  for (const OpDef* other : all_ops())
    if (other->name == n.op)
      return {"the operator isn't supported in " + domain_text(n.domain),
              "there is one in " + domain_text(other->domain)};
  if (n.domain == "ai.onnx.ml")
    return {"operators of classical machine learning (ai.onnx.ml) aren't supported",
            "end the model before it"};
  for (const Kind& kind : kinds())
    if (n.domain.empty() && std::count(kind.ops.begin(), kind.ops.end(), n.op) > 0) return kind.refusal;
  const std::string near = nearest_op(n.op);
  return {"the operator isn't supported", near.empty() ? "--op FILE.nest adds operators written as loop nests"
                                                       : "did you mean `" + near + "`?"};
}

}  // namespace nestor
