// Types whose positions alone decide who sees whom: where patterns change, what they cost, what is refused.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

// Which block is the last one, and which random blocks there are, the sequence's own length decides.
TEST(Patterns, OfBigBirdFollowTheLength) {
  for (const AttentionExample& example : ExamplesOf("bigbird")) {
    const Layer layer(example, Precision::kF32);
    const int64_t block = layer.options()["block_size"];
    for (int64_t behind : {int64_t{1}, block - 1, block, block + 1, 2 * block, 2 * block + 1, 3 * block,
                           3 * block + 2, 4 * block + 1, 7 * block - 1, 10 * block + 3}) {
      const int64_t n = example.front + behind;
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < n; i += 1 + block / 3) rows.push_back(i);
      rows.push_back(n - 1);
      ExpectDefinition(Whole(layer, n), rows);
    }
  }
}

// A key that is near and of the row's residue counts once; with a stride of 1 all keys are.
TEST(Patterns, OfSparseStridedHoldAtEveryStride) {
  for (int64_t stride : {1, 2, 3, 8, 31, 32, 33, 90, 200, 400}) {
    for (const char* heads : {"merged", "split"}) {
      const AttentionExample example{"sparse_strided",
                                     Cat(R"({"stride": )", stride, R"(, "heads": ")", heads, R"("})")};
      const Layer layer(example, Precision::kF32);
      ExpectDefinition(Whole(layer, 300), {0, 1, 2, stride % 300, (stride + 1) % 300, (2 * stride - 1) % 300,
                                           64, 127, 128, 255, 299});
    }
  }
}

TEST(Patterns, OfPersistentMemoryHoldWithoutSlotsOrWindow) {
  for (int64_t slots : {0, 5}) {
    for (Place place : {Place::kDecoder, Place::kEncoder}) {
      const Layer layer({"persistent_memory", Cat(R"({"window": 0, "slots": )", slots, "}"), place},
                        Precision::kF32);
      ExpectDefinition(Whole(layer, 150), {0, 1, 70, 149});
    }
  }
}

// The pairs that are seen, of all heads.
double PairsOf(const Passage& passage, Sees sees) {
  const Layer& layer = passage.layer();
  double pairs = 0;
  for (int head = 0; head < layer.example().num_heads; ++head) {
    for (int64_t i = 0; i < passage.n(); ++i) {
      for (int64_t j = 0; j < (layer.causal() ? i + 1 : passage.n()); ++j)
        pairs += sees({&passage, i, j, head});
    }
  }
  const int64_t slots = layer.options().value("slots", int64_t{0});
  if (layer.options().value("first_block_count", 1) > 1) {  // keys that are read twice
    const int64_t block = layer.options()["block_size"], end = (passage.n() - 1) / block * block;
    pairs += static_cast<double>((end - block) * block * layer.example().num_heads);
  }
  return pairs + static_cast<double>(passage.n() * layer.example().num_heads * slots);
}

// Products of a pair's vectors: content with content, and each kind of distance that is scored beside it (He
// et al. 2021).
double ProductsOf(const Layer& layer) {
  if (layer.example().type != "disentangled") return 1;
  return 1 + (layer.options().value("c2p", true) ? 1 : 0) + (layer.options().value("p2c", true) ? 1 : 0);
}

// Multiply-adds that choosing keys takes for a pair of one head: all heads share an index's scores, which are
// computed twice (DeepSeek-V3.2, 2025).
double ChoosingOf(const Layer& layer) {
  if (!layer.options().contains("index")) return 0;
  const Json& index = layer.options()["index"];
  return 2 * index["heads"].get<double>() * index["head_dim"].get<double>() / layer.example().num_heads;
}

// Layers of Shaw's or Transformer-XL's distances do more for each pair.
TEST(Patterns, CostWhatTheySee) {
  constexpr int64_t kTokens = 500;
  std::set<std::string> held;
  for (const AttentionExample& example : AttentionExamples()) {
    const Sees sees = SeesOf(example.type);
    const Layer layer(example, Precision::kF32);
    if (sees == nullptr || layer.cross() || layer.options().contains("shaw") ||
        layer.tensors().contains("r.weight")) {
      continue;
    }
    const double dim = static_cast<double>(layer.attention().out_width()) / example.num_heads;
    const double each = 2 * dim * ProductsOf(layer) + ChoosingOf(layer);
    EXPECT_NEAR(layer.attention().Cost(kTokens, kTokens) / (each * PairsOf(Passage(layer, kTokens), sees)), 1,
                0.02)
        << example.type << example.options;
    held.insert(example.type);
  }
  EXPECT_GE(held.size(), 11u);
}

TEST(Patterns, RefuseWhatCannotBe) {
  const auto refused = [](const std::string& type, const std::vector<Refusal>& refusals) {
    const Layer layer(ExamplesOf(type).front(), Precision::kF32);
    const auto weights = Weights::Of({});
    ExpectRefused(layer, WeightScope(*weights), refusals);
  };
  refused("blockwise", {{Place::kDecoder, "{}", {"block is missing"}},
                        {Place::kDecoder, R"({"block": 0})", {"block", "0", "below 1"}},
                        {Place::kDecoder,
                         R"({"block": 4, "blocks_after": 1})",
                         {"blocks_after: blocks of later tokens in a decoder"}},
                        {Place::kCross, R"({"block": 4})", {"no cross-attention"}}});
  refused("image_local_1d", {{Place::kEncoder, R"({"query_block": 4, "memory_block": 4})", {"decoders only"}},
                             {Place::kDecoder, R"({"query_block": 4})", {"memory_block is missing"}}});
  refused("image_local_2d",
          {{Place::kDecoder, R"({"query_block": [4, 8], "memory": [2, 3]})", {"height and width"}},
           {Place::kDecoder,
            R"({"query_block": [4, 8], "memory": [2, 3], "height": 9, "width": 0})",
            {"width", "0", "below 1"}},
           {Place::kDecoder,
            R"({"query_block": [4, 8], "memory": [2, 3], "height": 900000, "width": 9000})",
            {"900000 x 9000"}},
           {Place::kEncoder,
            R"({"query_block": [4, 8], "memory": [2, 3], "height": 9, "width": 9})",
            {"decoders only"}},
           {Place::kCross,
            R"({"query_block": [4, 8], "memory": [2, 3], "height": 9, "width": 9})",
            {"decoders only"}},
           {Place::kDecoder, R"({"memory": [2, 3], "height": 9, "width": 9})", {"query_block is missing"}},
           {Place::kDecoder, R"({"query_block": [2, 3], "height": 9, "width": 9})", {"memory is missing"}},
           {Place::kDecoder,
            R"({"query_block": [4, 0], "memory": [2, 3], "height": 9, "width": 9})",
            {"query_block", "0", "from 1"}},
           {Place::kDecoder,
            R"({"query_block": [4, 4], "memory": [2], "height": 9, "width": 9})",
            {"memory", "[2]", "2 whole numbers"}}});
  refused("sparse_fixed",
          {{Place::kEncoder, R"({"stride": 4, "summary": 1})", {"decoders only"}},
           {Place::kDecoder, R"({"stride": 4, "summary": 5})", {"summary", "5", "above 4"}},
           {Place::kDecoder, R"({"stride": 4, "summary": 1, "heads": "two"})", {"heads", "two", "split"}}});
  refused("sparse_strided",
          {{Place::kDecoder, "{}", {"stride is missing"}},
           {Place::kCross, R"({"stride": 4})", {"decoders only"}},
           {Place::kEncoder, R"({"stride": 4})", {"decoders only"}},
           {Place::kDecoder, R"({"stride": 0})", {"stride", "0", "below 1"}},
           {Place::kDecoder, R"({"stride": 5000})", {"stride", "5000", "above 4096"}},
           {Place::kDecoder, R"({"stride": 4, "pattern": "summary"})", {"pattern", "summary", "strided"}},
           {Place::kDecoder, R"({"stride": 4, "heads": "two"})", {"heads", "two", "split"}}});
  refused("axial",
          {{Place::kDecoder, R"({"axis": "row"})", {"height"}},
           {Place::kDecoder, R"({"axis": "depth", "height": 4, "width": 4})", {"axis", "depth", "column"}},
           {Place::kDecoder, R"({"axis": 3, "shape": [2, 3, 4]})", {"axis", "3", "above 2"}},
           {Place::kDecoder, R"({"axis": 0, "shape": [2, 300, 400]})", {"axis", "65536"}},
           {Place::kDecoder, R"({"axis": 2, "shape": [100000, 30000, 400]})", {"grid", "above"}}});
  refused("persistent_memory",
          {{Place::kDecoder, "{}", {"slots is missing"}},
           {Place::kDecoder, R"({"slots": 4, "window": -1})", {"window", "-1", "below 0"}},
           {Place::kDecoder, R"({"slots": 4})", {"q.weight"}}});
  refused("bigbird",
          {{Place::kEncoder, "{}", {"block_size is missing"}},
           {Place::kEncoder,
            R"({"block_size": 4, "num_blocks": 2, "num_random_blocks": 0})",
            {"num_blocks", "2", "below 3"}},
           {Place::kEncoder,
            R"({"block_size": 4, "num_blocks": 9, "num_random_blocks": -1})",
            {"num_random_blocks", "-1", "below 0"}},
           {Place::kEncoder,
            R"({"block_size": 4, "num_blocks": 9, "num_random_blocks": 0, "form": "etc", "full_up_to": 9})",
            {"full_up_to", "itc"}},
           {Place::kEncoder,
            R"({"block_size": 4, "num_blocks": 9, "num_random_blocks": 0, "form": "etc"})",
            {"form", "etc", "extra_global_tokens"}},
           {Place::kEncoder,
            R"({"block_size": 4, "num_blocks": 9, "num_random_blocks": 0, "form": "itt"})",
            {"form", "itt", "itc"}},
           {Place::kDecoder, R"({"block_size": 4, "num_blocks": 9, "num_random_blocks": 0})", {"encoders"}},
           {Place::kCross, R"({"block_size": 4, "num_blocks": 9, "num_random_blocks": 0})", {"encoders"}},
           {Place::kEncoder,
            R"({"block_size": 1000000, "num_blocks": 100000, "num_random_blocks": 0})",
            {"num_blocks", "100000000000", "above 1073741824"}},
           {Place::kEncoder,
            R"({"block_size": 4, "num_blocks": 9, "num_random_blocks": 2})",
            {"random_blocks", "[4, 7, 2]", "missing"}}});
}

}  // namespace
}  // namespace heed
