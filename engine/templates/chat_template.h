// A conversation as the text that a model was trained on: what transformers' apply_chat_template makes of the
// folder's own template.
#ifndef HEED_ENGINE_TEMPLATES_CHAT_TEMPLATE_H_
#define HEED_ENGINE_TEMPLATES_CHAT_TEMPLATE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/templates/template.h"

namespace heed {

struct Conversation {
  jinja::List messages{};  // dicts; of those that people write, with "role" and "content"
  // The text ends where the model is to answer. Excludes the next.
  bool add_generation_prompt = true;
  // The text ends within the last message, which the model goes on with.
  bool continue_final_message = false;
  jinja::Variables variables{};  // beside what every template is told
};

// Const and thread-safe.
class ChatTemplate {
 public:
  // Of the folder: chat_template.jinja; else tokenizer_config.json: chat_template, a text or a list of named
  // ones, of which "default" is taken; else chat_template.json: chat_template. nullptr: it has none.
  // INVALID_ARGUMENT, with the file and the line, for what is no template or is not supported.
  static absl::StatusOr<std::unique_ptr<const ChatTemplate>> Load(const std::string& folder);
  // `tokens`: the special tokens by role, "bos_token" and its like. Messages begin with `where`.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source, std::string_view where,
                                            jinja::Variables tokens);

  // INVALID_ARGUMENT with what the template raises, or what is wrong with it, "chat template: line N: ...";
  // or with the conversation.
  absl::StatusOr<std::string> Render(const Conversation& conversation) const;
  // The same with another clock than the system's.
  absl::StatusOr<std::string> Render(const Conversation& conversation, const jinja::Clock& now) const;

 private:
  ChatTemplate(jinja::Template chat, jinja::Variables tokens)
      : template_(std::move(chat)), tokens_(std::move(tokens)) {}
  jinja::Template template_;
  jinja::Variables tokens_;
};

// {"role": role, "content": content}
jinja::Value MessageOf(std::string role, std::string content);

}  // namespace heed

#endif  // HEED_ENGINE_TEMPLATES_CHAT_TEMPLATE_H_
