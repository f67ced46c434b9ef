// What a request says of the model that it wants, and what it is told where there is none: row R12 of the
// failure catalogue (reference/serving.md 2.2), on every RPC.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

// Well formed or not, a name is never part of a path.
const std::vector<std::string>& BadNames() {
  static const std::vector<std::string> names = {std::string(10'000, 'a'),
                                                 std::string("a\0b", 3),
                                                 "a\nb",
                                                 "../etc",
                                                 "a/../b",
                                                 "..",
                                                 " ..",
                                                 "/etc/passwd",
                                                 "reader/",
                                                 "%2e%2e",
                                                 "\uff0e\uff0e",
                                                 ".hidden",
                                                 std::string(65, 'a')};
  return names;
}

Outcome AskFor(World& world, const Rpc& rpc, const v1::Target& target) {
  return rpc.Ask(world, {.inputs = {Text("fine")}, .target = target});
}

v1::Target Named(const std::string& model, const std::string& version = "") {
  v1::Target target;
  target.set_model(model);
  target.set_version(version);
  return target;
}

grpc::Status Describe(World& world, const std::string& model, const std::string& version = "") {
  v1::DescribeModelRequest request;
  request.set_model(model);
  request.set_version(version);
  v1::ModelDescription response;
  return world.models()->DescribeModel(NewContext().get(), request, &response);
}

TEST(Names, ThatNobodyHasAreNotFound) {
  auto world = World::Ready(EveryModel());
  Refusal refusal{.code = grpc::NOT_FOUND,
                  .reason = "MODEL_NOT_FOUND",
                  .field = "target.model",
                  .message = "no model 'nobody' is served"};
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    ExpectTold(AskFor(*world, rpc, Named("nobody")).status, refusal);
    ExpectTold(AskFor(*world, rpc, Named("READER")).status,
               {.code = grpc::NOT_FOUND, .reason = "MODEL_NOT_FOUND", .field = "target.model"});
  }
  refusal.field = "model";
  ExpectTold(Describe(*world, "nobody"), refusal);
}

TEST(Names, OfNoNamesFormAreTheCallersMistake) {
  auto world = World::Ready(EveryModel());
  Refusal refusal{.reason = "INVALID_VALUE", .field = "target.model", .message = "1 to 64 of [A-Za-z0-9._-]"};
  for (const std::string& name : BadNames()) {
    for (const Rpc& rpc : EveryRpc()) {
      SCOPED_TRACE(Cat(rpc.name, " ", name.substr(0, 100)));
      ExpectTold(AskFor(*world, rpc, Named(name)).status, refusal);
    }
    Refusal of_describe = refusal;
    of_describe.field = "model";
    ExpectTold(Describe(*world, name), of_describe);
  }
  ExpectServes(*world);
}

TEST(Names, MustBeGivenWhereThereAreSeveral) {
  auto world = World::Ready(EveryModel());
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("fine");
  ExpectTold(
      Ask(*world, request).status,
      {.reason = "INVALID_VALUE", .field = "target.model", .message = "no model is named, and 4 are served"});
}

TEST(Names, HaveVersions) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    EXPECT_TRUE(AskFor(*world, rpc, Named(rpc.model, "1")).status.ok());
    ExpectTold(AskFor(*world, rpc, Named(rpc.model, "7")).status,
               {.code = grpc::NOT_FOUND,
                .reason = "VERSION_NOT_FOUND",
                .field = "target.version",
                .message = Cat("model '", rpc.model, "' has no version '7', it is served as '1'")});
    for (const std::string& version : BadNames()) {
      ExpectTold(AskFor(*world, rpc, Named(rpc.model, version)).status,
                 {.reason = "INVALID_VALUE", .field = "target.version"});
    }
  }
  ExpectTold(Describe(*world, "reader", "7"),
             {.code = grpc::NOT_FOUND, .reason = "VERSION_NOT_FOUND", .field = "version"});
}

TEST(Names, OfModelsThatAnswerOtherRpcsAreRefused) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const std::string other = rpc.name == "Classify" ? "writer" : "reader";
    const std::string answers = rpc.name == "Classify" ? "Score, Generate" : "Classify";
    ExpectTold(AskFor(*world, rpc, Named(other)).status,
               {.reason = "RPC_UNSUPPORTED",
                .field = "target.model",
                .message = Cat("'", other, "' does not answer ", rpc.name, ", it answers ", answers)});
  }
}

TEST(Names, OfModelsThatReadOrAnswerOtherThanTokensAreRefused) {
  const std::string none = "none of heed.v1.Inference", text_only = "Tokenize, Detokenize";
  const std::pair<std::string, std::function<void(ModelInfo&)>> changes[] = {
      {none, [](ModelInfo& info) { info.input = {.kind = InputRow::Kind::kTableRow}; }},
      {none, [](ModelInfo& info) { info.input = {.kind = InputRow::Kind::kVector, .ids = 0, .numbers = 3}; }},
      // Rows that were pooled, latents.
      {text_only, [](ModelInfo& info) { info.answers_tokens = info.pooled = false; }},
  };
  for (const auto& [answers, change] : changes) {
    auto world = World::Ready(EveryModel([&](FakeModel& model) {
      ModelInfo info = model.info();
      change(info);
      model.set_info(info);
    }));
    for (const Rpc& rpc : EveryRpc()) {
      SCOPED_TRACE(rpc.name);
      ExpectTold(AskFor(*world, rpc, Named(rpc.model)).status,
                 {.reason = "RPC_UNSUPPORTED",
                  .field = "target.model",
                  .message = Cat("'", rpc.model, "' does not answer ", rpc.name, ", it answers ", answers)});
    }
    EXPECT_TRUE(Describe(*world, "reader").ok());
  }
}

TEST(Names, ComeWithAPriority) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    for (int32_t priority : {-10, 10, -11, 11, 1'000'000'000}) {
      SCOPED_TRACE(Cat(rpc.name, " ", priority));
      v1::Target target = Named(rpc.model);
      target.set_priority(priority);
      const grpc::Status status = AskFor(*world, rpc, target).status;
      if (priority >= -10 && priority <= 10) {
        EXPECT_TRUE(status.ok()) << status.error_message();
        continue;
      }
      ExpectTold(status, {.reason = "INVALID_VALUE",
                          .field = "target.priority",
                          .message = Cat("the value is ", priority, ", it must be -10 to 10")});
    }
  }
}

}  // namespace
}  // namespace heed
