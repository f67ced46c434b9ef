// What is wrong with a request's options, and what it is told: rows R4 to R10 of the failure catalogue
// (reference/serving.md 2.2). After each of them the server answers a good request.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kDenormal = std::numeric_limits<double>::denorm_min();
constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();
constexpr int32_t kSmallest = std::numeric_limits<int32_t>::min();

struct Case {
  std::string name;
  std::function<Outcome(World&)> ask;
  Refusal refusal;
};

// A request that would be answered, but for what `change` does to it.
template <typename Request>
Case Changed(std::string name, const std::function<void(Request&)>& change, Refusal refusal) {
  auto ask = [change](World& world) {
    auto request = Good<Request>();
    AddInput(Text("abc"), &request);
    change(request);
    return Ask(world, request);
  };
  return {std::move(name), ask, std::move(refusal)};
}

Case Writing(std::string name, const std::function<void(v1::GenerateRequest&)>& change, std::string field,
             std::string message = "", std::string reason = "INVALID_VALUE") {
  return Changed<v1::GenerateRequest>(
      std::move(name), change,
      {.reason = std::move(reason), .field = std::move(field), .message = std::move(message)});
}

// As Writing, with four beams.
Case Beaming(std::string name, const std::function<void(v1::GenerateRequest&)>& change, std::string field,
             std::string message = "") {
  const auto with_beams = [change](v1::GenerateRequest& request) {
    request.mutable_beam()->set_width(4);
    change(request);
  };
  return Writing(std::move(name), with_beams, std::move(field), std::move(message));
}

void ExpectAllTold(const std::vector<Case>& cases) {
  auto world = World::Ready(EveryModel());
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.name);
    ExpectTold(wrong.ask(*world).status, wrong.refusal);
    ExpectServes(*world);
  }
}

TEST(Options, OfLengthMustFitTheModel) {  // R4, R5
  std::vector<Case> cases = {
      Writing(
          "R4 prompt and text beyond the model's length",
          [](auto& r) { r.mutable_stopping()->set_max_tokens(62); }, "inputs[0]",
          "the prompt has 3 tokens and max_tokens is 62, together at most 64", "INPUT_TOO_LONG"),
      Writing(
          "R4 a prompt that leaves no room",
          [](auto& r) {
            r.mutable_inputs(0)->set_text(std::string(64, 'x'));
            r.mutable_stopping()->clear_max_tokens();
          },
          "inputs[0]", "the prompt has 64 tokens", "INPUT_TOO_LONG"),
      Writing(
          "R5 max_tokens beyond any model", [](auto& r) { r.mutable_stopping()->set_max_tokens(kLargest); },
          "stopping.max_tokens", "the value is 2147483647, it must be 1 to 65536"),
      Writing(
          "R5 min_tokens beyond max_tokens", [](auto& r) { r.mutable_stopping()->set_min_tokens(5); },
          "stopping.min_tokens"),
      Writing(
          "R5 min_tokens negative", [](auto& r) { r.mutable_stopping()->set_min_tokens(-1); },
          "stopping.min_tokens"),
  };
  for (int32_t most : {0, -1, kSmallest}) {
    cases.push_back(Writing(
        Cat("R5 max_tokens ", most), [=](auto& r) { r.mutable_stopping()->set_max_tokens(most); },
        "stopping.max_tokens", Cat("the value is ", most)));
  }
  ExpectAllTold(cases);
}

// Every float field with every value that it must refuse.
TEST(Options, OfSamplingMustBePlainNumbersInTheirRange) {  // R6
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
  std::vector<Case> cases;
  for (Field field : fields) {
    field.bad.insert(field.bad.end(), never.begin(), never.end());
    for (double value : field.bad) {
      cases.push_back(Writing(
          Cat(field.name, " ", value), [=](auto& r) { (r.mutable_sampling()->*field.set)(value); },
          "sampling." + field.name));
    }
  }
  for (float bias :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 100.5f, -100.5f}) {
    cases.push_back(Writing(
        Cat("logit_bias ", bias), [=](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[3] = bias; },
        "sampling.logit_bias[3]"));
  }
  ExpectAllTold(cases);
}

TEST(Options, OfCountsHaveLimits) {  // R7, R8, R9
  std::vector<Case> cases;
  for (int32_t top_k : {0, -1, 257, kLargest}) {
    cases.push_back(Writing(
        Cat("R7 top_k ", top_k), [=](auto& r) { r.mutable_sampling()->set_top_k(top_k); }, "sampling.top_k"));
  }
  for (int32_t samples : {0, -1, 17, 1'000'000'000}) {
    cases.push_back(Writing(
        Cat("R7 samples ", samples), [=](auto& r) { r.mutable_sampling()->set_samples(samples); },
        "sampling.samples", "it must be 1 to 16"));
  }
  for (int32_t id : {-1, 256, kLargest, kSmallest}) {
    cases.push_back(Writing(
        Cat("R8 stop token ", id), [=](auto& r) { r.mutable_stopping()->add_stop_tokens(id); },
        "stopping.stop_tokens[0]", Cat(id)));
    cases.push_back(Writing(
        Cat("R8 biased token ", id), [=](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[id] = 1; },
        "sampling.logit_bias", Cat(id)));
  }
  for (int32_t top : {-1, 21, 256, kLargest}) {
    cases.push_back(Writing(
        Cat("R9 top_logprobs ", top),
        [=](auto& r) {
          r.mutable_details()->set_logprobs(true);
          r.mutable_details()->set_top_logprobs(top);
        },
        "details.top_logprobs", Cat("the value is ", top, ", it must be 0 to 20")));
  }
  cases.push_back(Writing(
      "R9 top_logprobs without logprobs", [](auto& r) { r.mutable_details()->set_top_logprobs(1); },
      "details.top_logprobs", "details.logprobs is not set"));
  ExpectAllTold(cases);
}

TEST(Options, OfListsHaveLimits) {  // R8
  ExpectAllTold({
      Writing(
          "very many stop strings",
          [](auto& r) {
            for (int i = 0; i < 100'000; ++i) r.mutable_stopping()->add_stop("x");
          },
          "stopping.stop", "100000 strings"),
      Writing(
          "an empty stop string", [](auto& r) { r.mutable_stopping()->add_stop(""); }, "stopping.stop[0]",
          "empty"),
      Writing(
          "a long stop string", [](auto& r) { r.mutable_stopping()->add_stop(std::string(1 << 20, 'x')); },
          "stopping.stop[0]", "1048576 bytes"),
      Writing(
          "very many biases",
          [](auto& r) {
            for (int i = 0; i < 1025; ++i) (*r.mutable_sampling()->mutable_logit_bias())[i] = 1;
          },
          "sampling.logit_bias", "1025 entries"),
  });
}

TEST(Options, OfBeamsHaveLimits) {  // R7
  std::vector<Case> cases;
  for (int32_t width : {0, -1, 17, 1'000'000'000}) {
    cases.push_back(Beaming(
        Cat("width ", width), [=](auto& r) { r.mutable_beam()->set_width(width); }, "beam.width",
        Cat("the value is ", width, ", it must be 1 to 16")));
  }
  for (int32_t results : {0, -1, 5}) {
    cases.push_back(Beaming(
        Cat("results ", results), [=](auto& r) { r.mutable_beam()->set_results(results); }, "beam.results"));
  }
  for (double penalty : {-11.0, 1e9, kNan, kInfinity, -kInfinity}) {
    cases.push_back(Beaming(
        Cat("length_penalty ", penalty), [=](auto& r) { r.mutable_beam()->set_length_penalty(penalty); },
        "beam.length_penalty"));
  }
  cases.push_back(Writing(
      "a length penalty without a width", [](auto& r) { r.mutable_beam()->set_length_penalty(1); },
      "beam.width"));
  ExpectAllTold(cases);
}

TEST(Options, ThatNoBeamSearchKnowsAreRefusedWithIt) {
  const std::string message = "it is not possible with beam search";
  ExpectAllTold({
      Beaming(
          "a stop string", [](auto& r) { r.mutable_stopping()->add_stop("x"); }, "stopping.stop", message),
      Beaming(
          "min_tokens", [](auto& r) { r.mutable_stopping()->set_min_tokens(1); }, "stopping.min_tokens",
          message),
      Beaming(
          "alternatives",
          [](auto& r) {
            r.mutable_details()->set_logprobs(true);
            r.mutable_details()->set_top_logprobs(1);
          },
          "details.top_logprobs", message),
  });
}

TEST(Options, OfTheOtherRpcsAreCheckedToo) {
  std::vector<Case> cases;
  for (double threshold : {-0.1, 1.1, kNan, kInfinity, -kInfinity, 1e308}) {  // R6
    cases.push_back(
        Changed<v1::ClassifyRequest>(Cat("Classify, threshold ", threshold),
                                     [=](auto& r) { r.mutable_options()->set_threshold(threshold); },
                                     {.reason = "INVALID_VALUE", .field = "options.threshold"}));
  }
  cases.push_back(Changed<v1::ClassifyRequest>("Classify, a threshold of raw scores",
                                               [](auto& r) {
                                                 r.mutable_options()->set_threshold(0.5);
                                                 r.mutable_options()->set_raw_scores(true);
                                               },
                                               {.reason = "INVALID_VALUE", .field = "options.threshold"}));
  cases.push_back(Changed<v1::ClassifyRequest>("Classify, top",
                                               [](auto& r) { r.mutable_options()->set_top(-1); },
                                               {.reason = "INVALID_VALUE", .field = "options.top"}));
  cases.push_back(Changed<v1::EmbedRequest>(
      "Embed, normalize",
      [](auto& r) { r.mutable_options()->set_normalize(static_cast<v1::EmbedOptions::Normalize>(99)); },
      {.reason = "INVALID_VALUE", .field = "options.normalize", .message = "99"}));
  for (int32_t top : {-1, 21, 256}) {  // R9
    cases.push_back(Changed<v1::ScoreRequest>(Cat("Score, top_logprobs ", top),
                                              [=](auto& r) {
                                                r.mutable_options()->set_logprobs(true);
                                                r.mutable_options()->set_top_logprobs(top);
                                              },
                                              {.reason = "INVALID_VALUE", .field = "options.top_logprobs"}));
  }
  cases.push_back(Changed<v1::ScoreRequest>("Score, top_logprobs without logprobs",
                                            [](auto& r) { r.mutable_options()->set_top_logprobs(1); },
                                            {.reason = "INVALID_VALUE", .field = "options.top_logprobs"}));
  for (int32_t top : {-1, 101, kLargest}) {
    cases.push_back(Changed<v1::FillRequest>(Cat("Fill, top ", top),
                                             [=](auto& r) { r.mutable_options()->set_top(top); },
                                             {.reason = "INVALID_VALUE", .field = "options.top"}));
  }
  for (int32_t position : {-1, kSmallest, 3, kLargest}) {  // the input has three tokens
    cases.push_back(Changed<v1::FillRequest>(
        Cat("Fill, position ", position), [=](auto& r) { r.mutable_options()->set_positions(0, position); },
        {.reason = "INVALID_VALUE",
         .field = position < 0 ? "options.positions" : "inputs[0]",
         .message = Cat(position)}));
  }
  cases.push_back(Changed<v1::FillRequest>(
      "Fill, a position twice", [](auto& r) { r.mutable_options()->add_positions(0); },
      {.reason = "INVALID_VALUE", .field = "options.positions", .message = "0"}));
  cases.push_back(Changed<v1::FillRequest>(
      "Fill, no mask and no position", [](auto& r) { r.mutable_options()->clear_positions(); },
      {.reason = "INVALID_VALUE", .field = "inputs[0]", .message = "no mask token"}));
  ExpectAllTold(cases);
}

TEST(Options, OfAnySeedGiveTheSameTextEachTime) {  // R10
  auto world = World::Ready({{"writer", [] {
                                auto model = NewFakeWriter();
                                model->head = [](const std::vector<int32_t>&) {
                                  return std::vector<float>(256);
                                };  // every token as likely
                                return WithBytes(std::move(model));
                              }}});
  const auto tokens = [&](uint64_t seed) {
    v1::GenerateRequest request = GreedyRequest("writer", "abc", 32);
    request.mutable_sampling()->set_temperature(1);
    request.mutable_sampling()->set_seed(seed);
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
  for (uint64_t seed : {uint64_t{0}, std::numeric_limits<uint64_t>::max()}) {
    const std::vector<int32_t> first = tokens(seed);
    EXPECT_EQ(first.size(), 32u);
    EXPECT_EQ(tokens(seed), first);
    EXPECT_NE(tokens(seed ^ 1), first);
  }
}

}  // namespace
}  // namespace heed
