// A conversation as the text that the model reads.
#ifndef HEED_SERVER_API_CHAT_INPUTS_H_
#define HEED_SERVER_API_CHAT_INPUTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/templates/chat_template.h"
#include "heed/v1/common.pb.h"

namespace heed {

// Of all roles and contents.
int64_t BytesOf(const v1::Chat& chat);
// INVALID_ARGUMENT, with the field, for a conversation that says nothing, and with the template's own message
// for one that it refuses.
absl::StatusOr<std::string> TextOf(const v1::Chat& chat, const ChatTemplate& chat_template);

}  // namespace heed

#endif  // HEED_SERVER_API_CHAT_INPUTS_H_
