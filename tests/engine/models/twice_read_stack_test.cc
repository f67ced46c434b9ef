// An input that an encoder reads and a decoder reads again, with random weights.
#include "engine/models/native.h"
#include "gmock/gmock.h"
#include "tests/engine/models/naive_rows.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json TwiceRead(const std::string& head) {
  Json config = SmallConfig("encoder-decoder", head);
  config["architecture"] = "twice-read-encoder";
  return config;
}

// The definition: an encoder-decoder whose target is the source, one row later.
TEST(TwiceReadStack, IsAnEncoderDecoderOfTheShiftedInput) {
  for (const char* norm : {"pre", "post"}) {
    Json config = TwiceRead("lm"), both = SmallConfig("encoder-decoder", "lm");
    config["norm"] = both["norm"] = norm;
    const Tensors tensors = RandomTensorsOf(config);
    const auto twice = ModelOf(config, tensors), apart = ModelOf(both, tensors);
    for (const std::vector<int32_t>& ids : {std::vector<int32_t>{7}, {3, 1, 4, 1, 5, 9, 2, 6}}) {
      WholeInput shifted{.ids = ids, .numbers = {}, .global_ids = ids};  // the source
      shifted.ids.insert(shifted.ids.begin(), 1);
      shifted.ids.pop_back();
      ExpectNear(Answers(*twice, {.ids = ids}), Answers(*apart, shifted), 1e-5, norm);
    }
  }
}

TEST(TwiceReadStack, IsAnEncoderToWhoeverCalls) {
  Json config = TwiceRead("classification");
  config["max_position_embeddings"] = 90;
  config["decoder_max_position_embeddings"] = 40;
  const RandomModel model = MakeRandomModel(config);
  EXPECT_EQ(model->info().architecture, Architecture::kEncoder);
  EXPECT_EQ(model->info().decode, DecodeClass::kNone);
  EXPECT_EQ(model->info().max_tokens, 40);
  EXPECT_EQ(model->info().max_source_tokens, 0);
}

TEST(TwiceReadStack, HasTheSameBitsInAnyCompanyAndHoldsWhatIsDeclared) {
  const RandomModel model = MakeRandomModel(TwiceRead("classification"));
  ExpectSameBitsInAnyCompany(*model, 150);
}

TEST(TwiceReadStack, RefusalsNameTheField) {
  const auto refusal = [](const char* key, const Json& value) {
    Json config = TwiceRead("classification");
    config[key] = value;
    return std::string(TryRandomModel(config).status().message());
  };
  EXPECT_THAT(refusal("decoder_start_token_id", nullptr), HasSubstr("decoder_start_token_id is missing"));
  EXPECT_THAT(refusal("type_vocab_size", 2), HasSubstr("type_vocab_size: 2"));
  EXPECT_THAT(refusal("decoder_layers", nullptr), HasSubstr("decoder_layers is not a list"));
}

}  // namespace
}  // namespace heed
