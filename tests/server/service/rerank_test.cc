// Rerank, on a real port: the order, what a score is, and what is refused.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::ElementsAre;

// Byte tokens; of a pair one text, 255 between.
class PairsOfBytes : public Tokenizer {
 public:
  PairsOfBytes() { MeasureTokens(); }
  absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options) const override {
    ASSIGN_OR_RETURN(Encoding first, bytes_->Encode(text, std::nullopt, {}));
    if (pair) {
      ASSIGN_OR_RETURN(const Encoding second, bytes_->Encode(*pair, std::nullopt, {}));
      first.ids.push_back(255);
      first.ids.insert(first.ids.end(), second.ids.begin(), second.ids.end());
    }
    if (options.max_length > 0 && std::ssize(first.ids) > options.max_length)
      first.ids.resize(options.max_length);
    first.offsets.resize(first.ids.size());
    first.type_ids.resize(first.ids.size());
    first.texts.resize(first.ids.size());
    return first;
  }
  std::string Decode(std::span<const int32_t> ids, bool skip) const override {
    return bytes_->Decode(ids, skip);
  }
  int32_t vocab_size() const override { return bytes_->vocab_size(); }
  int32_t TokenId(std::string_view token) const override { return bytes_->TokenId(token); }

 private:
  std::unique_ptr<const Tokenizer> bytes_ = NewBytesTokenizer();
};

// Model "ranker": of each label the logit is how often its first letter comes after the 255, minus 1.
World::Models Ranker(const std::vector<std::string>& labels, bool multi_label = false) {
  return {{"ranker", [=] {
             ModelInfo info = FakeInfo(Head::kClassification, std::ssize(labels));
             info.labels = labels;
             info.multi_label = multi_label;
             const auto head = [labels](const std::vector<int32_t>& history) {
               const auto document = std::ranges::find(history, 255);
               std::vector<float> logits;
               for (const std::string& label : labels)
                 logits.push_back(static_cast<float>(std::count(document, history.end(), label[0])) - 1);
               return logits;
             };
             LoadedModel loaded = WithBytes(NewFake(info, head));
             loaded.tokenizer = std::make_unique<PairsOfBytes>();
             return loaded;
           }}};
}

v1::RerankRequest RequestOf(const std::string& query, const std::vector<std::string>& documents) {
  v1::RerankRequest request;
  request.set_query(query);
  for (const std::string& document : documents) request.add_documents(document);
  return request;
}

grpc::Status StatusOf(World& world, const v1::RerankRequest& request) {
  v1::RerankResponse response;
  return world.inference()->Rerank(NewContext().get(), request, &response);
}
v1::RerankResponse Reranked(World& world, const v1::RerankRequest& request) {
  v1::RerankResponse response;
  const grpc::Status status = world.inference()->Rerank(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}
std::vector<int> OrderOf(const v1::RerankResponse& response) {
  std::vector<int> order;
  for (const auto& result : response.results()) order.push_back(result.index());
  return order;
}

TEST(Rerank, PutsTheBestFirstAndEqualOnesAsTheyCame) {
  auto world = World::Ready(Ranker({"x"}));
  const v1::RerankResponse response = Reranked(*world, RequestOf("q", {"a", "xx", "xxx", "b", "x"}));
  EXPECT_THAT(OrderOf(response), ElementsAre(2, 1, 4, 0, 3));
  EXPECT_EQ(response.model(), "ranker");
  EXPECT_NEAR(response.results(0).value().score(), 1 / (1 + std::exp(-2.0)), 1e-6) << "a sigmoid";
  EXPECT_NEAR(response.results(4).value().score(), 1 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(response.results(0).value().usage().input_tokens(), 5);
}

TEST(Rerank, TellsOnlyTheBestWhereThatIsAsked) {
  auto world = World::Ready(Ranker({"x"}));
  v1::RerankRequest request = RequestOf("q", {"a", "xx", "xxx"});
  request.mutable_options()->set_top(2);
  EXPECT_THAT(OrderOf(Reranked(*world, request)), ElementsAre(2, 1));
  request.mutable_options()->set_top(100);
  EXPECT_THAT(OrderOf(Reranked(*world, request)), ElementsAre(2, 1, 0));
}

TEST(Rerank, GivesLogitsWhereTheyAreAsked) {
  auto world = World::Ready(Ranker({"x"}));
  v1::RerankRequest request = RequestOf("q", {"xxx", ""});
  request.set_documents(1, "a");
  request.mutable_options()->set_raw_scores(true);
  const v1::RerankResponse response = Reranked(*world, request);
  EXPECT_EQ(response.results(0).value().score(), 2);
  EXPECT_EQ(response.results(1).value().score(), -1);
}

TEST(Rerank, TakesTheLabelThatIsNamedWhereThereAreSeveral) {
  auto world = World::Ready(Ranker({"no", "yes"}));
  v1::RerankRequest request = RequestOf("q", {"ny", "yy", "nn"});
  ExpectTold(
      StatusOf(*world, request),
      {.reason = "INVALID_VALUE",
       .field = "options.label",
       .message = "it must name the label that says how relevant a document is; 'ranker' has 2: no, yes"});
  request.mutable_options()->set_label("yes");
  const v1::RerankResponse response = Reranked(*world, request);
  EXPECT_THAT(OrderOf(response), ElementsAre(1, 0, 2));
  EXPECT_NEAR(response.results(0).value().score(), 1 / (1 + std::exp(-2.0)), 1e-6) << "a softmax of -1 and 1";
  EXPECT_NEAR(response.results(1).value().score(), 0.5, 1e-6);
  request.mutable_options()->set_label("maybe");
  ExpectTold(StatusOf(*world, request), {.reason = "INVALID_VALUE",
                                         .field = "options.label",
                                         .message = "it is no label; 'ranker' has 2: no, yes"});
}

TEST(Rerank, LabelsThatDoNotExcludeEachOtherAreSigmoids) {
  auto world = World::Ready(Ranker({"no", "yes"}, /*multi_label=*/true));
  v1::RerankRequest request = RequestOf("q", {"yyn"});
  request.mutable_options()->set_label("yes");
  EXPECT_NEAR(Reranked(*world, request).results(0).value().score(), 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(Rerank, DocumentsWithoutAnAnswerComeLast) {
  auto world = World::Ready(Ranker({"x"}));
  v1::RerankRequest request = RequestOf("q", {"", "a", std::string(100, 'x'), "xx"});
  request.mutable_options()->set_top(1);
  const v1::RerankResponse response = Reranked(*world, request);
  EXPECT_THAT(OrderOf(response), ElementsAre(3, 0, 2)) << "top is of those that have a score";
  ExpectTold(response.results(1).error(), {.reason = "INPUT_EMPTY", .field = "documents[0]"});
  ExpectTold(response.results(2).error(), {.reason = "INPUT_TOO_LONG",
                                           .field = "documents[2]",
                                           .message = "102 tokens, 'ranker' reads at most 64"});
  request.mutable_text()->set_truncate(true);
  EXPECT_THAT(OrderOf(Reranked(*world, request)), ElementsAre(2, 0));
}

TEST(Rerank, RefusesWhatNoDocumentCouldMakeRight) {
  auto world = World::Ready(Ranker({"x"}), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_inputs(2);
    config.mutable_limits()->set_text_bytes(10);
  });
  ExpectTold(StatusOf(*world, RequestOf("q", {})),
             {.reason = "INPUT_EMPTY", .field = "documents", .message = "there are no documents"});
  ExpectTold(StatusOf(*world, RequestOf("q", {"a", "b", "c"})),
             {.reason = "TOO_MANY_INPUTS",
              .field = "documents",
              .message = "there are 3 documents, at most 2 are answered"});
  ExpectTold(StatusOf(*world, RequestOf(" ", {"a"})), {.reason = "INPUT_EMPTY", .field = "query"});
  ExpectTold(StatusOf(*world, RequestOf("eleven byte", {"a"})),
             {.reason = "TEXT_TOO_LARGE",
              .field = "query",
              .message = "the text has 11 bytes, at most 10 are read"});
  v1::RerankRequest request = RequestOf("q", {"a"});
  request.mutable_options()->set_top(-1);
  ExpectTold(StatusOf(*world, request), {.reason = "INVALID_VALUE",
                                         .field = "options.top",
                                         .message = "the value is -1, it must be at least 0"});
}

TEST(Rerank, IsForModelsThatClassifyPairs) {
  auto world = World::Ready(EveryModel());
  for (const char* model : {"reader", "writer", "embedder"}) {
    v1::RerankRequest request = RequestOf("q", {"a"});
    request.mutable_target()->set_model(model);
    ExpectTold(StatusOf(*world, request),
               {.reason = "RPC_UNSUPPORTED",
                .field = "target.model",
                .message = Cat("'", model, "' does not answer Rerank, it answers")});
  }
  EXPECT_THAT(DescriptionOf(*World::Ready(Ranker({"x"}))).rpcs(),
              testing::Contains("heed.v1.Inference.Rerank"));
}

// Whatever the order of the documents, and whoever is beside them.
TEST(Rerank, ScoresAreThoseThatClassifyGivesThePair) {
  Json config = SmallConfig("encoder", "classification");
  config["vocab_size"] = 256;
  config["num_labels"] = 1;
  auto world = World::Ready({{"reader", [config] {
                                return LoadedModel{.model = MakeRandomModel(config).model,
                                                   .tokenizer = std::make_unique<PairsOfBytes>()};
                              }}});
  const std::vector<std::string> documents = {"one", "another", "a third, longer than the others", "4"};
  v1::ClassifyRequest classify;
  classify.mutable_options()->set_raw_scores(true);
  for (const std::string& document : documents) {
    v1::Pair* pair = classify.add_inputs()->mutable_pair();
    pair->set_first("which?");
    pair->set_second(document);
  }
  v1::ClassifyResponse classes;
  ASSERT_TRUE(world->inference()->Classify(NewContext().get(), classify, &classes).ok());
  const v1::RerankResponse ranked = Reranked(*world, RequestOf("which?", documents));
  ASSERT_EQ(ranked.results_size(), 4);
  for (const auto& result : ranked.results()) {
    const double logit = classes.results(result.index()).value().labels(0).score();
    EXPECT_EQ(result.value().score(), static_cast<float>(1 / (1 + std::exp(-logit))));
  }
}

}  // namespace
}  // namespace heed
