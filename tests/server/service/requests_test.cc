// What is wrong with a request, and what it is told: section 2.2 of the failure catalogue
// (reference/serving.md), a row of the table for each case. After each of them the server answers a good
// request.
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kDenormal = std::numeric_limits<double>::denorm_min();

struct Case {
  std::string name;
  std::function<grpc::Status(World&)> call;
  grpc::StatusCode code;
  std::string message;  // a part of it
};

grpc::Status Classify(World& world, const std::function<void(v1::ClassifyRequest&)>& change) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("reader");
  change(request);
  v1::ClassifyResponse response;
  return world.inference()->Classify(NewContext().get(), request, &response);
}

grpc::Status Generate(World& world, const std::function<void(v1::GenerateRequest&)>& change) {
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 4);
  change(request);
  auto context = NewContext();
  auto stream = world.inference()->Generate(context.get(), request);
  for (v1::GenerateEvent event; stream->Read(&event);) {
  }
  return stream->Finish();
}

Case Text(std::string name, std::string text, grpc::StatusCode code, std::string message) {
  return {std::move(name),
          [text](World& world) {
            return Classify(world, [&](auto& request) { request.add_inputs()->set_text(text); });
          },
          code, std::move(message)};
}

Case Name(std::string name, std::string model, grpc::StatusCode code) {
  auto call = [model](World& world) {
    return Classify(world, [&](auto& request) {
      request.add_inputs()->set_text("fine");
      request.mutable_target()->set_model(model);
    });
  };
  return {std::move(name), call, code, "target.model: "};
}

Case Writing(std::string name, std::function<void(v1::GenerateRequest&)> change, std::string message) {
  return {std::move(name), [change](World& world) { return Generate(world, change); }, grpc::INVALID_ARGUMENT,
          std::move(message)};
}

// As Writing, with four beams and no sampling.
Case Beaming(std::string name, const std::function<void(v1::GenerateRequest&)>& change, std::string message) {
  const auto with_beams = [change](v1::GenerateRequest& request) {
    request.clear_sampling();
    request.mutable_beam()->set_width(4);
    change(request);
  };
  return Writing(std::move(name), with_beams, std::move(message));
}

void AddBeamCases(std::vector<Case>& cases) {
  cases.push_back(Beaming(
      "beams that sample", [](auto& r) { r.mutable_sampling()->set_temperature(0); },
      "sampling.temperature: it is not possible with beam search"));
  cases.push_back(
      Beaming("beams with a seed", [](auto& r) { r.mutable_sampling()->set_seed(1); }, "sampling.seed: "));
  cases.push_back(Beaming(
      "biased beams", [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[3] = 1; },
      "sampling.logit_bias: "));
  cases.push_back(
      Beaming("beams and samples", [](auto& r) { r.mutable_sampling()->set_samples(2); }, "samples: "));
  cases.push_back(Beaming(
      "beams with a stop string", [](auto& r) { r.mutable_stopping()->add_stop("x"); }, "stopping.stop: "));
  cases.push_back(Beaming(
      "beams with min_tokens", [](auto& r) { r.mutable_stopping()->set_min_tokens(1); },
      "stopping.min_tokens: "));
  cases.push_back(Beaming(
      "beams with alternatives", [](auto& r) { r.mutable_details()->set_top_logprobs(1); },
      "details.top_logprobs: "));
  cases.push_back(Writing(
      "a length penalty without beams", [](auto& r) { r.mutable_beam()->set_length_penalty(1); },
      "beam.length_penalty: without beam.width there is no beam search"));
}

void AddTextCases(std::vector<Case>& cases) {
  cases.push_back(
      Text("R1 empty text", "", grpc::INVALID_ARGUMENT, "inputs[0].text: the text is empty or white space"));
  cases.push_back(Text("R1 white space", " \t\r\n ", grpc::INVALID_ARGUMENT,
                       "inputs[0].text: the text is empty or white space"));
  cases.push_back(Text("R2 text over the byte limit", std::string(2001, 'x'), grpc::INVALID_ARGUMENT,
                       "the text has 2001 bytes, at most 2000"));
  cases.push_back(Text("R3 more tokens than the model reads", std::string(65, 'x'), grpc::INVALID_ARGUMENT,
                       "65 tokens, 'reader' reads at most 64"));
  cases.push_back(
      Text("invalid UTF-8", "\xff\xfe", grpc::INVALID_ARGUMENT, "inputs[0].text: the text is not UTF-8"));
  cases.push_back(Text("half a surrogate", "\xed\xa0\x80", grpc::INVALID_ARGUMENT, "not UTF-8"));
  cases.push_back({"no inputs", [](World& world) { return Classify(world, [](auto&) {}); },
                   grpc::INVALID_ARGUMENT, "inputs: there are no inputs"});
  cases.push_back({"too many inputs",
                   [](World& world) {
                     return Classify(world, [](auto& request) {
                       for (int i = 0; i < 101; ++i) request.add_inputs()->set_text("x");
                     });
                   },
                   grpc::INVALID_ARGUMENT, "there are 101 inputs, at most 100"});
  cases.push_back({"an input of no kind",
                   [](World& world) { return Classify(world, [](auto& request) { request.add_inputs(); }); },
                   grpc::INVALID_ARGUMENT, "inputs[0]: the input is empty"});
  cases.push_back({"a kind that the model does not read",
                   [](World& world) {
                     return Classify(world, [](auto& request) { request.add_inputs()->mutable_image(); });
                   },
                   grpc::INVALID_ARGUMENT,
                   "inputs[0].image: 'reader' does not read image, it reads text, tokens"});
}

void AddTokenCases(std::vector<Case>& cases) {
  auto tokens = [](std::string name, std::vector<int32_t> ids, std::string message) -> Case {
    auto call = [ids](World& world) {
      return Classify(world, [&](auto& request) {
        request.add_inputs()->mutable_tokens()->mutable_ids()->Add(ids.begin(), ids.end());
      });
    };
    return {std::move(name), call, grpc::INVALID_ARGUMENT, std::move(message)};
  };
  cases.push_back(tokens("R1 no tokens", {}, "the input has no tokens"));
  cases.push_back(tokens("R11 a negative id", {1, -1}, "ids[1] is -1, ids are 0 to 255"));
  cases.push_back(tokens("R11 an id beyond the vocabulary", {256}, "ids[0] is 256, ids are 0 to 255"));
  cases.push_back(
      tokens("R11 the largest id", {1, 2, std::numeric_limits<int32_t>::max()}, "ids[2] is 2147483647"));
  cases.push_back(tokens("R11 very many ids", std::vector<int32_t>(1'000'000, 1),
                         "1000000 tokens, 'reader' reads at most 64"));
}

void AddNameCases(std::vector<Case>& cases) {
  cases.push_back(Name("R12 unknown model", "nobody", grpc::NOT_FOUND));
  cases.push_back(Name("R12 no name, several models", "", grpc::INVALID_ARGUMENT));
  const std::vector<std::string> bad = {std::string(10'000, 'a'),
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
  for (size_t i = 0; i < bad.size(); ++i)
    cases.push_back(Name(Cat("R12 bad name ", i), bad[i], grpc::INVALID_ARGUMENT));
  cases.push_back({"R12 unknown version",
                   [](World& world) {
                     return Classify(world, [](auto& request) {
                       request.add_inputs()->set_text("fine");
                       request.mutable_target()->set_version("7");
                     });
                   },
                   grpc::NOT_FOUND, "model 'reader' has no version '7', it is served as '1'"});
  cases.push_back({"a model that does not answer the RPC",
                   [](World& world) {
                     return Classify(world, [](auto& request) {
                       request.add_inputs()->set_text("fine");
                       request.mutable_target()->set_model("writer");
                     });
                   },
                   grpc::INVALID_ARGUMENT, "'writer' does not answer Classify, it answers Score, Generate"});
  cases.push_back({"priority out of range",
                   [](World& world) {
                     return Classify(world, [](auto& request) {
                       request.add_inputs()->set_text("fine");
                       request.mutable_target()->set_priority(11);
                     });
                   },
                   grpc::INVALID_ARGUMENT, "target.priority: the value is 11, it must be -10 to 10"});
}

void AddLengthCases(std::vector<Case>& cases) {
  cases.push_back(Writing(
      "R4 prompt and text beyond the model's length",
      [](auto& r) { r.mutable_stopping()->set_max_tokens(62); },
      "the prompt has 3 tokens and max_tokens is 62, together at most 64"));
  cases.push_back(Writing(
      "R4 a prompt that leaves no room",
      [](auto& r) {
        r.mutable_inputs(0)->set_text(std::string(64, 'x'));
        r.mutable_stopping()->clear_max_tokens();
      },
      "the prompt has 64 tokens"));
  for (int32_t max_tokens : {0, -1, std::numeric_limits<int32_t>::min()}) {
    cases.push_back(Writing(
        Cat("R5 max_tokens ", max_tokens), [=](auto& r) { r.mutable_stopping()->set_max_tokens(max_tokens); },
        "stopping.max_tokens: "));
  }
  cases.push_back(Writing(
      "R5 max_tokens 2^31-1",
      [](auto& r) { r.mutable_stopping()->set_max_tokens(std::numeric_limits<int32_t>::max()); },
      "stopping.max_tokens: the value is 2147483647"));
  cases.push_back(Writing(
      "R5 min_tokens beyond max_tokens", [](auto& r) { r.mutable_stopping()->set_min_tokens(5); },
      "stopping.min_tokens: "));
  cases.push_back(Writing(
      "R5 min_tokens negative", [](auto& r) { r.mutable_stopping()->set_min_tokens(-1); },
      "stopping.min_tokens: "));
}

// Every float field with every value that it must refuse.
void AddFloatCases(std::vector<Case>& cases) {
  struct Field {
    std::string name;
    void (v1::SamplingOptions::*set)(double);
    std::vector<double> bad;
  };
  const std::vector<double> never = {kNan, kInfinity, -kInfinity, -0.0, kDenormal, -kDenormal, 1e308, -1e308};
  const std::vector<Field> fields = {
      {"temperature", &v1::SamplingOptions::set_temperature, {-1, 100.5}},
      {"top_p", &v1::SamplingOptions::set_top_p, {-0.1, 1.0001}},
      {"min_p", &v1::SamplingOptions::set_min_p, {-0.1, 1.0001}},
      {"typical_p", &v1::SamplingOptions::set_typical_p, {-0.1, 0, 1.0001}},
      {"repetition_penalty", &v1::SamplingOptions::set_repetition_penalty, {-1, 0, 10.5}},
      {"presence_penalty", &v1::SamplingOptions::set_presence_penalty, {-2.1, 2.1}},
      {"frequency_penalty", &v1::SamplingOptions::set_frequency_penalty, {-2.1, 2.1}},
  };
  for (Field field : fields) {
    field.bad.insert(field.bad.end(), never.begin(), never.end());
    for (double value : field.bad) {
      cases.push_back(Writing(
          Cat("R6 ", field.name, " ", value), [=](auto& r) { (r.mutable_sampling()->*field.set)(value); },
          field.name));
    }
  }
  for (float bias :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 100.5f, -100.5f}) {
    cases.push_back(Writing(
        Cat("R6 logit_bias ", bias),
        [=](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[3] = bias; }, "logit_bias"));
  }
  cases.push_back({"R6 threshold NaN",
                   [](World& world) {
                     return Classify(world, [](auto& request) {
                       request.add_inputs()->set_text("fine");
                       request.mutable_options()->set_threshold(kNan);
                     });
                   },
                   grpc::INVALID_ARGUMENT, "threshold"});
}

void AddCountCases(std::vector<Case>& cases) {
  for (int32_t top_k : {0, -1, 257, std::numeric_limits<int32_t>::max()}) {
    cases.push_back(Writing(
        Cat("R7 top_k ", top_k), [=](auto& r) { r.mutable_sampling()->set_top_k(top_k); },
        "sampling.top_k: "));
  }
  for (int32_t width : {-1, 17, 1'000'000'000}) {
    cases.push_back(Beaming(
        Cat("R7 beam width ", width), [=](auto& r) { r.mutable_beam()->set_width(width); }, "beam.width: "));
  }
  for (int32_t results : {-1, 5}) {
    cases.push_back(Beaming(
        Cat("R7 beam results ", results), [=](auto& r) { r.mutable_beam()->set_results(results); },
        "beam.results: "));
  }
  for (double penalty : {-11.0, 1e9, kNan, kInfinity}) {
    cases.push_back(Beaming(
        Cat("R6 length_penalty ", penalty), [=](auto& r) { r.mutable_beam()->set_length_penalty(penalty); },
        "beam.length_penalty: "));
  }
  for (int32_t samples : {-1, 17, 1'000'000'000}) {
    cases.push_back(Writing(
        Cat("R7 samples ", samples), [=](auto& r) { r.mutable_sampling()->set_samples(samples); },
        "samples: "));
  }
  cases.push_back(Writing(
      "R8 very many stop strings",
      [](auto& r) {
        for (int i = 0; i < 10'000; ++i) r.mutable_stopping()->add_stop("x");
      },
      "stop"));
  cases.push_back(
      Writing("R8 an empty stop string", [](auto& r) { r.mutable_stopping()->add_stop(""); }, "stop"));
  cases.push_back(Writing(
      "R8 a long stop string", [](auto& r) { r.mutable_stopping()->add_stop(std::string(1 << 20, 'x')); },
      "stop"));
  for (int32_t id : {-1, 256}) {
    cases.push_back(Writing(
        Cat("R8 stop token ", id), [=](auto& r) { r.mutable_stopping()->add_stop_tokens(id); }, "stop"));
    cases.push_back(Writing(
        Cat("R8 biased token ", id), [=](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[id] = 1; },
        "logit_bias"));
  }
  cases.push_back(Writing(
      "R8 very many biases",
      [](auto& r) {
        for (int i = 0; i < 1025; ++i) (*r.mutable_sampling()->mutable_logit_bias())[i] = 1;
      },
      "logit_bias"));
  for (int32_t top : {-1, 21, 256}) {
    cases.push_back(Writing(
        Cat("R9 top_logprobs ", top), [=](auto& r) { r.mutable_details()->set_top_logprobs(top); },
        "top_logprobs"));
  }
}

void AddGoodCases(std::vector<Case>& cases) {
  for (uint64_t seed : {uint64_t{0}, std::numeric_limits<uint64_t>::max()}) {
    cases.push_back({Cat("R10 seed ", seed),
                     [=](World& world) {
                       return Generate(world, [=](auto& r) { r.mutable_sampling()->set_seed(seed); });
                     },
                     grpc::OK, ""});
  }
  cases.push_back(Text("R16 combining marks", "a\u0301\u0301\u0301\u0301", grpc::OK, ""));
  cases.push_back(Text("NUL bytes", std::string("a\0b", 3), grpc::OK, ""));
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  AddTextCases(cases);
  AddBeamCases(cases);
  AddTokenCases(cases);
  AddNameCases(cases);
  AddLengthCases(cases);
  AddFloatCases(cases);
  AddCountCases(cases);
  AddGoodCases(cases);
  return cases;
}

TEST(Requests, AreToldWhatIsWrongWithThem) {
  auto world = World::Ready({{"reader", [] { return WithBytes(NewFakeClassifier()); }},
                             {"writer", [] { return WithBytes(NewFakeWriter()); }}},
                            [](config::v1::ServerConfig& config) {
                              config.mutable_limits()->set_text_bytes(2000);
                              config.mutable_limits()->set_inputs(100);
                            });
  for (const Case& wrong : AllCases()) {
    const grpc::Status status = wrong.call(*world);
    EXPECT_EQ(status.error_code(), wrong.code) << wrong.name << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(wrong.message)) << wrong.name;
    EXPECT_LT(status.error_message().size(), 400u) << wrong.name;
    ASSERT_TRUE(Classify(*world, [](auto& request) { request.add_inputs()->set_text("fine"); }).ok())
        << "after " << wrong.name;
  }
}

TEST(Requests, WithTheSameSeedHaveTheSameText) {  // R10
  auto world = World::Ready({{"writer", [] {
                                auto model = NewFakeWriter();
                                model->head = [](const std::vector<int32_t>&) {
                                  return std::vector<float>(256);
                                };  // every token as likely
                                return WithBytes(std::move(model));
                              }}});
  auto tokens = [&] {
    v1::GenerateRequest request = GreedyRequest("writer", "abc", 32);
    request.mutable_sampling()->set_temperature(1);
    request.mutable_sampling()->set_seed(std::numeric_limits<uint64_t>::max());
    request.mutable_details()->set_tokens(true);
    auto context = NewContext();
    auto stream = world->inference()->Generate(context.get(), request);
    std::vector<int32_t> all;
    for (v1::GenerateEvent event; stream->Read(&event);)
      all.insert(all.end(), event.piece().tokens().begin(), event.piece().tokens().end());
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return all;
  };
  const std::vector<int32_t> first = tokens();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(tokens(), first);
}

TEST(Requests, ForAModelThatLoadsAreToldWhenToComeAgain) {  // R13
  std::promise<void> go;
  World world({{"m", [&] {
                  go.get_future().wait();
                  return WithBytes(NewFakeClassifier());
                }}});
  std::jthread loading([&] { EXPECT_TRUE(world.server().Load().ok()); });
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("fine");
  v1::ClassifyResponse response;
  auto context = NewContext();
  EXPECT_EQ(world.inference()->Classify(context.get(), request, &response).error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(context->GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  v1::ListModelsResponse list;
  ASSERT_TRUE(world.models()->ListModels(NewContext().get(), {}, &list).ok());
  EXPECT_EQ(list.models(0).state(), v1::MODEL_STATE_LOADING);
  go.set_value();
  loading.join();
  EXPECT_TRUE(world.inference()->Classify(NewContext().get(), request, &response).ok());
}

TEST(Requests, ForAModelThatFailedToLoadAreRefused) {  // R13
  World world({{"m", [] { return absl::InvalidArgumentError("broken"); }}},
              [](config::v1::ServerConfig& config) { config.set_strict(false); });
  ASSERT_TRUE(world.server().Load().ok());
  const grpc::Status status = Classify(world, [](auto& request) {
    request.mutable_target()->set_model("m");
    request.add_inputs()->set_text("fine");
  });
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION) << status.error_message();
}

TEST(Requests, WhoseModelGivesNanFailAlone) {  // R15
  auto world = World::Ready({{"reader", [] {
                                auto model = NewFakeClassifier();
                                model->head = [](const std::vector<int32_t>& history) {
                                  return std::vector<float>{
                                      history[0] == 'n' ? std::numeric_limits<float>::quiet_NaN() : 1, 0};
                                };
                                return WithBytes(std::move(model));
                              }}});
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("good");
  request.add_inputs()->set_text("nan");
  v1::ClassifyResponse response;
  ASSERT_TRUE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  EXPECT_TRUE(response.results(0).has_value());
  EXPECT_EQ(response.results(1).error().code(), grpc::INTERNAL);
}

}  // namespace
}  // namespace heed
