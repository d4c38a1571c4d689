#include "src/graph/text_fields.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include <string>

namespace nestor {

namespace {

using google::protobuf::FieldDescriptor;

// Bytes of the character that begins a text, 0 where none does (RFC 3629: no surrogates, nothing longer than
// needed, nothing beyond 0x10FFFF).
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i)
    if (byte(i) >> 6 != 2) return 0;
  const unsigned second = byte(1);
  const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                   (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return bad ? 0 : size;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = character(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = character(text);
    if (size == 0) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    out += text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

}  // namespace

void escape_bad_text(google::protobuf::Message& message) {
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* f : fields) {
    const bool is_text = f->type() == FieldDescriptor::TYPE_STRING,
               is_message = f->type() == FieldDescriptor::TYPE_MESSAGE;
    if (!is_text && !is_message) continue;
    for (int i = 0, n = f->is_repeated() ? reflection->FieldSize(message, f) : 1; i < n; ++i) {
      if (is_message) {
        escape_bad_text(f->is_repeated() ? *reflection->MutableRepeatedMessage(&message, f, i)
                                         : *reflection->MutableMessage(&message, f));
        continue;
      }
      const std::string text =
          f->is_repeated() ? reflection->GetRepeatedString(message, f, i) : reflection->GetString(message, f);
      if (is_utf8(text)) continue;
      if (f->is_repeated())
        reflection->SetRepeatedString(&message, f, i, escaped(text));
      else
        reflection->SetString(&message, f, escaped(text));
    }
  }
}

}  // namespace nestor
