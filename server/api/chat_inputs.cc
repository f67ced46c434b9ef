#include "server/api/chat_inputs.h"

#include <utility>

#include "engine/base/status.h"
#include "server/api/inputs.h"
#include "server/error.h"

namespace heed {
namespace {

// Of all roles and contents.
int64_t BytesOf(const v1::Chat& chat) {
  int64_t bytes = 0;
  for (const v1::Chat::Message& message : chat.messages())
    bytes += std::ssize(message.role()) + std::ssize(message.content());
  return bytes;
}

absl::StatusOr<Conversation> ConversationOf(const v1::Chat& chat) {
  if (chat.messages().empty())
    return AtField(Error(ErrorReason::kInputEmpty, "there are no messages"), "messages");
  Conversation conversation{.add_generation_prompt = !chat.continue_last(),
                            .continue_final_message = chat.continue_last()};
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::Chat::Message& message = chat.messages(i);
    if (message.role().empty())
      return AtField(Invalid("the role has no name"), Cat("messages[", i, "].role"));
    conversation.messages.push_back(MessageOf(message.role(), message.content()));
  }
  return conversation;
}

}  // namespace

absl::StatusOr<std::string> TextOf(const v1::Chat& chat, const ChatTemplate& chat_template,
                                   int64_t most_bytes, const std::string& where) {
  if (absl::Status status = CheckTextBytes(BytesOf(chat), most_bytes); !status.ok())
    return AtField(status, where);
  const auto conversation = ConversationOf(chat);
  if (!conversation.ok()) return Within(conversation.status(), where);
  auto text = chat_template.Render(*conversation);
  if (!text.ok()) return AtField(text.status(), where + ".messages");
  if (absl::Status status = CheckTextBytes(std::ssize(*text), most_bytes); !status.ok())
    return AtField(status, where);
  return text;
}

}  // namespace heed
