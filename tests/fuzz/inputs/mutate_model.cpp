// By reflection: ONNX's headers are seen by src/graph/import_onnx.cpp only.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/fuzz/inputs/mutate.h"

namespace nestor::fuzz {

namespace {

namespace pb = google::protobuf;

constexpr int64_t kIntegers[] = {0,         1,         -1,        2,         3,        7,       16,
                                 63,        64,        65,        1000,      4096,     1 << 20, INT32_MAX,
                                 INT32_MIN, INT64_MAX, INT64_MIN, 1LL << 40, 1LL << 62};
constexpr float kFloats[] = {0, -0.0F, 1, -1, 0.5F, 1e-45F, 3e38F, INFINITY, -INFINITY, NAN};

struct Place {
  pb::Message* message;
  const pb::FieldDescriptor* field;
};

// Every field that is set, of lists of data a few times.
void places_in(pb::Message& m, std::vector<Place>& out) {
  const pb::Reflection& r = *m.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  r.ListFields(m, &fields);
  for (const pb::FieldDescriptor* f : fields) {
    out.push_back({&m, f});
    if (f->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!f->is_repeated()) {
      places_in(*r.MutableMessage(&m, f), out);
      continue;
    }
    for (int i = 0; i < r.FieldSize(m, f); ++i) places_in(*r.MutableRepeatedMessage(&m, f, i), out);
  }
}

template <class T>
const T& one_of(const std::vector<T>& all, Random& rng) {
  return all[rng() % all.size()];
}

// Another string of the model, so that names meet.
std::string name_in(const std::vector<Place>& all, Random& rng) {
  for (int i = 0; i < 100; ++i) {
    const auto& [m, f] = one_of(all, rng);
    if (f->cpp_type() != pb::FieldDescriptor::CPPTYPE_STRING) continue;
    const pb::Reflection& r = *m->GetReflection();
    return f->is_repeated() ? r.GetRepeatedString(
                                  *m, f, static_cast<int>(rng() % static_cast<unsigned>(r.FieldSize(*m, f))))
                            : r.GetString(*m, f);
  }
  return "x";
}

void set_value(const Place& p, const std::vector<Place>& all, Random& rng) {
  auto& [m, f] = p;
  const pb::Reflection& r = *m->GetReflection();
  const int64_t integer =
      rng() % 3 == 0 ? static_cast<int64_t>(rng() % 12) - 2 : kIntegers[rng() % std::size(kIntegers)];
  const int at = f->is_repeated() ? static_cast<int>(rng() % static_cast<unsigned>(r.FieldSize(*m, f))) : -1;
  switch (f->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT64:
      at < 0 ? r.SetInt64(m, f, integer) : r.SetRepeatedInt64(m, f, at, integer);
      break;
    case pb::FieldDescriptor::CPPTYPE_INT32:
      at < 0 ? r.SetInt32(m, f, static_cast<int32_t>(integer))
             : r.SetRepeatedInt32(m, f, at, static_cast<int32_t>(integer));
      break;
    case pb::FieldDescriptor::CPPTYPE_FLOAT: {
      const float value = kFloats[rng() % std::size(kFloats)];
      at < 0 ? r.SetFloat(m, f, value) : r.SetRepeatedFloat(m, f, at, value);
      break;
    }
    case pb::FieldDescriptor::CPPTYPE_STRING: {
      const std::string value = name_in(all, rng);
      at < 0 ? r.SetString(m, f, value) : r.SetRepeatedString(m, f, at, value);
      break;
    }
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      at < 0 ? r.SetEnumValue(m, f, static_cast<int>(rng() % 16))
             : r.SetRepeatedEnumValue(m, f, at, static_cast<int>(rng() % 16));
      break;
    default:
      break;
  }
}

// Takes out, swaps or repeats elements of a list.
void change_list(const Place& p, Random& rng) {
  auto& [m, f] = p;
  const pb::Reflection& r = *m->GetReflection();
  const auto size = static_cast<unsigned>(r.FieldSize(*m, f));
  const int i = static_cast<int>(rng() % size), last = static_cast<int>(size) - 1;
  if (rng() % 3 == 0 && f->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
    const std::unique_ptr<pb::Message> copy(r.GetRepeatedMessage(*m, f, i).New());
    copy->CopyFrom(r.GetRepeatedMessage(*m, f, i));
    r.AddMessage(m, f)->CopyFrom(*copy);
    return;
  }
  r.SwapElements(m, f, i, last);
  if (rng() % 2 == 0) r.RemoveLast(m, f);
}

}  // namespace

std::string mutate_model(std::string_view bytes, Random& rng) {
  const pb::Descriptor* type = pb::DescriptorPool::generated_pool()->FindMessageTypeByName("onnx.ModelProto");
  if (!type) return "";  // a target that reads no models
  const std::unique_ptr<pb::Message> model(
      pb::MessageFactory::generated_factory()->GetPrototype(type)->New());
  if (!model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return "";
  std::vector<Place> all;
  places_in(*model, all);
  if (all.empty()) return "";
  const Place& p = one_of(all, rng);
  if (rng() % 8 == 0)
    p.message->GetReflection()->ClearField(p.message, p.field);
  else if (p.field->is_repeated() && rng() % 2 == 0)
    change_list(p, rng);
  else
    set_value(p, all, rng);
  return model->SerializeAsString();
}

}  // namespace nestor::fuzz
