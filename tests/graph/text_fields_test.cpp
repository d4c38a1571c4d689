// Bytes of names that aren't UTF-8, in messages that protobuf itself brings.
#include "src/graph/text_fields.h"

#include <google/protobuf/descriptor.pb.h>

#include "catch.h"

using namespace nestor;

namespace {

std::string escaped(const std::string& text) {
  google::protobuf::FileDescriptorProto message;
  message.set_name(text);
  escape_bad_text(message);
  return message.name();
}

}  // namespace

TEST_CASE("UTF-8 stays, other bytes are spelled out") {
  for (const std::string text : {"", "x", "image/1:0", "a\\xff", "h\u00e9", "\u20ac", "\U0001F600", "a\nb"})
    CHECK(escaped(text) == text);
  CHECK(escaped("\xff\xfe\x80"
                "A") == "\\xff\\xfe\\x80A");
  CHECK(escaped("a\xc3(") == "a\\xc3(");                         // a beginning without its end
  CHECK(escaped("\xe2\x82") == "\\xe2\\x82");                    // cut off
  CHECK(escaped("\xc0\x80") == "\\xc0\\x80");                    // longer than needed
  CHECK(escaped("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // half of a pair
  CHECK(escaped("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond the last character
}

TEST_CASE("texts of lists and of messages inside are escaped, bytes aren't") {
  google::protobuf::FileDescriptorProto message;
  message.add_dependency("a\xff");
  message.add_dependency("b");
  auto* inner = message.add_message_type()->add_field();
  inner->set_name("\xfe");
  auto* option = message.mutable_options()->add_uninterpreted_option();
  option->set_string_value("\xfd");
  escape_bad_text(message);
  CHECK(message.dependency(0) == "a\\xff");
  CHECK(message.dependency(1) == "b");
  CHECK(message.message_type(0).field(0).name() == "\\xfe");
  CHECK(message.options().uninterpreted_option(0).string_value() == "\xfd");
}
