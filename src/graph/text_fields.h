// Texts of a protobuf message.
#pragma once

namespace google::protobuf {
class Message;
}

namespace nestor {

// Bytes of `string` fields, at any depth, that aren't UTF-8 become \xff: names end up in JSON, in C headers
// and on terminals, and equal ones stay equal, different ones different.
void escape_bad_text(google::protobuf::Message& message);

}  // namespace nestor
