// Conversations over a socket: what a chat template makes of them is what the model reads.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

using testing::Contains;
using testing::Not;

constexpr std::string_view kTemplate =
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% "
    "endif %}"
    "<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

v1::Input Conversation(const std::vector<std::pair<std::string, std::string>>& messages,
                       bool continue_last = false) {
  v1::Input input;
  for (const auto& [role, content] : messages) {
    v1::Chat::Message* message = input.mutable_chat()->add_messages();
    message->set_role(role);
    message->set_content(content);
  }
  input.mutable_chat()->set_continue_last(continue_last);
  return input;
}

std::unique_ptr<World> Talkative(const std::function<void(config::v1::ServerConfig&)>& change =
                                     [](config::v1::ServerConfig&) {}) {
  World::Models models = EveryModel();
  models["writer"] = [] {
    LoadedModel loaded = WithBytes(NewFakeWriter());
    loaded.chat_template =
        std::make_unique<const ChatTemplate>(ChatTemplate::Parse(kTemplate, "test", {}).value());
    return loaded;
  };
  return World::Ready(std::move(models), change);
}

// How many tokens, here bytes, the model read.
int Read(World& world, const v1::Input& input) {
  auto request = Good<v1::GenerateRequest>();
  *request.add_inputs() = input;
  const auto context = NewContext();
  auto stream = world.inference()->Generate(context.get(), request);
  int tokens = -1;
  for (v1::GenerateEvent event; stream->Read(&event);)
    if (event.has_started()) tokens = event.started().input_tokens();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return tokens;
}

TEST(Chat, IsTheTextThatTheTemplateMakes) {
  auto world = Talkative();
  EXPECT_EQ(Read(*world, Conversation({{"user", " Hi "}})),
            std::ssize(std::string("<user>Hi</><assistant>")));
  EXPECT_EQ(Read(*world, Conversation({{"user", "Hi"}, {"assistant", "Yes, "}}, /*continue_last=*/true)),
            std::ssize(std::string("<user>Hi</><assistant>Yes,")));
}

TEST(Chat, IsRefusedWithTheFieldThatIsWrong) {
  auto world = Talkative();
  const auto told = [&](const v1::Input& input) {
    auto request = Good<v1::GenerateRequest>();
    *request.add_inputs() = input;
    return Ask(*world, request).status;
  };
  v1::Input empty;
  empty.mutable_chat();
  ExpectTold(told(empty), {.reason = "INPUT_EMPTY", .field = "inputs[0].chat.messages"});
  ExpectTold(told(Conversation({{"user", "a"}, {"", "b"}})),
             {.reason = "INVALID_VALUE", .field = "inputs[0].chat.messages[1].role"});
  const grpc::Status raised = told(Conversation({{"system", "Be kind"}}));
  ExpectTold(raised, {.reason = "INVALID_VALUE", .field = "inputs[0].chat.messages"});
  EXPECT_EQ(raised.error_message(), "inputs[0].chat.messages: System role not supported");
  ExpectTold(told(Conversation({{"user", std::string(80, 'x')}})),
             {.reason = "INPUT_TOO_LONG", .field = "inputs[0].chat"});
}

TEST(Chat, MayHaveAsManyBytesAsATextMay) {
  auto world = Talkative([](auto& config) { config.mutable_limits()->set_text_bytes(30); });
  auto request = Good<v1::GenerateRequest>();
  *request.add_inputs() = Conversation({{"user", std::string(27, 'x')}});
  ExpectTold(Ask(*world, request).status, {.reason = "TEXT_TOO_LARGE", .field = "inputs[0].chat"});
  *request.mutable_inputs(0) = Conversation({{"user", std::string(20, 'x')}});  // the template adds to it
  ExpectTold(Ask(*world, request).status, {.reason = "TEXT_TOO_LARGE", .field = "inputs[0].chat"});
}

TEST(Chat, GivesTokenizeTheTokensThatGenerateReadsAndTheirText) {
  auto world = Talkative();
  v1::TokenizeRequest request;
  request.mutable_target()->set_model("writer");
  request.mutable_text()->set_truncate(true);
  request.mutable_options()->set_pieces(true);
  *request.add_inputs() = Conversation({{"user", std::string(100, 'x')}});  // more than the model reads
  *request.add_inputs() = Conversation({{"system", "Be kind"}});
  v1::TokenizeResponse response;
  ASSERT_TRUE(world->inference()->Tokenize(NewContext().get(), request, &response).ok());
  const v1::Tokenized& whole = response.results(0).value();
  EXPECT_EQ(whole.text(), Cat("<user>", std::string(100, 'x'), "</><assistant>"));
  EXPECT_EQ(whole.tokens().ids_size(), std::ssize(whole.text()));
  EXPECT_EQ(whole.pieces().rbegin()->end(), std::ssize(whole.text()));
  ExpectTold(response.results(1).error(), {.reason = "INVALID_VALUE",
                                           .field = "inputs[1].chat.messages",
                                           .message = "System role not supported"});
  request.mutable_options()->set_max_tokens(6);
  request.mutable_inputs()->RemoveLast();
  ASSERT_TRUE(world->inference()->Tokenize(NewContext().get(), request, &response).ok());
  EXPECT_EQ(response.results(0).value().tokens().ids_size(), 6);
  request.mutable_target()->set_model("reader");
  const grpc::Status refused = world->inference()->Tokenize(NewContext().get(), request, &response);
  ExpectTold(refused, {.reason = "INPUT_KIND_UNSUPPORTED",
                       .field = "inputs[0].chat",
                       .message = "Tokenize does not read chat, it reads text, pair"});
}

TEST(Chat, NeedsAModelWithATemplateAndDescribeModelTellsWhoHasOne) {
  auto world = Talkative();
  EXPECT_THAT(DescriptionOf(*world, "writer").inputs(), Contains(v1::INPUT_KIND_CHAT));
  EXPECT_THAT(DescriptionOf(*world, "reader").inputs(), Not(Contains(v1::INPUT_KIND_CHAT)));
  auto request = Good<v1::ClassifyRequest>();
  *request.add_inputs() = Conversation({{"user", "Hi"}});
  ExpectTold(Ask(*world, request).status, {.reason = "INPUT_KIND_UNSUPPORTED", .field = "inputs[0].chat"});
}

TEST(Chat, IsNoContinuationOfAScore) {
  auto world = Talkative();
  auto request = Good<v1::ScoreRequest>();
  *request.add_inputs()->mutable_continuation() = Conversation({{"user", "Hi"}});
  ExpectTold(Ask(*world, request).status,
             {.reason = "INVALID_VALUE", .field = "inputs[0].continuation.chat"});
}

// A published checkpoint's folder with a tokenizer of words and a template.
struct Folder {
  Folder() {
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy(std::string(HEED_SOURCE_DIR) + "/tests/golden/hf/qwen3_lm/" + name,
                            folder / name);
    folder.Write("tokenizer.json", R"({
      "model": {"type": "WordLevel", "unk_token": "[UNK]",
                "vocab": {"[UNK]": 0, "user": 1, "assistant": 2, "Hi": 3, "there": 4}},
      "pre_tokenizer": {"type": "Whitespace"},
      "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},
      "added_tokens": [
        {"id": 5, "content": "<s>", "special": true}, {"id": 6, "content": "<|im_start|>", "special": true},
        {"id": 7, "content": "<|im_end|>", "special": true}]})");
    Config(
        R"({{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %})"
        R"({% if add_generation_prompt %}<|im_start|>assistant{% endif %})");
  }
  void Config(const std::string& chat) const {
    folder.Write("tokenizer_config.json",
                 CanonicalText({{"bos_token", "<s>"}, {"eos_token", "<|im_end|>"}, {"chat_template", chat}}));
  }
  TempFolder folder;
};

TEST(Chat, OfAPublishedFolderReadsItsSpecialTokensAndAddsNone) {
  const Folder folder;
  auto world = World::Ready({}, [&](config::v1::ServerConfig& config) {
    auto* model = config.add_models();
    model->set_name("qwen");
    model->set_folder(folder.folder.path());
  });
  const auto generated = [&](const v1::Input& input) {
    v1::GenerateRequest request;
    *request.add_inputs() = input;
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_max_tokens(6);
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_details()->set_tokens(true);
    const auto context = NewContext();
    auto stream = world->inference()->Generate(context.get(), request);
    std::vector<int32_t> tokens;
    for (v1::GenerateEvent event; stream->Read(&event);)
      tokens.insert(tokens.end(), event.piece().tokens().begin(), event.piece().tokens().end());
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return tokens;
  };
  const auto answer = generated(Conversation({{"user", "Hi there"}}));
  EXPECT_EQ(answer.size(), 6u);
  EXPECT_EQ(answer, generated(TokensOf({5, 6, 1, 3, 4, 7, 6, 2})));
}

TEST(Chat, AFolderWhoseTemplateIsNotSupportedIsRefusedByName) {
  const Folder folder;
  folder.Config("{% for m in messages %}\n{{ m | shuffled }}{% endfor %}");
  const auto loaded = LoadFromFolder({.name = "m", .folder = folder.folder.path()});
  EXPECT_EQ(loaded.status().message(),
            "tokenizer_config.json: chat_template: line 2: the filter 'shuffled' is not supported");
}

}  // namespace
}  // namespace heed
