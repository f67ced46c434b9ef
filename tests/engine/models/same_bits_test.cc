// A sequence's answers are the same bits alone, in any company, with any number of threads and however its
// prompt is cut.

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "engine/models/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using Output = std::vector<float>;

struct Setting {
  std::string name;
  Json config;
  Precision precision;
};

// Every listed type of attention and of feed-forward with each precision, wide and long enough to cross all
// blocks.
std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  const std::map<std::string, Json> attentions = {
      {"full", {{"type", "full"}}},
      {"grouped", {{"type", "softmax"}, {"num_key_value_heads", 1}, {"rope", {{"theta", 10000}}}}},
      {"window", {{"type", "softmax"}, {"window", 70}, {"sinks", 3}, {"alibi", true}}},
      {"shaw", {{"type", "softmax"}, {"shaw", {{"max_distance", 40}}}}},
      {"linear", {{"type", "linear"}}},
      {"performer", {{"type", "performer"}, {"kernel", "softmax"}, {"num_features", 30}}},
      {"fixed", {{"type", "sparse_fixed"}, {"stride", 30}, {"summary", 7}, {"heads", "split"}}},
      {"columns", {{"type", "axial"}, {"axis", "column"}, {"height", 40}, {"width", 13}}},
      {"strided", {{"type", "sparse_strided"}, {"stride", 30}}},
      {"image",
       {{"type", "image_local_2d"},
        {"height", 40},
        {"width", 13},
        {"query_block", {6, 5}},
        {"memory", {4, 3}}}},
      {"persistent", {{"type", "persistent_memory"}, {"slots", 20}, {"window", 50}}},
      {"sliding", {{"type", "sliding_window"}, {"window", 50}, {"dilation", {1, 2, 1, 3}}}},
      {"relative", {{"type", "relative_memory"}, {"memory", 60}, {"clamp_length", 40}}},
      {"slots", {{"type", "memory_compressed"}, {"stride", 3}}},
      {"mean_slots", {{"type", "memory_compressed"}, {"stride", 5}, {"compression", "mean"}}},
      {"compressive",
       {{"type", "compressive"}, {"segment", 12}, {"memory", 24}, {"compressed_memory", 15}, {"rate", 3}}},
      {"lsh", {{"type", "lsh"}, {"chunk_length", 12}, {"num_hashes", 2}, {"num_buckets", 6}}},
      {"strict_lsh",
       {{"type", "lsh"},
        {"chunk_length", 12},
        {"num_hashes", 2},
        {"num_buckets", 6},
        {"strict_causal", true}}},
      {"routing", {{"type", "routing"}, {"clusters", 6}, {"window", 20}}},
      {"strict_routing",
       {{"type", "routing"},
        {"clusters", 5},
        {"window", 12},
        {"shared_qk", false},
        {"local_heads", 1},
        {"local_window", 30},
        {"strict_causal", true}}},
      {"sorted", {{"type", "sinkhorn"}, {"block", 10}, {"max_blocks", 60}}},
      {"sorted_twice", {{"type", "sinkhorn"}, {"block", 32}, {"max_blocks", 20}, {"two_softmax", true}}},
      {"synthesizer",
       {{"type", "synthesizer"},
        {"form", "mixture"},
        {"n_max", 520},
        {"factors", {20, 26}},
        {"terms", {"dense", "random", "factorized_dense", "dot_product"}}}}};
  for (const auto& [name, attention] : attentions) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      Json config = SmallConfig("decoder", "lm", attention);
      config["hidden_size"] = 96;
      config["intermediate_size"] = 200;
      settings.push_back({name + "_" + std::string(Name(precision)), config, precision});
    }
  }
  const Json row = {{"attention", {{"type", "axial"}, {"axis", "row"}}}},
             column = {{"attention", {{"type", "axial"}, {"axis", "column"}}}};
  for (const int64_t channels : {1, 3}) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      Json config = SmallConfig("axial-decoder", "lm");
      config.erase("layers");
      config["height"] = 42 / channels;
      config["width"] = 13;
      config["channels"] = channels;
      config["exterior_layers"] = config["outer_layers"] = {row, column};
      config["inner_layers"] = Json::array({row});
      settings.push_back(
          {"drawing" + std::to_string(channels) + "_" + std::string(Name(precision)), config, precision});
    }
  }
  const std::map<std::string, Json> feed_forwards = {
      {"switch", {{"type", "moe"}, {"experts", 7}}},
      {"experts", {{"type", "moe"}, {"experts", 4}, {"top_k", 2}}},
      {"keys", {{"type", "pkm"}, {"n_keys", 20}, {"d_k", 16}, {"top_k", 5}}}};
  for (const auto& [name, feed_forward] : feed_forwards) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      Json config = SmallConfig("decoder", "lm");
      config["hidden_size"] = 96;
      config["intermediate_size"] = 200;
      config["layers"][1]["ffn"] = feed_forward;
      settings.push_back({name + "_" + std::string(Name(precision)), config, precision});
    }
  }
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    Json config = SmallConfig("decoder", "lm",
                              {{"type", "softmax"},
                               {"num_key_value_heads", 2},
                               {"rope", {{"scaling", {{"type", "linear"}, {"factor", 2}}}}},
                               {"qk_norm", {{"over", "all"}}},
                               {"soft_cap", 20},
                               {"learned_sink", true}});
    config["hidden_size"] = 96;
    config["intermediate_size"] = 200;
    config["residual_multiplier"] = 0.5;
    config["layers"][0]["parallel"] = true;
    config["layers"][0]["ffn"] = {{"type", "moe"}, {"experts", 4}, {"top_k", 2}};
    config["layers"][1]["norm"] = "sandwich";
    settings.push_back({"parallel_" + std::string(Name(precision)), config, precision});
    Json lent = SmallConfig(
        "decoder", "lm",
        {{"type", "softmax"}, {"window", 70}, {"num_key_value_heads", 2}, {"rope", {{"theta", 100}}}});
    lent["hidden_size"] = 96;
    lent["intermediate_size"] = 200;
    lent["layers"].push_back(lent["layers"][0]);
    lent["layers"][1]["keys_of"] = lent["layers"][2]["keys_of"] = 0;
    lent["layer_inputs"] = {{"size", 24}, {"table", true}};
    settings.push_back({"lent_" + std::string(Name(precision)), lent, precision});
  }
  return settings;
}

Work Asking(Sequence* sequence, std::vector<int32_t> tokens, bool more, Output* out) {
  Work work{.sequence = sequence, .tokens = std::move(tokens), .more = more};
  for (int32_t i = 0; i < static_cast<int32_t>(work.tokens.size()); ++i) work.wanted.push_back(i);
  work.read = [out](int32_t, std::span<const float> row) { out->insert(out->end(), row.begin(), row.end()); };
  return work;
}

void RunPass(const Model& model, std::vector<Work>& batch, Threads& threads) {
  auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

std::vector<int32_t> RandomTokens(std::mt19937& random, int n) {
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 50);
  return tokens;
}

// One sequence on its way: which tokens it has given, and what came back.
struct Traveller {
  std::vector<int32_t> prompt, steps;
  std::unique_ptr<Sequence> sequence;
  size_t at = 0;  // of prompt and steps together
  Output output;

  bool done() const { return at == prompt.size() + steps.size(); }
  // The next piece: at most `most` rows of the prompt, cut at the grid unless it comes whole, or one step.
  Work Next(size_t most, bool whole) {
    std::vector<int32_t> tokens;
    if (at >= prompt.size()) {
      tokens = {steps[at - prompt.size()]};
    } else {
      size_t left = prompt.size() - at;
      if (whole) most = left;
      size_t count = left <= most ? left : std::max<size_t>(most / kGrid * kGrid, kGrid);
      count = std::min(count, left);
      tokens.assign(prompt.begin() + at, prompt.begin() + at + count);
    }
    at += tokens.size();
    return Asking(sequence.get(), std::move(tokens), at < prompt.size(), &output);
  }
};

std::vector<Traveller> RandomTravellers(const Model& model, std::mt19937& random, int n) {
  std::vector<Traveller> travellers(n);
  for (Traveller& t : travellers) {
    t.prompt = RandomTokens(random, random() % 8 == 0 ? 1 + random() % 500 : 1 + random() % 60);
    t.steps = RandomTokens(random, random() % 4);
    t.sequence = model.Start();
  }
  return travellers;
}

std::vector<Output> Alone(const Model& model, const std::vector<Traveller>& travellers, Threads& threads) {
  std::vector<Output> outputs;
  for (const Traveller& t : travellers) {
    Traveller lone{t.prompt, t.steps, model.Start(), 0, {}};
    while (!lone.done()) {
      std::vector<Work> batch;
      batch.push_back(lone.Next(0, true));
      RunPass(model, batch, threads);
    }
    outputs.push_back(lone.output);
  }
  return outputs;
}

// Over 200 for each attention in its three precisions; a few show a race, if there is one.
#ifdef __SANITIZE_THREAD__
constexpr int kMixes = 5;
#else
constexpr int kMixes = 70;
#endif

class SameBits : public testing::TestWithParam<Setting> {};

TEST_P(SameBits, WhateverTheCompanyTheThreadsAndTheBudget) {
  RandomModel model = MakeRandomModel(GetParam().config, GetParam().precision);
  const bool whole = model->info().decode != DecodeClass::kExact;
  Threads one(1), two(2), three(3);
  std::mt19937 random(7);
  const int mixes = std::getenv("HEED_FULL") ? 200 : kMixes;
  for (int mix = 0; mix < mixes; ++mix) {
    std::vector<Traveller> travellers = RandomTravellers(*model, random, 1 + random() % 6);
    std::vector<Output> alone = Alone(*model, travellers, one);
    size_t budget = size_t{128} << (random() % 3);
    Threads& threads = random() % 2 ? two : three;
    while (!std::all_of(travellers.begin(), travellers.end(), [](const Traveller& t) { return t.done(); })) {
      std::vector<Work> batch;
      for (Traveller& t : travellers) {
        if (!t.done() && random() % 3 != 0) batch.push_back(t.Next(budget, whole));
      }
      if (!batch.empty()) RunPass(*model, batch, threads);
    }
    for (size_t i = 0; i < travellers.size(); ++i) {
      ASSERT_EQ(travellers[i].output, alone[i])
          << "mix " << mix << ", sequence " << i << " of " << travellers.size() << ", prompt "
          << travellers[i].prompt.size();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, SameBits, testing::ValuesIn(Settings()),
                         [](const auto& info) { return info.param.name; });

// `labelled`: some sequences come with labels.
void ExpectSameBitsInAnyCompany(const Json& attention, bool labelled = false, int64_t front = 0) {
  Json config = SmallConfig("encoder", "classification", attention);
  config["pooling"] = "mean";
  config["extra_global_tokens"] = front;
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    RandomModel model = MakeRandomModel(config, precision);
    Threads one(1), two(2), sixteen(16);
    std::mt19937 random(11);
    for (int mix = 0; mix < 20; ++mix) {
      std::vector<std::vector<int32_t>> inputs(1 + random() % 9);
      std::vector<Output> alone(inputs.size()), together(inputs.size());
      std::vector<std::unique_ptr<Sequence>> sequences;
      std::vector<Work> batch;
      for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i] = RandomTokens(random, 1 + random() % 300);
        std::vector<int32_t> labels(labelled && random() % 3 != 0 ? inputs[i].size() : 0);
        const size_t sparse = size_t{1} << (random() % 8);  // from all to a few
        for (int32_t& label : labels) label = random() % sparse == 0;
        sequences.push_back(model->Start());
        auto pooled = [&](Sequence* s, Output* out) {
          Work work = Asking(s, inputs[i], false, out);
          work.wanted = {0};
          work.labels = labels;
          return work;
        };
        std::vector<Work> lone;
        std::unique_ptr<Sequence> own = model->Start();
        lone.push_back(pooled(own.get(), &alone[i]));
        RunPass(*model, lone, one);
        batch.push_back(pooled(sequences.back().get(), &together[i]));
      }
      RunPass(*model, batch, mix % 2 ? two : sixteen);
      ASSERT_EQ(together, alone) << "mix " << mix;
    }
  }
}

TEST(SameBits, OfAnEncoderInAnyCompany) { ExpectSameBitsInAnyCompany({{"type", "full"}}); }

TEST(SameBits, OfAnEncoderWhoseTokensMeetInClusters) {
  ExpectSameBitsInAnyCompany({{"type", "routing"},
                              {"clusters", 6},
                              {"window", 40},
                              {"shared_qk", false},
                              {"local_heads", 1},
                              {"local_window", 16}});
}

TEST(SameBits, OfBlocksInAnyCompany) {
  ExpectSameBitsInAnyCompany(
      {{"type", "bigbird"}, {"block_size", 16}, {"num_blocks", 20}, {"num_random_blocks", 2}});
}

TEST(SameBits, OfBlocksBehindGlobalRowsInAnyCompany) {
  ExpectSameBitsInAnyCompany({{"type", "bigbird"},
                              {"form", "etc"},
                              {"block_size", 16},
                              {"num_blocks", 20},
                              {"num_random_blocks", 2}},
                             /*labelled=*/false, /*front=*/11);
}

TEST(SameBits, OfBlocksThatAreSorted) {
  ExpectSameBitsInAnyCompany({{"type", "sinkhorn"}, {"block", 7}, {"max_blocks", 50}});
  ExpectSameBitsInAnyCompany({{"type", "sinkhorn"}, {"block", 20}, {"max_blocks", 50}, {"sort_cut", 2}});
}

TEST(SameBits, OfKeysAndValuesThatAreProjected) {
  ExpectSameBitsInAnyCompany({{"type", "linformer"}, {"k", 20}, {"n_max", 300}, {"sharing", "headwise"}});
}

TEST(SameBits, OfLandmarks) {
  ExpectSameBitsInAnyCompany({{"type", "nystrom"}, {"num_landmarks", 20}, {"conv_kernel", 9}});
}

TEST(SameBits, OfLandmarksOfHeadsThatBeginTogether) {
  ExpectSameBitsInAnyCompany({{"type", "nystrom"}, {"num_landmarks", 20}, {"inverse_start", "all_heads"}});
}

TEST(SameBits, OfSummaries) {
  ExpectSameBitsInAnyCompany({{"type", "transient_global"},
                              {"radius", 5},
                              {"global_block", 4},
                              {"relative_bias", {{"buckets", 8}, {"max_distance", 20}}}});
}

TEST(SameBits, OfHashesThatMeet) { ExpectSameBitsInAnyCompany({{"type", "yoso"}}); }

TEST(SameBits, OfAFourierTransform) { ExpectSameBitsInAnyCompany({{"type", "fourier"}}); }

TEST(SameBits, OfRelativePositionsAndSegments) {
  ExpectSameBitsInAnyCompany({{"type", "relative_segments"}, {"max_distance", 4000}});
}

TEST(SameBits, OfBlocksThatLieInACircle) {
  ExpectSameBitsInAnyCompany(
      {{"type", "blockwise"}, {"block", 20}, {"blocks_before", 2}, {"blocks_after", 1}, {"wrap_unit", 40}});
}

TEST(SameBits, OfRowsThatHaveWeightsOfTheirOwn) {
  ExpectSameBitsInAnyCompany(
      {{"type", "sliding_window"}, {"window", 20}, {"global_tokens", {0, 3, 4, 5, 6, 7, 8, 9, 10, 150}}});
}

TEST(SameBits, OfGlobalTokensThatEachRequestNames) {
  ExpectSameBitsInAnyCompany({{"type", "sliding_window"},
                              {"window", 20},
                              {"dilation", {1, 2, 1, 1}},
                              {"global_tokens", {0, 3, 150}}},
                             /*labelled=*/true);
}

}  // namespace
}  // namespace heed
