// A text proto, read from text or from a file, with its mistakes told by line.
#ifndef HEED_SERVER_CONFIG_TEXT_PROTO_H_
#define HEED_SERVER_CONFIG_TEXT_PROTO_H_

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace heed {

// INVALID_ARGUMENT with `where`, the line and what is wrong there.
absl::Status ParseTextProto(std::string_view text, std::string_view where,
                            google::protobuf::Message* message);

}  // namespace heed

#endif  // HEED_SERVER_CONFIG_TEXT_PROTO_H_
