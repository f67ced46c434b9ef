// `compressive` against its definition, written out in double after the paper.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention/key_value_pages.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"
#include "tests/engine/attention/relative_score.h"

namespace heed {
namespace {

using Numbers = std::vector<double>;

// A row that a token sees: its key and its value, of all heads.
struct Seen {
  Numbers key, value;
};

struct Definition {
  explicit Definition(const Layer& layer)
      : layer(layer),
        width(layer.example().width),
        dim(width / layer.example().num_heads),
        segment(layer.options()["segment"]),
        memory(layer.options()["memory"]),
        compressed_memory(layer.options()["compressed_memory"]),
        rate(layer.options()["rate"]),
        compression(layer.options().value("compression", "conv")) {}

  // What stands for the inputs from `first` on.
  Numbers Compressed(const Passage& passage, int64_t first) const {
    const bool conv = compression == "conv", max = compression == "max";
    Numbers row(width, max ? -INFINITY : 0.0);
    for (int64_t a = 0; a < width; ++a) {
      if (conv && layer.example().tensors.contains("compress.bias"))
        row[a] = layer.tensor("compress.bias")[a];
      for (int64_t t = 0; t < rate; ++t) {
        const OwnedRows& x = passage.input();
        if (max) row[a] = std::max(row[a], x.At(first + t, a));
        if (compression == "mean") row[a] += x.At(first + t, a) / static_cast<double>(rate);
        for (int64_t b = 0; b < width && conv; ++b)
          row[a] += layer.tensor("compress.weight")[(a * width + b) * rate + t] * x.At(first + t, b);
      }
    }
    return row;
  }

  Numbers Product(const std::string& name, const Numbers& row) const {
    Numbers product(width);
    for (int64_t a = 0; a < width; ++a) {
      if (layer.example().tensors.contains(name + ".bias")) product[a] = layer.tensor(name + ".bias")[a];
      for (int64_t b = 0; b < width; ++b)
        product[a] += layer.tensor(name + ".weight")[a * width + b] * row[b];
    }
    return product;
  }

  Seen SeenOf(const Numbers& row) const {
    double squares = 0;
    for (double x : row) squares += x * x;
    Numbers normed = row;  // as Layer's norm
    for (double& x : normed) x *= 0.7f / std::sqrt(squares / static_cast<double>(width) + 1e-5);
    return {Product("k", normed), Product("v", normed)};
  }

  Seen Token(const Passage& passage, int64_t i) const {
    Seen seen{Numbers(width), Numbers(width)};
    for (int64_t c = 0; c < width; ++c) {
      seen.key[c] = passage.product(1).At(i, c);
      seen.value[c] = passage.product(2).At(i, c);
    }
    return seen;
  }

  // What token i sees, the oldest first: segment by segment, as both memories are filled.
  std::vector<Seen> List(const Passage& passage, int64_t i) const {
    std::vector<int64_t> kept;    // tokens of the memory
    std::vector<int64_t> groups;  // first tokens of what the compressed memory stands for
    int64_t first = 0;
    for (; first + segment <= i; first += segment) {
      for (int64_t t = first; t < first + segment; ++t) kept.push_back(t);
      if (std::ssize(kept) <= memory) continue;
      for (int64_t g = 0; g < segment; g += rate) groups.push_back(kept[g]);
      kept.erase(kept.begin(), kept.begin() + segment);
    }
    if (std::ssize(groups) > compressed_memory)
      groups.erase(groups.begin(), groups.end() - compressed_memory);
    std::vector<Seen> list;
    for (int64_t group : groups) list.push_back(SeenOf(Compressed(passage, group)));
    for (int64_t token : kept) list.push_back(Token(passage, token));
    for (int64_t token = first; token <= i; ++token) list.push_back(Token(passage, token));
    return list;
  }

  Numbers Row(const Passage& passage, int64_t i, int head) const {
    const std::vector<Seen> list = List(passage, i);
    Numbers scores, result(dim);
    for (size_t j = 0; j < list.size(); ++j) {
      const auto key = [&](int64_t c) { return list[j].key[c]; };
      scores.push_back(
          RelativeScore(layer, passage, i, head, key, static_cast<int64_t>(list.size() - 1 - j)));
    }
    const double largest = *std::ranges::max_element(scores);
    double sum = 0;
    for (size_t j = 0; j < list.size(); ++j) {
      const double p = std::exp(scores[j] - largest);
      sum += p;
      for (int64_t t = 0; t < dim; ++t) result[t] += p * list[j].value[head * dim + t];
    }
    for (double& x : result) x /= sum;
    return result;
  }

  const Layer& layer;
  int64_t width, dim, segment, memory, compressed_memory, rate;
  std::string compression;
};

AttentionExample Mean(const std::string& options) {
  Json fields = *ParseJson(options, "options");
  fields["compression"] = "mean";
  return {"compressive", fields.dump(), Place::kDecoder, 32, 4, WithCompressedMemory(32, 4)};
}

std::vector<AttentionExample> Examples() {
  std::vector<AttentionExample> examples;
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type == "compressive") examples.push_back(example);
  }
  return examples;
}

void ExpectDefinition(const AttentionExample& example, int64_t n, const std::vector<int64_t>& rows) {
  const Layer layer(example, Precision::kF32);
  const Definition definition(layer);
  const Passage passage = Whole(layer, n);
  for (int64_t i : rows) {
    for (int head = 0; head < example.num_heads; ++head) {
      const Numbers expected = definition.Row(passage, i, head);
      for (int64_t t = 0; t < definition.dim; ++t) {
        ASSERT_NEAR(passage.out().At(i, head * definition.dim + t), expected[t], 2e-4)
            << example.options << " row " << i << " head " << head;
      }
    }
  }
}

// Rows at the beginnings and ends of segments, in tiles that lie across several, and when the compressed
// memory is full.
TEST(Compressive, IsTheDefinition) {
  for (const AttentionExample& example : Examples()) {
    ExpectDefinition(example, 820,
                     {0,   1,   4,   5,   14,  15,  19,  20,  24,  71,  72,  73,  95,  96,  127, 128,
                      149, 150, 151, 209, 210, 299, 300, 301, 420, 449, 640, 700, 719, 720, 819});
  }
}

// So wide that the products of compressed rows are several tasks, and so narrow that theirs fill no vector.
TEST(Compressive, IsTheDefinitionOfWideAndNarrowLayers) {
  for (const auto& [width, heads] : std::vector<std::pair<int64_t, int>>{{192, 3}, {30, 5}}) {
    ExpectDefinition({"compressive", R"({"segment": 6, "memory": 12, "compressed_memory": 7, "rate": 3})",
                      Place::kDecoder, width, heads, WithCompressedMemory(width, heads, 3)},
                     150, {17, 18, 23, 24, 149});
  }
}

TEST(Compressive, IsTheDefinitionWhereAMemoryHoldsNothing) {
  for (const char* options : {R"({"segment": 8, "memory": 16, "compressed_memory": 0, "rate": 2})",
                              R"({"segment": 24, "memory": 0, "compressed_memory": 0, "rate": 4})",
                              R"({"segment": 6, "memory": 0, "compressed_memory": 5, "rate": 1})"})
    ExpectDefinition(Mean(options), 300, {0, 7, 8, 15, 16, 23, 24, 25, 47, 48, 127, 128, 160, 255, 299});
}

// Few rows of many keys attend part by part.
TEST(Compressive, StepsWithLargeMemoriesAreTheWhole) {
  const Layer layer(
      Mean(R"({"segment": 100, "memory": 5000, "compressed_memory": 5000, "rate": 1, "clamp_length": 300})"),
      Precision::kF32);
  EXPECT_LE(DifferenceOfSteps(layer, 11000, 10980, 4), 1e-5);
}

// Keys and values of both memories and of the segment, as pages hold them, and one open group: no inputs.
TEST(Compressive, TheStateIsKeysValuesAndOneRow) {
  const Layer layer(Mean(R"({"segment": 128, "memory": 256, "compressed_memory": 120, "rate": 16})"),
                    Precision::kF32);
  const auto pages = [](int64_t rows) { return 4 * KeyValuePages::Bytes(DType::kF32, 8, 0, rows); };
  // 384 tokens and, of groups, 120 and 24 in memory and segment: each in whole pages and one more.
  const int64_t expected = pages(512) + pages(384) + 32 * 4 + 8;
  EXPECT_EQ(layer.attention().StateBytes(1 << 20), expected);
  EXPECT_EQ(layer.attention().StateBytes(6000), expected);
}

// Whatever the position, and also where segments and groups end.
TEST(Compressive, AStepCostsTheSameForEver) {
  for (const AttentionExample& example : Examples()) {
    const Layer layer(example, Precision::kF32);
    const auto run = layer.attention().Start();
    Passage passage(layer, 2600);
    const auto most = [&](int64_t begin, int64_t end) {
      int64_t calls = 0;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t before = MicroKernel::Calls();
        passage.Extend(*run, i, i + 1);
        calls = std::max(calls, MicroKernel::Calls() - before);
      }
      return calls;
    };
    passage.Extend(*run, 0, 1000);
    const int64_t early = most(1000, 1300);
    passage.Extend(*run, 1300, 2300);
    EXPECT_LE(most(2300, 2600), early + early / 4) << example.options;
  }
}

TEST(Compressive, CostsWhatItSeesAndMakes) {
  for (const AttentionExample& example : Examples()) {
    const Layer layer(example, Precision::kF32);
    const Definition definition(layer);
    constexpr int64_t kTokens = 400;
    const Passage passage(layer, kTokens);
    const auto width = static_cast<double>(definition.width);
    for (int64_t rows : {kTokens, int64_t{70}}) {
      double seen = 0, groups = 0;
      for (int64_t i = kTokens - rows; i < kTokens; ++i) {
        // As many as the list has, without what it holds.
        const int64_t before = i / definition.segment * definition.segment,
                      left = std::max<int64_t>(0, before - definition.memory);
        seen += static_cast<double>(i + 1 - left +
                                    std::min(definition.compressed_memory, left / definition.rate));
        groups += (i + 1) % definition.rate == 0;
      }
      const double folded =
          static_cast<double>(rows) * width * (definition.compression == "conv" ? width : 1);
      EXPECT_DOUBLE_EQ(layer.attention().Cost(rows, kTokens),
                       3 * width * seen + folded + groups * 3 * width * width)
          << example.options;
    }
    EXPECT_EQ(std::ssize(definition.List(passage, kTokens - 1)),
              std::lround((layer.attention().Cost(1, kTokens) -
                           width * (definition.compression == "conv" ? width : 1) -
                           (kTokens % definition.rate == 0 ? 3 * width * width : 0)) /
                          (3 * width)));
  }
}

TEST(Compressive, RefusesWhatCannotBe) {
  const std::string whole = R"({"segment": 8, "memory": 16, "compressed_memory": 4, "rate": 2)";
  const auto with = [&](const char* more) { return whole + more + "}"; };
  const std::string median = with(R"(, "compression": "median")"), clamp = with(R"(, "clamp_length": -1)"),
                    plain = with("");
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, "{}", {"layers[0].attention", "segment is missing"}},
      {Place::kDecoder,
       R"({"segment": 8, "memory": 12, "compressed_memory": 4, "rate": 2})",
       {"memory: 12", "multiple", "segment: 8"}},
      {Place::kDecoder,
       R"({"segment": 8, "memory": 16, "compressed_memory": 4, "rate": 3})",
       {"rate: 3", "divide", "segment: 8"}},
      {Place::kDecoder,
       R"({"segment": 8, "memory": 16, "compressed_memory": -1, "rate": 2})",
       {"compressed_memory", "-1", "below 0"}},
      {Place::kDecoder,
       R"({"segment": 70000, "memory": 0, "compressed_memory": 1, "rate": 2})",
       {"segment", "70000", "65536"}},
      {Place::kDecoder, median.c_str(), {"compression", "median", "conv"}},
      {Place::kDecoder, clamp.c_str(), {"clamp_length", "-1", "below 0"}},
      {Place::kEncoder, plain.c_str(), {"decoders only"}},
      {Place::kCross, plain.c_str(), {"decoders only"}},
  };
  const Layer layer(Examples().front(), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(layer, WeightScope(*weights), refusals);
  ExpectRefused(layer, layer.scope(),
                {{Place::kDecoder, plain.c_str(), {"compress.weight", "[32, 32, 4]", "[32, 32, 2]"}}});
}

TEST(Compressive, RefusesATableThatIsTooLarge) {
  const AttentionSetting setting{
      .width = 8192, .num_heads = 64, .causal = true, .where = "layers[0].attention"};
  const auto weights = Weights::Of({});
  const Json options = *ParseJson(
      R"({"type": "compressive", "segment": 65536, "memory": 65536, "compressed_memory": 65536, "rate": 8})",
      "options");
  JsonFields fields(options, setting.where);
  EXPECT_THAT(
      std::string(NewAttention(setting, fields, WeightScope(*weights)).status().message()),
      testing::AllOf(testing::HasSubstr("compressed_memory: 65536"), testing::HasSubstr("1073741824")));
}

}  // namespace
}  // namespace heed
