// What a generation_config.json says, and what is said of it.
#include "engine/generation/generation_defaults.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ModelInfo Decoder() {
  ModelInfo info;
  info.architecture = Architecture::kDecoder;
  info.vocab_size = 100;
  info.eos_token_ids = {2};
  return info;
}

ModelInfo EncoderDecoder() {
  ModelInfo info = Decoder();
  info.architecture = Architecture::kEncoderDecoder;
  return info;
}

absl::StatusOr<GenerationDefaults> Reading(const std::string& json, const ModelInfo& info = Decoder()) {
  const TempFolder folder;
  folder.Write("generation_config.json", json);
  return ReadGenerationDefaults(folder.path(), info);
}

GenerationDefaults Read(const std::string& json, const ModelInfo& info = Decoder()) {
  auto read = Reading(json, info);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.value_or(GenerationDefaults());
}

TEST(GenerationDefaults, WithoutTheFileATextIsDrawnAsTheModelComputes) {
  const TempFolder folder;
  const GenerationDefaults none = ReadGenerationDefaults(folder.path(), Decoder()).value();
  EXPECT_EQ(none.sampling.temperature, 1);
  EXPECT_EQ(none.sampling.top_k, 0);
  EXPECT_EQ(none.beam.width, 0);
  EXPECT_EQ(none.rules, nullptr);
  EXPECT_EQ(none.MostTokens(10), 256);
  EXPECT_EQ(none.LeastTokens(10), 0);
}

TEST(GenerationDefaults, WithItTheLikeliestTokenComesUnlessItSaysDoSample) {
  EXPECT_EQ(Read(R"({"eos_token_id": 2})").sampling.temperature, 0);
  EXPECT_EQ(Read(R"({"temperature": 0.7, "top_p": 0.9})").sampling.temperature, 0);
  EXPECT_EQ(Read(R"({"do_sample": true})").sampling.temperature, 1);
}

TEST(GenerationDefaults, SamplingIsAsTheFileSays) {
  const SamplingOptions sampling = Read(R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
      "min_p": 0.05, "typical_p": 0.9, "repetition_penalty": 1.1})")
                                       .sampling;
  EXPECT_EQ(sampling.temperature, 0.6);
  EXPECT_EQ(sampling.top_k, 20);
  EXPECT_EQ(sampling.top_p, 0.95);
  EXPECT_EQ(sampling.min_p, 0.05);
  EXPECT_EQ(sampling.typical_p, 0.9);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
}

TEST(GenerationDefaults, WhereATextIsDrawnTopKIsFiftyIfNothingIsSaid) {
  EXPECT_EQ(Read(R"({"do_sample": true})").sampling.top_k, 50);
  EXPECT_EQ(Read(R"({"do_sample": true, "top_k": 0})").sampling.top_k, 0);
  EXPECT_EQ(Read(R"({"do_sample": true, "top_k": 1000})").sampling.top_k, 0) << "more than the vocabulary";
  EXPECT_EQ(Read("{}").sampling.top_k, 0);
}

TEST(GenerationDefaults, LengthsCountThePromptOrDoNot) {
  const GenerationDefaults whole = Read(R"({"max_length": 100, "min_length": 30})");
  EXPECT_EQ(whole.MostTokens(20), 80);
  EXPECT_EQ(whole.LeastTokens(20), 10);
  EXPECT_EQ(whole.LeastTokens(40), 0);
  EXPECT_EQ(whole.MostTokens(100), 256) << "the prompt is longer than the file expects";
  const GenerationDefaults more =
      Read(R"({"max_length": 100, "min_length": 90, "max_new_tokens": 7, "min_new_tokens": 3})");
  EXPECT_EQ(more.MostTokens(20), 7);
  EXPECT_EQ(more.LeastTokens(20), 3);
}

TEST(GenerationDefaults, BeamsAreADefaultWhereNothingIsDrawn) {
  const BeamOptions beam =
      Read(R"({"num_beams": 4, "early_stopping": true, "renormalize_logits": true, "length_penalty": 2})")
          .beam;
  EXPECT_EQ(beam.width, 4);
  EXPECT_EQ(beam.length_penalty, 2);
  EXPECT_TRUE(beam.early_stopping);
  EXPECT_TRUE(beam.renormalize);
  EXPECT_EQ(Read(R"({"num_beams": 2})").beam.length_penalty, 1) << "transformers' default";
  EXPECT_EQ(Read(R"({"num_beams": 1})").beam.width, 0);
  const GenerationDefaults drawn = Read(R"({"num_beams": 4, "do_sample": true})");
  EXPECT_EQ(drawn.beam.width, 0);
  EXPECT_THAT(drawn.warnings,
              ElementsAre("generation_config.json: num_beams 4 is not served where do_sample is "
                          "true: a text is drawn"));
}

TEST(GenerationDefaults, RulesAreOfTokensThatThereAre) {
  const auto rules =
      Read(R"({"suppress_tokens": [1, 500], "begin_suppress_tokens": [3], "no_repeat_ngram_size": 3,
      "encoder_no_repeat_ngram_size": 4, "bad_words_ids": [[7], [8, 9], [2], [8, 500]], "forced_bos_token_id": 5,
      "forced_eos_token_id": [2, 6]})",
           EncoderDecoder())
          .rules;
  ASSERT_NE(rules, nullptr);
  EXPECT_THAT(rules->suppress_tokens, ElementsAre(1));
  EXPECT_THAT(rules->begin_suppress_tokens, ElementsAre(3));
  EXPECT_THAT(rules->bad_words_ids, ElementsAre(ElementsAre(7), ElementsAre(8, 9)));
  EXPECT_EQ(rules->no_repeat_ngram_size, 3);
  EXPECT_EQ(rules->encoder_no_repeat_ngram_size, 4);
  EXPECT_EQ(rules->forced_bos_token_id, 5);
  EXPECT_THAT(rules->forced_eos_token_ids, ElementsAre(2, 6));
  EXPECT_EQ(Read(R"({"forced_bos_token_id": 5, "encoder_no_repeat_ngram_size": 4})").rules, nullptr)
      << "a decoder has a prompt and no source";
}

TEST(GenerationDefaults, WhatIsNotServedIsAWarningByName) {
  EXPECT_THAT(
      Read(R"({"penalty_alpha": 0.6, "epsilon_cutoff": 0.0, "guidance_scale": null, "my_own_key": 7})")
          .warnings,
      ElementsAre("generation_config.json: penalty_alpha 0.6 is not served"));
  EXPECT_THAT(Read(R"({"num_beams": 2, "early_stopping": "never", "repetition_penalty": 1.2})").warnings,
              ElementsAre("generation_config.json: early_stopping \"never\" is not served: it is false",
                          "generation_config.json: repetition_penalty 1.2 is not served with num_beams"));
  EXPECT_THAT(Read(R"({"transformers_version": "4.57.1", "use_cache": true, "max_length": NaN})").warnings,
              IsEmpty());
}

TEST(GenerationDefaults, WhatIsOutOfRangeIsRefusedByName) {
  const auto refusal = [](const std::string& json) { return std::string(Reading(json).status().message()); };
  EXPECT_EQ(refusal("[]"), "generation_config.json is not an object");
  EXPECT_EQ(refusal(R"({"temperature": -1})"), "generation_config.json: temperature: -1 is below 0");
  EXPECT_EQ(refusal(R"({"top_p": "much"})"), "generation_config.json: top_p: \"much\" is not a number");
  EXPECT_EQ(refusal(R"({"num_beams": 40})"), "generation_config.json: num_beams: 40 is above 16");
  EXPECT_EQ(refusal(R"({"suppress_tokens": ["x"]})"),
            "generation_config.json: suppress_tokens: \"x\" is no id of a token");
  EXPECT_EQ(refusal(R"({"bad_words_ids": [3]})"),
            "generation_config.json: bad_words_ids: 3 is no list of ids");
}

}  // namespace
}  // namespace heed
