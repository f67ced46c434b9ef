// The RPCs of heed.v1.Inference and heed.v1.Models, answered over a socket.
#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/service/world.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// Makes models with random weights, of every head.
std::function<absl::StatusOr<LoadedModel>()> RandomMaker(const std::string& architecture,
                                                         const std::string& head,
                                                         const std::string& attention = "full") {
  return [architecture, head, attention] {
    Json config = SmallConfig(architecture, head, {{"type", attention}});
    config["vocab_size"] = 256;
    if (head == "embedding") config["head"] = "none", config["pooling"] = "mean";
    return WithBytes(MakeRandomModel(config).model);
  };
}

TEST(Inference, ClassifiesWithProbabilitiesThatSumToOne) {
  auto world = World::Ready({{"m", RandomMaker("encoder", "classification")}});
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("A fine film.");
  v1::ClassifyResponse response;
  const grpc::Status status = world->inference()->Classify(NewContext().get(), request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.model(), "m");
  EXPECT_EQ(response.version(), "1");
  ASSERT_EQ(response.results_size(), 1);
  double sum = 0;
  for (const auto& label : response.results(0).value().labels()) sum += label.score();
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(response.results(0).value().usage().input_tokens(), 12);
}

TEST(Inference, ClassifiesTokensWithSpansOfTheText) {
  auto world = World::Ready({{"m", RandomMaker("encoder", "token_classification")}});
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("abc");
  request.mutable_options()->set_all_tokens(true);
  v1::ClassifyResponse response;
  ASSERT_TRUE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  const auto& spans = response.results(0).value().spans();
  ASSERT_EQ(spans.size(), 3);
  EXPECT_EQ(spans[1].begin(), 1);
  EXPECT_EQ(spans[1].end(), 2);
}

TEST(Inference, EmbedsToLengthOneWhenAsked) {
  auto world = World::Ready({{"m", RandomMaker("encoder", "embedding")}});
  v1::EmbedRequest request;
  request.add_inputs()->set_text("abc");
  request.mutable_options()->set_normalize(v1::EmbedOptions::NORMALIZE_YES);
  v1::EmbedResponse response;
  ASSERT_TRUE(world->inference()->Embed(NewContext().get(), request, &response).ok());
  double norm = 0;
  for (float x : response.results(0).value().vector()) norm += x * x;
  EXPECT_NEAR(norm, 1, 1e-5);
}

TEST(Inference, ScoresAContinuationAsTheSumOfItsTokens) {
  auto world = World::Ready({{"m", RandomMaker("decoder", "lm")}});
  v1::ScoreRequest request;
  auto* item = request.add_inputs();
  item->mutable_context()->set_text("To be or ");
  item->mutable_continuation()->set_text("not");
  request.mutable_options()->set_logprobs(true);
  request.mutable_options()->set_top_logprobs(2);
  v1::ScoreResponse response;
  const grpc::Status status = world->inference()->Score(NewContext().get(), request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::Scored& scored = response.results(0).value();
  ASSERT_EQ(scored.logprobs_size(), 3);
  EXPECT_EQ(scored.scored_tokens(), 3);
  double sum = 0;
  for (const auto& token : scored.logprobs()) sum += token.logprob();
  EXPECT_NEAR(scored.logprob(), sum, 1e-4);
  EXPECT_EQ(scored.logprobs(0).text(), "n");
  EXPECT_EQ(scored.logprobs(0).top_size(), 2);
}

TEST(Inference, FillsPositions) {
  auto world = World::Ready({{"m", RandomMaker("encoder", "lm")}});
  v1::FillRequest request;
  request.add_inputs()->set_text("abcdef");
  request.mutable_options()->set_top(3);
  request.mutable_options()->add_positions(2);
  v1::FillResponse response;
  const grpc::Status status = world->inference()->Fill(NewContext().get(), request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results(0).value().positions_size(), 1);
  const auto& position = response.results(0).value().positions(0);
  EXPECT_EQ(position.position(), 2);
  ASSERT_EQ(position.tokens_size(), 3);
  EXPECT_GE(position.tokens(0).logprob(), position.tokens(1).logprob());
}

TEST(Inference, OneBadInputDoesNotSinkTheOthers) {
  auto world = World::Ready({{"m", [] { return WithBytes(NewFakeClassifier()); }}});
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("even");
  request.add_inputs()->set_text(std::string(100, 'x'));
  request.add_inputs()->set_text("odd");
  v1::ClassifyResponse response;
  ASSERT_TRUE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_EQ(response.results(0).value().labels(0).label(), "yes");
  EXPECT_EQ(response.results(2).value().labels(0).label(), "no");
  const v1::Error& error = response.results(1).error();
  EXPECT_EQ(error.code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(error.field(), "inputs[1].text");
  EXPECT_EQ(error.message(), "the input has 100 tokens, 'm' reads at most 64");
}

TEST(Inference, ARequestOfMoreInputsThanTheQueueHoldsIsAnswered) {
  auto world =
      World::Ready({{"m", [] { return WithBytes(NewFakeClassifier()); }}},
                   [](config::v1::ServerConfig& config) { config.mutable_scheduling()->set_max_queued(8); });
  v1::ClassifyRequest request;
  for (int i = 0; i < 500; ++i) request.add_inputs()->set_text(std::string(1 + i % 60, 'x'));
  v1::ClassifyResponse response;
  ASSERT_TRUE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  ASSERT_EQ(response.results_size(), 500);
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(response.results(i).value().labels(0).label(), (1 + i % 60) % 2 == 0 ? "yes" : "no");
  }
}

TEST(Inference, TruncatesWhenAsked) {
  auto world = World::Ready({{"m", [] { return WithBytes(NewFakeClassifier()); }}});
  v1::ClassifyRequest request;
  request.add_inputs()->set_text(std::string(1000, 'x'));
  request.add_inputs();
  for (int i = 0; i < 1000; ++i) request.mutable_inputs(1)->mutable_tokens()->add_ids(7);
  request.mutable_text()->set_truncate(true);
  v1::ClassifyResponse response;
  ASSERT_TRUE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  EXPECT_EQ(response.results(0).value().usage().input_tokens(), 64);
  EXPECT_EQ(response.results(1).value().usage().input_tokens(), 64);
}

TEST(Models, AreListedAndDescribed) {
  auto world = World::Ready(
      {{"a", RandomMaker("decoder", "lm")}, {"b", [] { return WithBytes(NewFakeClassifier()); }}});
  v1::ListModelsResponse list;
  ASSERT_TRUE(world->models()->ListModels(NewContext().get(), {}, &list).ok());
  ASSERT_EQ(list.models_size(), 2);
  EXPECT_EQ(list.models(0).model(), "a");
  EXPECT_EQ(list.models(0).state(), v1::MODEL_STATE_READY);
  v1::DescribeModelRequest request;
  request.set_model("a");
  v1::ModelDescription description;
  ASSERT_TRUE(world->models()->DescribeModel(NewContext().get(), request, &description).ok());
  EXPECT_EQ(description.architecture(), v1::ARCHITECTURE_DECODER);
  EXPECT_EQ(description.head(), v1::HEAD_LANGUAGE_MODEL);
  EXPECT_EQ(description.decode_class(), v1::DECODE_CLASS_EXACT);
  EXPECT_EQ(std::vector<std::string>(description.rpcs().begin(), description.rpcs().end()),
            (std::vector<std::string>{"heed.v1.Inference.Score", "heed.v1.Inference.Generate",
                                      "heed.v1.Inference.Tokenize", "heed.v1.Inference.Detokenize"}));
  EXPECT_EQ(description.inputs(0), v1::INPUT_KIND_TEXT);
  EXPECT_EQ(description.description(), "A model of a test.");
  ASSERT_GE(description.costs_size(), 2);
  EXPECT_GT(description.costs(0).state_bytes(), 0);
  EXPECT_LT(description.costs(0).multiply_adds(), description.costs(1).multiply_adds());
}

TEST(Models, ThatFailToLoadAreListedWithTheReason) {
  World world({{"bad", [] { return absl::InvalidArgumentError("config.json: hidden_size is -1"); }},
               {"good", [] { return WithBytes(NewFakeClassifier()); }}},
              [](config::v1::ServerConfig& config) { config.set_strict(false); });
  ASSERT_TRUE(world.server().Load().ok());
  v1::ListModelsResponse list;
  ASSERT_TRUE(world.models()->ListModels(NewContext().get(), {}, &list).ok());
  EXPECT_EQ(list.models(0).state(), v1::MODEL_STATE_FAILED);
  EXPECT_EQ(list.models(0).error().message(), "config.json: hidden_size is -1");
  EXPECT_EQ(list.models(1).state(), v1::MODEL_STATE_READY);
}

TEST(Models, ThatFailToLoadEndAStrictStart) {
  World world({{"bad", [] { return absl::InvalidArgumentError("config.json: hidden_size is -1"); }}});
  EXPECT_EQ(world.server().Load(), absl::InvalidArgumentError("model 'bad': config.json: hidden_size is -1"));
}

TEST(Models, WhoseTokenizerHasMoreTokensThanTheyAreRefused) {
  World world({{"m", [] {
                  auto model = NewFakeClassifier();
                  ModelInfo info = model->info();
                  info.vocab_size = 100;
                  model->set_info(info);
                  return WithBytes(std::move(model));
                }}});
  EXPECT_EQ(
      world.server().Load(),
      absl::InvalidArgumentError("model 'm': the tokenizer has 256 tokens, the model's vocab_size is 100"));
}

TEST(Inference, AnEncoderDecoderReadsItsInputAsTheSource) {
  auto world = World::Ready({{"m", RandomMaker("encoder-decoder", "lm")}});
  auto context = NewContext();
  v1::GenerateRequest request = GreedyRequest("m", "a source", 6);
  request.mutable_details()->set_tokens(true);
  request.mutable_details()->set_logprobs(true);
  auto stream = world->inference()->Generate(context.get(), request);
  std::vector<int32_t> tokens;
  double logprob = 0;
  for (v1::GenerateEvent event; stream->Read(&event);) {
    if (event.has_started()) {
      EXPECT_EQ(event.started().input_tokens(), 8);
    }
    for (const auto& token : event.piece().logprobs()) logprob += token.logprob();
    tokens.insert(tokens.end(), event.piece().tokens().begin(), event.piece().tokens().end());
  }
  ASSERT_TRUE(stream->Finish().ok());
  ASSERT_EQ(tokens.size(), 6u);

  v1::ScoreRequest score;
  auto* item = score.add_inputs();
  item->mutable_context()->set_text("a source");
  item->mutable_continuation()->mutable_tokens()->mutable_ids()->Add(tokens.begin(), tokens.end());
  v1::ScoreResponse response;
  ASSERT_TRUE(world->inference()->Score(NewContext().get(), score, &response).ok());
  EXPECT_NEAR(response.results(0).value().logprob(), logprob, 1e-3);
  EXPECT_EQ(response.results(0).value().scored_tokens(), 6);
  EXPECT_EQ(response.results(0).value().usage().input_tokens(), 14);

  item->clear_context();
  const grpc::Status status = world->inference()->Score(NewContext().get(), score, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("inputs[0].context"), std::string::npos) << status.error_message();
}

TEST(Models, DescribeTellsOfAnEncoderDecoderWhatItReadsAndHowItBegins) {
  auto world = World::Ready({{"m", RandomMaker("encoder-decoder", "lm")}});
  v1::DescribeModelRequest request;
  v1::ModelDescription description;
  ASSERT_TRUE(world->models()->DescribeModel(NewContext().get(), request, &description).ok());
  EXPECT_EQ(description.architecture(), v1::ARCHITECTURE_ENCODER_DECODER);
  EXPECT_EQ(description.special_tokens().decoder_start_token_id(), 1);
  EXPECT_EQ(description.max_source_tokens(), 0);
  EXPECT_EQ(description.layers(), 4);
  ASSERT_GE(description.rpcs_size(), 2);
  EXPECT_EQ(description.rpcs(1), "heed.v1.Inference.Generate");
  // A page of keys and values a layer, of the target and of the source.
  EXPECT_GT(description.costs(0).state_bytes(), 2 * 2 * 128 * 2 * 32 * 4);
}

TEST(Inference, WhatIsAskedAndHasNoEffectIsRefused) {
  auto world = World::Ready({{"whole", RandomMaker("encoder", "classification")},
                             {"tokens", RandomMaker("encoder", "token_classification")}});
  auto classify = [&](const std::string& model, const std::function<void(v1::ClassifyOptions&)>& change) {
    v1::ClassifyRequest request;
    request.mutable_target()->set_model(model);
    request.add_inputs()->set_text("abc");
    change(*request.mutable_options());
    v1::ClassifyResponse response;
    return world->inference()->Classify(NewContext().get(), request, &response).error_message();
  };
  EXPECT_EQ(classify("whole", [](auto& options) { options.set_top(1); }), "");
  EXPECT_EQ(classify("whole", [](auto& options) { options.set_all_tokens(true); }),
            "options.all_tokens: the model classifies whole inputs, not their tokens");
  EXPECT_EQ(classify("tokens", [](auto& options) { options.set_all_tokens(true); }), "");
  EXPECT_EQ(classify("tokens", [](auto& options) { options.set_top(1); }),
            "options.top: the value is 1, and the model's spans have one label each");
}

TEST(Models, AreDescribedWhileTheyLoadAndAfterTheyFailed) {
  std::promise<void> go;
  World world({{"a", [] { return absl::InvalidArgumentError("config.json: hidden_size is -1"); }},
               {"b",
                [&] {
                  go.get_future().wait();
                  return WithBytes(NewFakeClassifier());
                }}},
              [](config::v1::ServerConfig& config) { config.set_strict(false); });
  EXPECT_EQ(DescriptionOf(world, "b").state(), v1::MODEL_STATE_LOADING);
  std::jthread loading([&] { EXPECT_TRUE(world.server().Load().ok()); });
  EXPECT_TRUE(Eventually([&] { return DescriptionOf(world, "a").state() == v1::MODEL_STATE_FAILED; }));
  const v1::ModelDescription failed = DescriptionOf(world, "a");
  EXPECT_EQ(failed.model(), "a");
  EXPECT_EQ(failed.version(), "1");
  EXPECT_EQ(failed.error().message(), "config.json: hidden_size is -1");
  EXPECT_EQ(failed.rpcs_size(), 0);
  go.set_value();
  loading.join();
  EXPECT_EQ(DescriptionOf(world, "b").state(), v1::MODEL_STATE_READY);
  v1::DescribeModelRequest request;
  request.set_model("c");
  v1::ModelDescription description;
  EXPECT_EQ(world.models()->DescribeModel(NewContext().get(), request, &description).error_code(),
            grpc::NOT_FOUND);
}

// A Generate that says all that the description calls default is the same as one that says nothing.
TEST(Models, DescribeTellsTheDefaultsThatGenerateUses) {
  auto world = World::Ready({{"m", RandomMaker("decoder", "lm")}});
  const v1::ModelDescription description = DescriptionOf(*world);
  v1::SamplingOptions sampling = description.default_sampling();
  const auto* fields = v1::SamplingOptions::descriptor();
  int held = 0;
  for (int i = 0; i < fields->field_count(); ++i) {
    if (fields->field(i)->is_repeated() || fields->field(i)->name() == "seed") continue;
    EXPECT_TRUE(sampling.GetReflection()->HasField(sampling, fields->field(i))) << fields->field(i)->name();
    ++held;
  }
  EXPECT_GT(held, 0);
  auto text = [&](const v1::SamplingOptions& options, const v1::StoppingOptions& stopping) {
    v1::GenerateRequest request;
    request.add_inputs()->set_text("abc");
    *request.mutable_sampling() = options;
    request.mutable_sampling()->set_seed(5);
    *request.mutable_stopping() = stopping;
    auto context = NewContext();
    auto stream = world->inference()->Generate(context.get(), request);
    std::string all;
    for (v1::GenerateEvent event; stream->Read(&event);) {
      all += event.piece().text();
      if (event.has_finished()) all += Cat(event.finished().usage().output_tokens());
    }
    EXPECT_TRUE(stream->Finish().ok());
    return all;
  };
  const std::string said = text({}, {});
  EXPECT_EQ(text(sampling, description.default_stopping()), said);
  EXPECT_EQ(description.default_stopping().max_tokens(), 256);
}

TEST(Models, DescribeTellsHowMemoryGrows) {
  auto world = World::Ready(
      {{"full", RandomMaker("decoder", "lm")},
       {"linear", RandomMaker("decoder", "lm", "linear")},
       {"both", RandomMaker("encoder-decoder", "lm")},
       {"vectors", RandomMaker("encoder", "embedding")}},
      [](config::v1::ServerConfig& config) { config.mutable_scheduling()->set_state_bytes(77'000'000); });
  EXPECT_EQ(DescriptionOf(*world, "linear").state_bytes_per_token(), 0);
  const auto full = DescriptionOf(*world, "full");
  EXPECT_GT(full.state_bytes_per_token(), 0);
  EXPECT_EQ(full.state_limit_bytes(), 77'000'000);
  EXPECT_EQ(full.embedding_size(), 0);
  // Keys and values of the decoder's own layers: the source is there from the start.
  EXPECT_EQ(DescriptionOf(*world, "both").state_bytes_per_token(), full.state_bytes_per_token());
  EXPECT_EQ(DescriptionOf(*world, "vectors").embedding_size(), DescriptionOf(*world, "vectors").width());
}

TEST(Models, ShippedOnesAreDescribedInFull) {
  auto world = World::Ready({}, [](config::v1::ServerConfig& config) {
    config.set_models_folder(std::string(HEED_SOURCE_DIR) + "/models");
  });
  v1::ListModelsResponse list;
  ASSERT_TRUE(world->models()->ListModels(NewContext().get(), {}, &list).ok());
  ASSERT_GT(list.models_size(), 0);
  for (const auto& model : list.models()) {
    const v1::ModelDescription description = DescriptionOf(*world, model.model());
    EXPECT_EQ(description.state(), v1::MODEL_STATE_READY);
    EXPECT_FALSE(description.description().empty()) << model.model();
    ASSERT_GE(description.weights_files_size(), 1) << model.model();
    EXPECT_EQ(description.weights_files(0).sha256().size(), 64u);
    EXPECT_GE(description.rpcs_size(), 1) << model.model();
    EXPECT_GE(description.state_limit_bytes(), 64 << 20);
    EXPECT_GE(description.state_bytes_per_token(), 0);
    EXPECT_EQ(
        description.has_default_sampling(),
        std::ranges::find(description.rpcs(), "heed.v1.Inference.Generate") != description.rpcs().end());
  }
}

TEST(ServerService, DescribesTheServer) {
  auto world = World::Ready({{"m", [] { return WithBytes(NewFakeClassifier()); }}},
                            [](config::v1::ServerConfig& config) {
                              config.mutable_limits()->set_inputs(77);
                              config.mutable_transport()->set_send_bytes(7777);
                            });
  v1::ServerDescription server;
  const grpc::Status status =
      v1::Server::NewStub(world->channel())->DescribeServer(NewContext().get(), {}, &server);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(std::ranges::count(server.version(), '.'), 2);
  EXPECT_NE(server.build().compiler().find(__VERSION__), std::string::npos);
  EXPECT_NE(server.build().libraries().find("gRPC 1."), std::string::npos);
  EXPECT_NE(server.build().libraries().find("oneDNN 3."), std::string::npos);
  EXPECT_FALSE(server.build().isa().empty());
  EXPECT_EQ(server.build().threads(), 1);
  EXPECT_GT(server.started().seconds(), 1'700'000'000);
  EXPECT_EQ(server.limits().inputs(), 77);
  EXPECT_EQ(server.limits().send_bytes(), 7777);
  const auto* limits = v1::ServerLimits::descriptor();
  for (int i = 0; i < limits->field_count(); ++i) {
    EXPECT_TRUE(server.limits().GetReflection()->HasField(server.limits(), limits->field(i)))
        << limits->field(i)->name();
  }
  EXPECT_EQ(std::vector<std::string>(server.features().begin(), server.features().end()),
            (std::vector<std::string>{"reflection", "attention_weights", "beam_search", "error_details",
                                      "request_id"}));
  ASSERT_EQ(server.models_size(), 1);
  EXPECT_EQ(server.models(0).state(), v1::MODEL_STATE_READY);
}

}  // namespace
}  // namespace heed
