// Where a folder has its template, and what that is told.
#include "engine/templates/chat_template.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

// What the folder's template makes of one message; empty: it has none.
std::string Text(const TempFolder& folder) {
  const auto chat = ChatTemplate::Load(folder.path());
  if (!chat.ok()) return std::string(chat.status().message());
  if (*chat == nullptr) return "";
  return (*chat)->Render({.messages = {MessageOf("user", "Hi")}}).value();
}

TEST(ChatTemplate, IsFoundWhereverTransformersLooksForIt) {
  const TempFolder folder;
  EXPECT_EQ(Text(folder), "");
  folder.Write("chat_template.json", R"({"chat_template": "json {{ messages[0].content }}"})");
  EXPECT_EQ(Text(folder), "json Hi");
  folder.Write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(Text(folder), "config");
  folder.Write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "rag", "template": "{%"}, {"name": "default", "template": "named"}]})");
  EXPECT_EQ(Text(folder), "named");
  folder.Write("chat_template.jinja", "jinja\n");
  EXPECT_EQ(Text(folder), "jinja");
}

TEST(ChatTemplate, IsToldTheTokensOfTheFolder) {
  const TempFolder folder;
  folder.Write("tokenizer_config.json",
               R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null})");
  folder.Write("chat_template.jinja",
               "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ tools is none }}");
  EXPECT_EQ(Text(folder), "<s></s>FalseTrue");
}

TEST(ChatTemplate, ThatIsWrongIsRefusedWithItsFile) {
  const TempFolder folder;
  folder.Write("tokenizer_config.json", R"({"chat_template": 7})");
  EXPECT_EQ(Text(folder), "tokenizer_config.json: chat_template is neither a text nor a list of named ones");
  folder.Write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_EQ(Text(folder), "tokenizer_config.json: chat_template has no template of the name 'default'");
  folder.Write("chat_template.jinja", "\n{% call x() %}");
  EXPECT_EQ(Text(folder), "chat_template.jinja: line 2: the tag 'call' is not supported");
}

TEST(ChatTemplate, NeedsMessagesAndShowsTheOneThatGoesOn) {
  const auto silent = ChatTemplate::Parse("nothing", "t", {});
  EXPECT_EQ(silent->Render({}).status().message(), "there are no messages");
  const Conversation on{.messages = {MessageOf("assistant", "One,")},
                        .add_generation_prompt = false,
                        .continue_final_message = true};
  EXPECT_EQ(silent->Render(on).status().message(),
            "the template does not put the last message, which goes on, into the text");
}

}  // namespace
}  // namespace heed
