// Shaw's relative position vectors wherever the clip is, against the definition, which has a vector for each
// row and key; their work.
#include <string>
#include <vector>

#include "engine/attention/key_value_pages.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/softmax.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Shaw(const std::string& options, Place place = Place::kDecoder) {
  return {"softmax", options, place};
}

void ExpectTheDefinition(const AttentionExample& example, int64_t n, const std::vector<int64_t>& rows,
                         Precision precision = Precision::kF32) {
  const Layer layer(example, precision);
  ExpectDefinition(Whole(layer, n), rows, {.bounds = layer.type() == DType::kF32 ? 1.0 : 4000.0});
}

std::vector<AttentionExample> Examples() {
  std::vector<AttentionExample> examples = ExamplesOf("softmax");
  std::erase_if(examples,
                [](const AttentionExample& e) { return e.options.find("shaw") == std::string::npos; });
  return examples;
}

TEST(Shaw, IsTheDefinition) {
  EXPECT_GE(Examples().size(), 5);
  for (const AttentionExample& example : Examples()) {
    for (int64_t n : {1, 2, 37}) ExpectTheDefinition(example, n, {0, n / 2, n - 1});
    for (Precision precision : {Precision::kF32, Supported(Precision::kBf16)})
      ExpectTheDefinition(example, 620, {0, 1, 5, 127, 128, 149, 150, 255, 256, 300, 511, 512, 619},
                          precision);
  }
}

// Which distances lie in one block of keys, in one panel of the table.
TEST(Shaw, IsTheDefinitionWhereverTheClipIs) {
  for (int64_t clip : {1, 15, 16, 31, 32, 63, 127, 128, 255, 256, 512, 4000}) {
    const std::string options = Cat(R"({"shaw": {"max_distance": )", clip, "}}");
    for (Place place : {Place::kDecoder, Place::kEncoder})
      ExpectTheDefinition(Shaw(options, place), 600, {0, 31, 32, 200, 256, 599});
  }
}

TEST(Shaw, JoinsOtherBiasesByDistance) {
  for (Place place : {Place::kDecoder, Place::kEncoder})
    ExpectTheDefinition(Shaw(R"({"shaw": {"max_distance": 70}, "alibi": true})", place), 600,
                        {0, 80, 300, 599});
}

// More heads than a tile has rows.
TEST(Shaw, TakesManyHeadsOfOneKey) {
  for (bool per_head : {false, true}) {
    const AttentionExample example{"softmax",
                                   Cat(R"({"shaw": {"max_distance": 3, "per_head": )",
                                       per_head ? "true" : "false", R"(}, "num_key_value_heads": 1})"),
                                   Place::kDecoder, 140, 140};
    ExpectTheDefinition(example, 40, {0, 3, 17, 39});
  }
}

// Few rows of many keys attend part by part.
TEST(Shaw, StepsThatReadManyKeysAreTheWhole) {
  for (const char* options : {R"({"shaw": {"max_distance": 12}})", R"({"shaw": {"max_distance": 4096}})"}) {
    const Layer layer(Shaw(options), Precision::kF32);
    EXPECT_LE(DifferenceOfSteps(layer, 9000, 8980, 4), 1e-5);
  }
}

// Of each row a product with each panel of the table that its distances fall on, once; and, with each block
// of keys, one with the distances that are there, in whole panels.
TEST(Shaw, MultipliesNothingByDistancesThatAreNotThere) {
  const auto multiply_adds = [](const AttentionExample& example) {
    return MultiplyAddsOf(Layer(example, Precision::kF32), 2048);
  };
  const AttentionExample plain{"softmax", "{}", Place::kEncoder};
  const int64_t rows = 2048 * 4, blocks = 2048 / kKeyBlock, without = multiply_adds(plain);
  // 31 distances are a panel, and computed for values of 16 columns.
  const AttentionExample near = Shaw(R"({"shaw": {"max_distance": 15}})", Place::kEncoder);
  EXPECT_LE(multiply_adds(near) - without, rows * (32 * 8 + blocks * 32 * 16));
  // Of a far clip each block of a tile meets kKeyBlock + 127 distances, which begin anywhere in a panel.
  const AttentionExample far = Shaw(R"({"shaw": {"max_distance": 4000}})", Place::kEncoder);
  EXPECT_LE(multiply_adds(far) - without, rows * ((2048 + 192) * 8 + blocks * (kKeyBlock + 192) * 16));
}

TEST(Shaw, ADecoderKeepsNoDistancesAhead) {
  const Layer decoder(Shaw(R"({"shaw": {"max_distance": 1000}})"), Precision::kF32);
  const Layer encoder(Shaw(R"({"shaw": {"max_distance": 1000}})", Place::kEncoder), Precision::kF32);
  EXPECT_EQ(decoder.attention().constant_bytes(), 2 * 1024 * 16 * 4 - 1024 * 8 * 4);
  EXPECT_EQ(encoder.attention().constant_bytes(), 2 * (2 * 1024 * 16 * 4 - 1024 * 8 * 4));
}

TEST(Shaw, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, R"({"shaw": {}})", {"layers[0].attention.shaw", "max_distance is missing"}},
      {Place::kDecoder, R"({"shaw": {"max_distance": 0}})", {"shaw.max_distance", "0", "below 1"}},
      {Place::kDecoder, R"({"shaw": {"max_distance": 4097}})", {"shaw.max_distance", "4097", "above 4096"}},
      {Place::kDecoder, R"({"shaw": {"max_distance": 4, "clip": 3}})", {"shaw", "clip"}},
      {Place::kDecoder, R"({"shaw": {"max_distance": 4}, "rope": {}})", {"shaw", "not with rope"}},
      {Place::kDecoder,
       R"({"shaw": {"max_distance": 4}, "window": 9, "sinks": 1})",
       {"shaw", "not with sinks"}},
      {Place::kCross, R"({"shaw": {"max_distance": 4}})", {"shaw", "another sequence"}},
      {Place::kDecoder,
       R"({"shaw": {"max_distance": 4}})",
       {"shaw_keys", "[31, 8]", "[9, 8]"}},  // the tensor's shape and the wanted one
      {Place::kDecoder, R"({"shaw": {"max_distance": 15, "per_head": true}})", {"shaw_keys", "[4, 31, 8]"}},
  };
  const Layer layer(Shaw(R"({"shaw": {"max_distance": 15}})"), Precision::kF32);
  ExpectRefused(layer, layer.scope(), refusals);
}

TEST(SumWeights, SumsTheColumnsAskedForAndNoOthers) {
  for (DType type : {DType::kF32, DType::kBf16}) {
    OwnedRows weights(type, 2, 256);
    for (int64_t c = 0; c < 256; ++c) weights.Set(1, c, static_cast<float>(1 + c % 3));
    for (const auto& [begin, end] :
         std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {3, 7}, {5, 64}, {15, 17}, {200, 256}, {9, 251}}) {
      double sum = 0;
      for (int c = begin; c < end; ++c) sum += 1 + c % 3;
      EXPECT_EQ(SumWeights(weights.rows(), 1, begin, end), sum) << begin << " " << end;
    }
  }
}

}  // namespace
}  // namespace heed
