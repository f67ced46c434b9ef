#include "server/api/chat_inputs.h"

#include <utility>

#include "server/error.h"

namespace heed {

int64_t BytesOf(const v1::Chat& chat) {
  int64_t bytes = 0;
  for (const v1::Chat::Message& message : chat.messages())
    bytes += std::ssize(message.role()) + std::ssize(message.content());
  return bytes;
}

absl::StatusOr<std::string> TextOf(const v1::Chat& chat, const ChatTemplate& chat_template) {
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
  auto text = chat_template.Render(conversation);
  return text.ok() ? std::move(text) : AtField(text.status(), "messages");
}

}  // namespace heed
