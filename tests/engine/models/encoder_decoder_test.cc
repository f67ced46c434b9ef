// Encoder-decoders with random weights: what their sequences remember, and that company changes nothing.

#include <cstdlib>
#include <random>

#include "engine/models/native.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/models/state.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Output = std::vector<float>;

RandomModel Small(Precision precision = Precision::kF32) {
  return MakeRandomModel(SmallConfig("encoder-decoder", "lm"), precision);
}

// A target's next rows, every one answered; the source with the first.
Work Asking(Sequence* sequence, Ids source, Ids target, Output* out) {
  Work work{.sequence = sequence, .tokens = std::move(target), .source = std::move(source)};
  for (int32_t i = 0; i < std::ssize(work.tokens); ++i) work.wanted.push_back(i);
  work.read = [out](int32_t, std::span<const float> row) { out->insert(out->end(), row.begin(), row.end()); };
  return work;
}

void RunPass(const Model& model, std::vector<Work> batch, Threads& threads) {
  auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

Output Whole(const Model& model, const Ids& source, const Ids& target, Threads& threads) {
  Output out;
  auto sequence = model.Start();
  RunPass(model, {Asking(sequence.get(), source, target, &out)}, threads);
  return out;
}

Ids RandomIds(std::mt19937& random, size_t n) {
  Ids ids(n);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 50);
  return ids;
}

// One translation on its way.
struct Traveller {
  Ids source, target;
  std::unique_ptr<Sequence> sequence;
  size_t at = 0;
  Output output;

  bool done() const { return at == target.size(); }
  Work Next(size_t most) {
    const size_t count = std::min(most, target.size() - at);
    Ids tokens(target.begin() + at, target.begin() + at + count);
    Ids first = at == 0 ? source : Ids();
    at += count;
    return Asking(sequence.get(), std::move(first), std::move(tokens), &output);
  }
};

class EncoderDecoder : public testing::TestWithParam<Precision> {};

TEST_P(EncoderDecoder, SameBitsWhateverTheCompanyAndTheThreads) {
  RandomModel model = Small(GetParam());
  Threads one(1), two(2), three(3);
  std::mt19937 random(5);
#ifdef __SANITIZE_THREAD__
  const int mixes = 3;
#else
  const int mixes = std::getenv("HEED_FULL") ? 100 : 25;
#endif
  for (int mix = 0; mix < mixes; ++mix) {
    std::vector<Traveller> travellers(1 + random() % 6);
    std::vector<Output> alone(travellers.size());
    for (size_t i = 0; i < travellers.size(); ++i) {
      Traveller& t = travellers[i];
      t.source = RandomIds(random, 1 + random() % (random() % 4 == 0 ? 400 : 40));
      t.target = RandomIds(random, 1 + random() % 5);
      t.sequence = model->Start();
      Traveller lone{t.source, t.target, model->Start(), 0, {}};
      while (!lone.done()) RunPass(*model, {lone.Next(1)}, one);
      alone[i] = lone.output;
    }
    Threads& threads = random() % 2 ? two : three;
    for (bool left = true; left;) {
      std::vector<Work> batch;
      left = false;
      for (Traveller& t : travellers) {
        if (!t.done() && random() % 3 != 0) batch.push_back(t.Next(1));
        left = left || !t.done();
      }
      if (!batch.empty()) RunPass(*model, std::move(batch), threads);
    }
    for (size_t i = 0; i < travellers.size(); ++i) ASSERT_EQ(travellers[i].output, alone[i]) << mix;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, EncoderDecoder,
                         testing::Values(Precision::kF32, Precision::kBf16, Precision::kInt8),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(EncoderDecoder, TheSourceIsReadOnce) {
  RandomModel model = Small();
  Threads threads(1);
  const auto calls = [&](Sequence* sequence, Ids source, Ids target) {
    Output out;
    const int64_t before = MicroKernel::Calls();
    RunPass(*model, {Asking(sequence, std::move(source), std::move(target), &out)}, threads);
    return MicroKernel::Calls() - before;
  };
  auto sequence = model->Start();
  const int64_t first = calls(sequence.get(), Ids(8, 3), {1});
  const int64_t second = calls(sequence.get(), {}, {2}), third = calls(sequence.get(), {}, {3});
  EXPECT_LT(second, first) << "the encoder ran again";
  EXPECT_EQ(third, second);
}

TEST(EncoderDecoder, ThirtyTwoSequencesMakeAsManyGemmCallsALayerAsOne) {
  RandomModel model = Small();
  Threads threads(1);
  const auto calls_of_step = [&](int n) {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<Work> first, second;
    Output out;
    for (int i = 0; i < n; ++i) {
      sequences.push_back(model->Start());
      first.push_back(Asking(sequences.back().get(), Ids(5, i), {1}, &out));
      second.push_back(Asking(sequences.back().get(), {}, {i}, &out));
    }
    RunPass(*model, std::move(first), threads);
    const int64_t before = MicroKernel::Calls();
    RunPass(*model, std::move(second), threads);
    return MicroKernel::Calls() - before;
  };
  const int64_t one = calls_of_step(1), two = calls_of_step(2);
  const int64_t attention = two - one, products = one - attention;
  EXPECT_GT(products, 0);
  EXPECT_GT(attention, 0);
  EXPECT_EQ(calls_of_step(32), products + 32 * attention);
}

TEST(EncoderDecoder, GivesALayerBetweenTwoTurns) {
  RandomModel model = Small();
  Threads threads(2);
  auto sequence = model->Start();
  Output out;
  std::vector<Work> batch;
  batch.push_back(Asking(sequence.get(), {4, 5, 6}, {1}, &out));
  auto pass = model->Begin(&batch);
  // Two layers of the encoder; two attentions in each of two layers of the decoder.
  for (int i = 0; i < 2 + 4; ++i) EXPECT_TRUE(pass->Advance(threads)) << i;
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(pass->Advance(threads));
  EXPECT_EQ(out.size(), 50u);
  EXPECT_EQ(sequence->tokens(), 1);
}

TEST(EncoderDecoder, AWorkDroppedInItsEncoderLeavesTheOthersUnchanged) {
  RandomModel model = Small();
  Threads threads(2);
  const Output alone = Whole(*model, {7, 8, 9}, {1, 2}, threads);
  for (int at = 1; at < 7; ++at) {
    auto a = model->Start(), b = model->Start();
    Output dropped, kept;
    std::vector<Work> batch;
    batch.push_back(Asking(a.get(), Ids(20, 3), {1, 5}, &dropped));
    batch.push_back(Asking(b.get(), {7, 8, 9}, {1, 2}, &kept));
    auto pass = model->Begin(&batch);
    for (int i = 0; i < at; ++i) ASSERT_TRUE(pass->Advance(threads));
    pass->Drop(0);
    while (pass->Advance(threads)) {
    }
    EXPECT_TRUE(dropped.empty());
    EXPECT_EQ(kept, alone) << "dropped after " << at;
  }
}

TEST(EncoderDecoder, AnswersDependOnTheSource) {
  RandomModel model = Small();
  Threads threads(1);
  EXPECT_NE(Whole(*model, {7, 8, 9}, {1}, threads), Whole(*model, {7, 8, 10}, {1}, threads));
}

TEST(EncoderDecoder, CloneAndRestoredGoOnTheSameBits) {
  RandomModel model = Small();
  Threads threads(2);
  std::mt19937 random(3);
  auto first = model->Start();
  Output prompt;
  RunPass(*model, {Asking(first.get(), RandomIds(random, 150), {1, 2, 3}, &prompt)}, threads);
  const std::string bytes = StateOf(*first);
  auto clone = first->Clone(), restored = RestoredSequence(*model, bytes);
  Output outputs[3];
  Sequence* sequences[] = {first.get(), clone.get(), restored.get()};
  for (int i = 0; i < 3; ++i) {
    // Each goes another way first, so that what they share would show.
    RunPass(*model, {Asking(sequences[i], {}, {20 + i}, &prompt)}, threads);
  }
  EXPECT_NE(StateOf(*first), StateOf(*clone));
  auto again = RestoredSequence(*model, bytes);
  RunPass(*model, {Asking(again.get(), {}, {20}, &outputs[0])}, threads);
  RunPass(*model, {Asking(again.get(), {}, {9}, &outputs[1])}, threads);
  RunPass(*model, {Asking(first.get(), {}, {9}, &outputs[2])}, threads);
  EXPECT_EQ(outputs[1], outputs[2]);
}

TEST(EncoderDecoder, BytesThatAreNoStateAreAnErrorNotACrash) {
  RandomModel model = Small();
  Threads threads(1);
  auto sequence = model->Start();
  Output out;
  RunPass(*model, {Asking(sequence.get(), {4, 5, 6}, {1, 2}, &out)}, threads);
  const std::string good = StateOf(*sequence);
  ExpectDamageIsNoCrash(*model, good);
  // Tokens without a source could never be gone on with.
  const std::string fresh_bytes = StateOf(*model->Start());
  std::string sourceless = fresh_bytes;
  sourceless[OriginBytes(*model)] = 2;
  EXPECT_THAT(Restored(*model, sourceless).message(), HasSubstr("source"));
}

TEST(EncoderDecoder, HoldsNoMoreThanItsClosedForm) {
  RandomModel model = Small();
  Threads threads(1);
  for (const int source : {1, 127, 128, 129, 300}) {
    auto sequence = model->Start();
    Output out;
    for (int i = 0; i < 140; ++i) {
      RunPass(*model, {Asking(sequence.get(), i == 0 ? Ids(source, 3) : Ids(), {i % 50}, &out)}, threads);
      ASSERT_LE(MeasuredBytes(*sequence), model->StateBytes(sequence->tokens(), source))
          << source << " at " << i;
    }
    EXPECT_GT(MeasuredBytes(*sequence), model->StateBytes(140, 0)) << "the source is not counted";
  }
  EXPECT_GT(model->Cost(10, 200), model->Cost(10, 100));
}

TEST(EncoderDecoder, TellsWhatServersNeed) {
  Json config = SmallConfig("encoder-decoder", "lm");
  config["max_position_embeddings"] = 64;
  RandomModel model = MakeRandomModel(config);
  EXPECT_EQ(model->info().architecture, Architecture::kEncoderDecoder);
  EXPECT_EQ(model->info().decoder_start_token_id, 1);
  EXPECT_EQ(model->info().max_tokens, 64);
  EXPECT_EQ(model->info().max_source_tokens, 64);
  EXPECT_EQ(model->info().layers, 4);
  EXPECT_EQ(model->info().attention, "full");
  EXPECT_EQ(model->info().decode, DecodeClass::kExact);
}

TEST(EncoderDecoder, TheDecoderMayHaveANumberOfPositionsOfItsOwn) {
  Json config = SmallConfig("encoder-decoder", "lm");
  config["positions"] = "learned";
  config["max_position_embeddings"] = 64;
  config["decoder_max_position_embeddings"] = 8;
  const RandomModel model = MakeRandomModel(config);
  EXPECT_EQ(model->info().max_source_tokens, 64);
  EXPECT_EQ(model->info().max_tokens, 8);
}

TEST(EncoderDecoder, AMissingTensorIsNamed) {
  const Json config = SmallConfig("encoder-decoder", "lm");
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  for (const char* name : {"encoder.norm.weight", "decoder.layers.1.norm_cross.bias",
                           "decoder.layers.0.cross_attention.k.weight", "decoder.embed.tokens.weight"}) {
    auto missing = tensors;
    ASSERT_EQ(missing.erase(name), 1u) << name;
    const auto model = NewNativeModel(config, *Weights::Of(missing), {});
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(name));
  }
}

TEST(EncoderDecoder, TheDecoderMayBeOfAWidthOfItsOwn) {
  const auto with = [](const Json& attention, int heads) {
    Json config = SmallConfig("encoder-decoder", "lm", attention);
    config["decoder_hidden_size"] = 24;
    for (Json& layer : config["decoder_layers"])
      layer["attention"]["num_heads"] = layer["cross_attention"]["num_heads"] = heads;
    return config;
  };
  const RandomModel model = MakeRandomModel(with({{"type", "full"}}, 3));
  Threads threads(2);
  const Ids source = {5, 4, 3, 2, 1, 6}, target = {1, 8, 9, 7};
  Output steps;
  const auto sequence = model->Start();
  for (size_t i = 0; i < target.size(); ++i)
    RunPass(*model, {Asking(sequence.get(), i == 0 ? source : Ids(), {target[i]}, &steps)}, threads);
  const Output whole = Whole(*model, source, target, threads);
  ASSERT_EQ(steps.size(), 4 * 50);
  for (size_t i = 0; i < steps.size(); ++i) ASSERT_NEAR(steps[i], whole[i], 1e-5) << i;
}

}  // namespace
}  // namespace heed
