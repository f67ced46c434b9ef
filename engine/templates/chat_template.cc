#include "engine/templates/chat_template.h"

#include <ctime>
#include <optional>
#include <string_view>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/templates/characters.h"
#include "engine/text/tokenizer_settings.h"

namespace heed {
namespace {

using jinja::Budget;
using jinja::Value;

constexpr int64_t kMaxBytes = 16 << 20;
constexpr std::string_view kKey = "chat_template";

// What a rendering may do: a few passes over the conversation, and what a template needs by itself.
constexpr int64_t kUnits = 16 << 20, kUnitsAByte = 64;

// Stands behind the message that goes on, and shows where that ends in the text. The space tells whether the
// template keeps white space there.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

struct Source {
  std::string text, where;
};

// "template", or [{"name": "default", "template": ...}, ...].
absl::StatusOr<std::optional<Source>> SourceIn(const Json& object, std::string_view file) {
  const auto found = object.find(kKey);
  if (found == object.end() || found->is_null()) return std::nullopt;
  const std::string where = Cat(file, ": ", kKey);
  if (found->is_string()) return Source{found->get<std::string>(), where};
  if (!found->is_array()) return Invalid(where, " is neither a text nor a list of named ones");
  for (const Json& named : *found) {
    if (!named.is_object()) return Invalid(where, ": ", Shown(named), " is no object with name and template");
    if (named.value("name", Json()) != "default") continue;
    const Json text = named.value("template", Json());
    if (!text.is_string()) return Invalid(where, ": the template 'default' is no text");
    return Source{text.get<std::string>(), Cat(where, " 'default'")};
  }
  return Invalid(where, " has no template of the name 'default'");
}

// Nothing where the folder has no such file.
absl::StatusOr<std::optional<std::string>> FileIn(const std::string& folder, const std::string& name) {
  auto text = ReadFile(folder, name, kMaxBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  return *std::move(text);
}

absl::StatusOr<std::optional<Source>> SourceOf(const std::string& folder, const Json& tokenizer_config) {
  ASSIGN_OR_RETURN(std::optional<std::string> alone, FileIn(folder, "chat_template.jinja"));
  if (alone) return Source{*std::move(alone), "chat_template.jinja"};
  ASSIGN_OR_RETURN(std::optional<Source> source, SourceIn(tokenizer_config, "tokenizer_config.json"));
  if (source) return source;
  constexpr std::string_view kJson = "chat_template.json";
  ASSIGN_OR_RETURN(const std::optional<std::string> file, FileIn(folder, std::string(kJson)));
  if (!file) return std::nullopt;
  ASSIGN_OR_RETURN(const Json json, ParseJson(*file, kJson));
  if (!json.is_object()) return Invalid(kJson, ": ", Shown(json), " is not an object");
  return SourceIn(json, kJson);
}

absl::StatusOr<jinja::Variables> TokensOf(const TokenizerSettings& settings) {
  jinja::Variables tokens;
  for (const auto& [role, special] : settings.special) {
    if (!special.token.content.empty()) tokens.emplace(role, Value::Of(special.token.content));
  }
  if (settings.additional.empty()) return tokens;
  jinja::List additional;
  for (const AddedToken& token : settings.additional) additional.push_back(Value::Of(token.content));
  ASSIGN_OR_RETURN(Value list, jinja::MakeList(std::move(additional)));
  tokens.emplace("additional_special_tokens", std::move(list));
  return tokens;
}

int64_t BytesOf(const Value& value) {
  int64_t bytes = 16;
  if (value.text()) bytes += std::ssize(*value.text());
  if (value.sequence())
    for (const Value& item : value.sequence()->items) bytes += BytesOf(item);
  if (value.mapping())
    for (const auto& [key, item] : value.mapping()->entries) bytes += BytesOf(key) + BytesOf(item);
  return bytes;
}

// The same with `kMark` after its content.
absl::StatusOr<Value> Marked(const Value& message) {
  Budget budget(kUnits);
  const Value key = Value::Of("content");
  const Value* content = message.mapping() ? Find(message.mapping()->entries, key, budget) : nullptr;
  if (content == nullptr || !content->text()) return Invalid("the last message, which goes on, has no text");
  jinja::Dict entries = message.mapping()->entries;
  for (auto& [name, value] : entries) {
    if (name.text() && *name.text() == "content") value = Value::Of(Cat(*content->text(), kMark));
  }
  return jinja::MakeDict(std::move(entries));
}

absl::StatusOr<std::string> UpToMark(std::string text) {
  const std::string_view mark = kMark.substr(0, kMark.size() - 1);
  const size_t at = text.rfind(mark);
  if (at == text.npos)
    return Invalid("the template does not put the last message, which goes on, into the text");
  const bool keeps_space = std::string_view(text).substr(at).starts_with(kMark);
  text.resize(at);
  return keeps_space ? text : std::string(jinja::StripRight(text));
}

}  // namespace

jinja::Value MessageOf(std::string role, std::string content) {
  jinja::Dict entries;
  entries.emplace_back(Value::Of("role"), Value::Of(std::move(role)));
  entries.emplace_back(Value::Of("content"), Value::Of(std::move(content)));
  return *jinja::MakeDict(std::move(entries));  // texts can always be held
}

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string_view where,
                                                 jinja::Variables tokens) {
  auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return Invalid(where, ": ", std::string(parsed.status().message()));
  return ChatTemplate(*std::move(parsed), std::move(tokens));
}

absl::StatusOr<std::unique_ptr<const ChatTemplate>> ChatTemplate::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(const TokenizerSettings settings, ReadTokenizerSettings(folder));
  ASSIGN_OR_RETURN(const std::optional<Source> source, SourceOf(folder, settings.config));
  if (!source) return nullptr;
  ASSIGN_OR_RETURN(jinja::Variables tokens, TokensOf(settings));
  ASSIGN_OR_RETURN(ChatTemplate parsed, Parse(source->text, source->where, std::move(tokens)));
  return std::make_unique<const ChatTemplate>(std::move(parsed));
}

absl::StatusOr<std::string> ChatTemplate::Render(const Conversation& conversation) const {
  return Render(conversation, LocalTime);
}

absl::StatusOr<std::string> ChatTemplate::Render(const Conversation& conversation,
                                                 const jinja::Clock& now) const {
  jinja::List messages = conversation.messages;
  if (messages.empty()) return Invalid("there are no messages");
  if (conversation.continue_final_message) {
    ASSIGN_OR_RETURN(messages.back(), Marked(messages.back()));
  }
  ASSIGN_OR_RETURN(Value list, jinja::MakeList(std::move(messages)));
  const int64_t units = kUnits + kUnitsAByte * BytesOf(list);
  jinja::Variables variables = tokens_;
  variables.insert_or_assign("messages", std::move(list));
  variables.insert_or_assign("tools", Value(jinja::None{}));
  variables.insert_or_assign("documents", Value(jinja::None{}));
  variables.insert_or_assign("add_generation_prompt", Value(conversation.add_generation_prompt));
  for (const auto& [name, value] : conversation.variables) variables.insert_or_assign(name, value);
  ASSIGN_OR_RETURN(std::string text, template_.Render(std::move(variables), units, now));
  return conversation.continue_final_message ? UpToMark(std::move(text)) : text;
}

}  // namespace heed
