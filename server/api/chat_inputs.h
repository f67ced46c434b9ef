// A conversation as the text that the model reads.
#ifndef HEED_SERVER_API_CHAT_INPUTS_H_
#define HEED_SERVER_API_CHAT_INPUTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/templates/chat_template.h"
#include "heed/v1/common.pb.h"

namespace heed {

// What the template makes of it. INVALID_ARGUMENT with the field, which begins with `where`: it says nothing,
// the template refuses it, in its own words, or it or its text has more than `most_bytes` bytes.
absl::StatusOr<std::string> TextOf(const v1::Chat& chat, const ChatTemplate& chat_template,
                                   int64_t most_bytes, const std::string& where);

}  // namespace heed

#endif  // HEED_SERVER_API_CHAT_INPUTS_H_
