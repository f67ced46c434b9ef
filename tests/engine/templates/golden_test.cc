// What transformers makes of templates and conversations, and what Jinja makes of its language, is made here,
// too: the text, or an error.
#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/templates/chat_template.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace heed {
namespace {

using jinja::Value;
using OrderedJson = nlohmann::ordered_json;  // a template sees keys in their order

OrderedJson Golden(std::string_view name) {
  return OrderedJson::parse(ReadNamedFile(Cat(HEED_SOURCE_DIR "/tests/golden/chat/", name), 1 << 20).value());
}

Value ValueOf(const OrderedJson& json) {
  if (json.is_null()) return Value(jinja::None{});
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number()) return Value(json.get<double>());
  if (json.is_string()) return Value::Of(json.get<std::string>());
  if (json.is_array()) {
    jinja::List items;
    for (const OrderedJson& item : json) items.push_back(ValueOf(item));
    return jinja::MakeList(std::move(items)).value();
  }
  jinja::Dict entries;
  for (const auto& [key, value] : json.items()) entries.emplace_back(Value::Of(key), ValueOf(value));
  return jinja::MakeDict(std::move(entries)).value();
}

// What transformers 5 does to messages before any template sees them: what is null is not there, and
// "reasoning" is "reasoning_content", too. Messages of the API have a role and a content only.
Value MessageOf(const OrderedJson& message) {
  OrderedJson kept = OrderedJson::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) kept[key] = value;
  }
  if (kept.contains("reasoning")) kept["reasoning_content"] = kept["reasoning"];
  return ValueOf(kept);
}

Conversation ConversationOf(const OrderedJson& run) {
  Conversation conversation{.add_generation_prompt = run["add_generation_prompt"].get<bool>(),
                            .continue_final_message = run["continue_final_message"].get<bool>()};
  for (const OrderedJson& message : run["messages"]) conversation.messages.push_back(MessageOf(message));
  conversation.variables = {{"tools", ValueOf(run["tools"])}, {"documents", ValueOf(run["documents"])}};
  for (const auto& [name, value] : run["variables"].items())
    conversation.variables.insert_or_assign(name, ValueOf(value));
  return conversation;
}

// "TemplateError: the template's own words", "UndefinedError: Jinja's".
void ExpectError(const absl::StatusOr<std::string>& text, const std::string& expected) {
  ASSERT_FALSE(text.ok()) << *text;
  const std::string words = expected.substr(expected.find(": ") + 2);
  const std::string message(text.status().message());
  if (expected.starts_with("TemplateError: ")) {
    EXPECT_EQ(message, words);
  } else if (expected.starts_with("UndefinedError: ")) {
    EXPECT_TRUE(message.ends_with(words)) << message << "\n" << words;
  }
}

TEST(ChatTemplates, GiveTheTextAndTheErrorsOfTransformers) {
  int runs = 0;
  const OrderedJson all = Golden("chat_templates.json");
  for (const OrderedJson& golden : all["templates"]) {
    jinja::Variables tokens;
    for (const char* role : {"bos_token", "eos_token"})
      if (golden[role].is_string()) tokens.emplace(role, ValueOf(golden[role]));
    const auto chat = ChatTemplate::Parse(golden["template"].get<std::string>(), "t", tokens);
    ASSERT_TRUE(chat.ok()) << golden["name"] << chat.status();
    for (const OrderedJson& run : golden["runs"]) {
      SCOPED_TRACE(golden["name"].get<std::string>() + " " + run.dump());
      const auto text = chat->Render(ConversationOf(run));
      if (run.contains("error")) {
        ExpectError(text, run["error"].get<std::string>());
      } else {
        EXPECT_TRUE(text.ok()) << text.status();
        EXPECT_EQ(text.value_or(""), run["text"].get<std::string>());
      }
      ++runs;
    }
  }
  EXPECT_GE(runs, 90);
}

TEST(Templates, GiveTheTextOfJinja) {
  jinja::Variables variables;
  variables.emplace("messages", ValueOf(OrderedJson::parse(
                                    R"([{"role": "user", "content": "Hi there"},
                                        {"role": "assistant", "content": "Hello é"},
                                        {"role": "user", "content": "Bye"}])")));
  for (const OrderedJson& golden : Golden("jinja.json")) {
    SCOPED_TRACE(golden.dump());
    const auto parsed = jinja::Template::Parse(golden["template"].get<std::string>());
    const auto text = parsed.ok() ? parsed->Render(variables, 1 << 20, nullptr)
                                  : absl::StatusOr<std::string>(parsed.status());
    if (golden.contains("error")) {
      ExpectError(text, golden["error"].get<std::string>());
    } else {
      EXPECT_TRUE(text.ok()) << text.status();
      EXPECT_EQ(text.value_or(""), golden["text"].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace heed
