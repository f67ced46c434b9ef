// What is wrong with an input, and what it is told: the failure catalogue's rows R1, R2, R3, R11, R14 and R16
// (reference/serving.md 2.2), each tried on every RPC, alone and beside an input that is fine.
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

// Fields stand below the input: ".text". In messages, MODEL is the RPC's.
struct InputCase {
  std::string name;
  v1::Input input;
  Refusal refusal;
};

InputCase BadText(std::string name, std::string text, std::string reason, std::string message) {
  return {std::move(name), Text(std::move(text)),
          Refusal{.reason = std::move(reason), .field = ".text", .message = std::move(message)}};
}

InputCase BadTokens(std::string name, const std::vector<int32_t>& ids, std::string reason,
                    std::string message) {
  return {std::move(name), TokensOf(ids),
          Refusal{.reason = std::move(reason), .field = ".tokens", .message = std::move(message)}};
}

InputCase Unread(const std::string& kind, v1::Input input) {
  return {Cat("a kind that the model does not read: ", kind), std::move(input),
          Refusal{.reason = "INPUT_KIND_UNSUPPORTED",
                  .field = "." + kind,
                  .message = Cat("'MODEL' does not read ", kind, ", it reads text, tokens")}};
}

void AddTexts(std::vector<InputCase>& cases) {
  const std::string blank = "the text is empty or white space";
  cases.push_back(BadText("R1 empty text", "", "INPUT_EMPTY", blank));
  cases.push_back(BadText("R1 white space", " \t\r\n ", "INPUT_EMPTY", blank));
  cases.push_back(BadText("R2 text over the byte limit", std::string(2001, 'x'), "TEXT_TOO_LARGE",
                          "the text has 2001 bytes, at most 2000"));
  cases.push_back(BadText("R3 more tokens than the model reads", std::string(65, 'x'), "INPUT_TOO_LONG",
                          "65 tokens, 'MODEL' reads at most 64"));
}

void AddTokens(std::vector<InputCase>& cases) {
  cases.push_back(BadTokens("R1 no tokens", {}, "INPUT_EMPTY", "the input has no tokens"));
  cases.push_back(BadTokens("R11 a negative id", {1, -1}, "INVALID_VALUE", "ids[1] is -1, ids are 0 to 255"));
  cases.push_back(BadTokens("R11 an id beyond the vocabulary", {256}, "INVALID_VALUE",
                            "ids[0] is 256, ids are 0 to 255"));
  cases.push_back(BadTokens("R11 the largest id", {1, 2, std::numeric_limits<int32_t>::max()},
                            "INVALID_VALUE", "ids[2] is 2147483647"));
  cases.push_back(BadTokens("R11 very many ids", std::vector<int32_t>(1'000'000, 1), "INPUT_TOO_LONG",
                            "1000000 tokens, 'MODEL' reads at most 64"));
}

void AddKinds(std::vector<InputCase>& cases) {
  cases.push_back(
      {"an input of no kind", {}, {.reason = "INPUT_EMPTY", .message = "the input is empty: it is neither"}});
  v1::Input image, vectors, row;
  image.mutable_image();
  vectors.mutable_vectors();
  row.mutable_row();
  cases.push_back(Unread("image", image));
  cases.push_back(Unread("vectors", vectors));
  cases.push_back(Unread("row", row));
}

std::vector<InputCase> BadInputs() {
  std::vector<InputCase> cases;
  AddTexts(cases);
  AddTokens(cases);
  AddKinds(cases);
  return cases;
}

// What the i-th input of this RPC is told.
Refusal Of(const InputCase& bad, const Rpc& rpc, int i) {
  Refusal refusal = bad.refusal;
  refusal.field = Cat("inputs[", i, "]", rpc.place, refusal.field);
  if (const size_t at = refusal.message.find("MODEL"); at != std::string::npos)
    refusal.message.replace(at, 5, rpc.model);
  return refusal;
}

std::unique_ptr<World> SmallWorld() {
  return World::Ready(EveryModel(), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_text_bytes(2000);
    config.mutable_limits()->set_inputs(100);
    config.mutable_limits()->set_generate_inputs(100);
  });
}

TEST(Inputs, ThatAreWrongAreToldWhy) {
  auto world = SmallWorld();
  for (const Rpc& rpc : EveryRpc()) {
    for (const InputCase& bad : BadInputs()) {
      SCOPED_TRACE(Cat(rpc.name, ", ", bad.name));
      ExpectTold(rpc.Ask(*world, {.inputs = {bad.input}}).status, Of(bad, rpc, 0));
      ExpectServes(*world);
    }
  }
}

TEST(Inputs, ThatAreWrongDoNotSinkTheOthers) {  // R14
  auto world = SmallWorld();
  for (const Rpc& rpc : EveryRpc()) {
    for (const InputCase& bad : BadInputs()) {
      SCOPED_TRACE(Cat(rpc.name, ", ", bad.name));
      const Outcome outcome = rpc.Ask(*world, {.inputs = {Text("fine"), bad.input, Text("good")}});
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
      EXPECT_TRUE(outcome.Answered(0) && outcome.Answered(2));
      ASSERT_TRUE(outcome.inputs.contains(1) && outcome.inputs.at(1));
      ExpectTold(*outcome.inputs.at(1), Of(bad, rpc, 1));
    }
  }
}

TEST(Inputs, ThatAreAllWrongFailTheCallWithTheFirstOnesError) {  // R14
  auto world = SmallWorld();
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const Outcome outcome = rpc.Ask(*world, {.inputs = {TokensOf({256}), Text("")}});
    ExpectTold(outcome.status, {.reason = "INVALID_VALUE",
                                .field = Cat("inputs[0]", rpc.place, ".tokens"),
                                .message = "ids[0] is 256"});
    EXPECT_TRUE(outcome.inputs.empty());
  }
}

TEST(Inputs, AreCounted) {
  auto world = SmallWorld();
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    ExpectTold(rpc.Ask(*world, {}).status,
               {.reason = "INPUT_EMPTY", .field = "inputs", .message = "there are no inputs"});
    ExpectTold(rpc.Ask(*world, {.inputs = std::vector(101, Text("x"))}).status,
               {.reason = "TOO_MANY_INPUTS",
                .field = "inputs",
                .message = "there are 101 inputs, at most 100 are answered"});
    const Outcome most = rpc.Ask(*world, {.inputs = std::vector(100, Text("xy"))});
    EXPECT_TRUE(most.status.ok()) << most.status.error_message();
    EXPECT_EQ(most.inputs.size(), 100u);
  }
}

TEST(Inputs, OfAnyCharactersAreTaken) {  // R16
  auto world = SmallWorld();
  for (const Rpc& rpc : EveryRpc()) {
    for (const std::string& text : {std::string("a\u0301\u0301\u0301\u0301"), std::string("a\0b", 3),
                                    std::string("\u202e\ufeff\x1b[2J"), std::string("\U0010ffff")}) {
      const Outcome outcome = rpc.Ask(*world, {.inputs = {Text(text)}});
      EXPECT_TRUE(outcome.status.ok()) << rpc.name << ": " << outcome.status.error_message();
    }
  }
}

// A classifier with the tokenizer of a folder of this tree.
auto WorldWithTokenizer(const std::string& folder) {
  return World::Ready({{"reader", [folder]() -> absl::StatusOr<LoadedModel> {
                          auto model = NewFakeClassifier();
                          LoadedModel loaded;
                          auto tokenizer = LoadTokenizer(HEED_SOURCE_DIR "/" + folder);
                          if (!tokenizer.ok()) return tokenizer.status();
                          loaded.tokenizer = *std::move(tokenizer);
                          ModelInfo info = model->info();
                          info.vocab_size = loaded.tokenizer->vocab_size();
                          model->set_info(info);
                          loaded.model = std::move(model);
                          return loaded;
                        }}});
}

// A tokenizer of every kind, and texts of a megabyte: what were not linear would take minutes, and the call's
// 20 s would be over.
TEST(Inputs, OfAMegabyteOfOneThingAreReadInLinearTime) {  // R16
  for (const char* folder : {"models/polarity", "tests/golden/tokenizers/bert-uncased",
                             "tests/golden/tokenizers/gpt2", "tests/golden/tokenizers/llama-2"}) {
    auto world = WorldWithTokenizer(folder);
    const Rpc& classify = EveryRpc().front();
    for (const std::string unit : {"a", "a\u0301", ". ", "\n\n", "\u4e2d", "\U0001f600"}) {
      std::string text = "x";
      while (text.size() + unit.size() <= 1 << 20) text += unit;
      const Outcome outcome = classify.Ask(*world, {.inputs = {Text(text)}, .truncate = true});
      EXPECT_TRUE(outcome.status.ok()) << folder << " " << unit << ": " << outcome.status.error_message();
    }
  }
}

TEST(Inputs, OfAScoreAreBothItsContextAndItsContinuation) {
  auto world = SmallWorld();
  auto request = Good<v1::ScoreRequest>();
  *request.add_inputs()->mutable_continuation() = Text("fine");
  *request.mutable_inputs(0)->mutable_context() = Text("");
  ExpectTold(Ask(*world, request).status, {.reason = "INPUT_EMPTY", .field = "inputs[0].context.text"});
  *request.mutable_inputs(0)->mutable_context() = Text(std::string(40, 'x'));
  *request.mutable_inputs(0)->mutable_continuation() = Text(std::string(30, 'x'));
  ExpectTold(Ask(*world, request).status,
             {.reason = "INPUT_TOO_LONG", .field = "inputs[0]", .message = "70 tokens"});
  request.mutable_inputs(0)->clear_context();
  *request.mutable_inputs(0)->mutable_continuation() = Text("x");
  ExpectTold(Ask(*world, request).status,
             {.reason = "INPUT_EMPTY", .field = "inputs[0]", .message = "there is nothing to score"});
}

}  // namespace
}  // namespace heed
