// Who sees whom, written out after the papers, one row a variant whose positions alone decide it; and the
// softmax over those keys in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

// A row and a key of a sequence of n.
struct Pair {
  int64_t i, j, n;
  int head;
  const Layer* layer;

  int heads() const { return layer->example().num_heads; }
};
using Sees = std::function<bool(const Json& options, const Pair& at)>;

bool SparseFixed(const Json& o, const Pair& at) {
  const int64_t stride = o["stride"], summary = o["summary"];
  const std::string pattern = o.value("pattern", "both");
  const bool local = at.j / stride == at.i / stride, summaries = at.j % stride >= stride - summary;
  if (pattern != "both") return pattern == "local" ? local : summaries;
  if (o.value("heads", "merged") == "split") return 2 * at.head < at.heads() ? local : summaries;
  return local || summaries;
}

bool SparseStrided(const Json& o, const Pair& at) {
  const int64_t stride = o["stride"];
  const std::string pattern = o.value("pattern", "both");
  const bool local = at.j >= at.i - stride, strided = (at.i - at.j) % stride == 0;
  if (pattern != "both") return pattern == "local" ? local : strided;
  if (o.value("heads", "merged") == "split") return 2 * at.head < at.heads() ? local : strided;
  return local || strided;
}

bool Axial(const Json& o, const Pair& at) {
  std::vector<int64_t> shape;
  int64_t axis;
  if (o.contains("shape")) {
    shape = o["shape"].get<std::vector<int64_t>>();
    axis = o["axis"];
  } else {
    shape = {o["height"], o["width"]};
    axis = o["axis"] == "row" ? 1 : 0;
  }
  int64_t i = at.i, j = at.j;
  for (int64_t a = std::ssize(shape) - 1; a >= 0; --a) {
    if (a != axis && i % shape[a] != j % shape[a]) return false;
    i /= shape[a];
    j /= shape[a];
  }
  return true;
}

bool BigBird(const Json& o, const Pair& at) {
  const int64_t size = o["block_size"], blocks = o["num_blocks"], randoms = o["num_random_blocks"];
  const int64_t i = at.i / size, j = at.j / size, last = (at.n - 1) / size;
  if (i == 0 || i == last || j == 0 || j == last || std::abs(i - j) <= 1) return true;
  if (randoms == 0) return false;
  const int64_t* drawn = at.layer->integers("random_blocks") + (at.head * (blocks - 2) + i - 1) * randoms;
  return std::count(drawn, drawn + randoms, j) > 0;
}

// [pixel] its row and column, in the order of generation.
const std::vector<std::array<int64_t, 2>>& GenerationOrder(const Json& o) {
  static std::map<std::array<int64_t, 4>, std::vector<std::array<int64_t, 2>>> orders;
  const int64_t height = o["height"], width = o["width"], h = o["query_block"][0], w = o["query_block"][1];
  auto& order = orders[{height, width, h, w}];
  if (!order.empty()) return order;
  for (int64_t row = 0; row < height; ++row) {
    for (int64_t column = 0; column < width; ++column) order.push_back({row, column});
  }
  std::ranges::stable_sort(order, {}, [&](const auto& p) { return std::pair(p[0] / h, p[1] / w); });
  return order;
}

bool ImageLocal2d(const Json& o, const Pair& at) {
  const int64_t h = o["query_block"][0], w = o["query_block"][1];
  const auto& order = GenerationOrder(o);
  const auto [row, column] = order[at.i];
  const int64_t top = row / h * h - o["memory"][0].get<int64_t>(), side = o["memory"][1],
                left = column / w * w;
  const auto [key_row, key_column] = order[at.j];
  return key_row >= top && key_column >= left - side && key_column < left + w + side;
}

// In a decoder j <= i on top.
const std::map<std::string, Sees> kSees = {
    {"blockwise",
     [](const Json& o, const Pair& at) {
       return at.i / o["block"].get<int64_t>() == at.j / o["block"].get<int64_t>();
     }},
    {"image_local_1d",
     [](const Json& o, const Pair& at) {
       const int64_t block = o["query_block"];
       return at.j >= at.i / block * block - o["memory_block"].get<int64_t>();
     }},
    {"image_local_2d", ImageLocal2d},
    {"sparse_fixed", SparseFixed},
    {"sparse_strided", SparseStrided},
    {"axial", Axial},
    {"persistent_memory",
     [](const Json& o, const Pair& at) {
       const int64_t window = o.value("window", int64_t{0});
       if (window == 0) return true;
       return at.layer->causal() ? at.i - at.j < window : std::abs(at.i - at.j) <= window / 2;
     }},
    {"bigbird", BigBird},
};

// One row of one head: q.k and the values of what it sees, and of the learned vectors if there are any.
std::vector<double> Definition(const Layer& layer, const Passage& passage, const Sees& sees, int64_t i,
                               int head) {
  const int heads = layer.example().num_heads;
  const int64_t dim = layer.example().width / heads;
  std::vector<double> result(dim);
  double sum = 0;
  const auto add = [&](const auto& key, const auto& value) {
    double score = 0;
    for (int64_t t = 0; t < dim; ++t) score += passage.product(0).At(i, head * dim + t) * key(t);
    const double p = std::exp(score / std::sqrt(static_cast<double>(dim)));
    sum += p;
    for (int64_t t = 0; t < dim; ++t) result[t] += p * value(t);
  };
  for (int64_t j = 0; j < passage.n(); ++j) {
    if ((layer.causal() && j > i) || !sees(layer.options(), {i, j, passage.n(), head, &layer})) continue;
    add([&](int64_t t) { return passage.product(1).At(j, head * dim + t); },
        [&](int64_t t) { return passage.product(2).At(j, head * dim + t); });
  }
  for (int64_t s = 0; s < layer.options().value("slots", int64_t{0}); ++s) {
    const int64_t at = (head * layer.options()["slots"].get<int64_t>() + s) * dim;
    add([&](int64_t t) { return layer.tensor("pk")[at + t]; },
        [&](int64_t t) { return layer.tensor("pv")[at + t]; });
  }
  for (double& x : result) x = sum > 0 ? x / sum : 0;
  return result;
}

void ExpectDefinition(const Layer& layer, const Sees& sees, int64_t n, const std::vector<int64_t>& rows) {
  const Passage passage = Whole(layer, n);
  for (int64_t i : rows) {
    for (int head = 0; head < layer.example().num_heads; ++head) {
      const std::vector<double> expected = Definition(layer, passage, sees, i, head);
      for (int64_t t = 0; t < std::ssize(expected); ++t) {
        ASSERT_NEAR(passage.out().At(i, head * std::ssize(expected) + t), expected[t], 2e-5)
            << layer.example().type << layer.example().options << " row " << i << " of " << n << " head "
            << head;
      }
    }
  }
}

TEST(Patterns, SeeWhatTheirPapersSay) {
  int tried = 0;
  for (const AttentionExample& example : AttentionExamples()) {
    const auto sees = kSees.find(example.type);
    if (sees == kSees.end()) continue;
    ++tried;
    ExpectDefinition(Layer(example, Precision::kF32), sees->second, 620,
                     {0, 1, 15, 16, 31, 32, 63, 64, 99, 100, 127, 128, 255, 256, 300, 499, 500, 619});
  }
  EXPECT_GE(tried, std::ssize(kSees));
}

// Which block is the last one, and which random blocks there are, the sequence's own length decides.
TEST(Patterns, OfBigBirdFollowTheLength) {
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type != "bigbird") continue;
    const Layer layer(example, Precision::kF32);
    const int64_t block = layer.options()["block_size"];
    for (int64_t n : {int64_t{1}, block - 1, block, block + 1, 2 * block, 2 * block + 1, 3 * block,
                      3 * block + 2, 4 * block + 1, 7 * block - 1, 10 * block + 3}) {
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < n; i += 1 + block / 3) rows.push_back(i);
      rows.push_back(n - 1);
      ExpectDefinition(layer, BigBird, n, rows);
    }
  }
}

// A key that is near and of the row's residue counts once; with a stride of 1 all keys are.
TEST(Patterns, OfSparseStridedHoldAtEveryStride) {
  for (int64_t stride : {1, 2, 3, 8, 31, 32, 33, 90, 200, 400}) {
    for (const char* heads : {"merged", "split"}) {
      const AttentionExample example{"sparse_strided",
                                     Cat(R"({"stride": )", stride, R"(, "heads": ")", heads, R"("})"),
                                     Place::kDecoder,
                                     32,
                                     4,
                                     QueryKeyValue(32, 32, 32)};
      ExpectDefinition(
          Layer(example, Precision::kF32), SparseStrided, 300,
          {0, 1, 2, stride % 300, (stride + 1) % 300, (2 * stride - 1) % 300, 64, 127, 128, 255, 299});
    }
  }
}

TEST(Patterns, OfPersistentMemoryHoldWithoutSlotsOrWindow) {
  for (int64_t slots : {0, 5}) {
    for (Place place : {Place::kDecoder, Place::kEncoder}) {
      const AttentionExample example{"persistent_memory",
                                     Cat(R"({"window": 0, "slots": )", slots, "}"),
                                     place,
                                     32,
                                     4,
                                     WithPersistentVectors(32, 4, slots)};
      ExpectDefinition(Layer(example, Precision::kF32), kSees.at("persistent_memory"), 150, {0, 1, 70, 149});
    }
  }
}

// Cost counts the pairs that are seen, of all heads.
TEST(Patterns, CostWhatTheySee) {
  for (const AttentionExample& example : AttentionExamples()) {
    const auto sees = kSees.find(example.type);
    if (sees == kSees.end()) continue;
    const Layer layer(example, Precision::kF32);
    constexpr int64_t kTokens = 500;
    double pairs = 0;
    for (int head = 0; head < example.num_heads; ++head) {
      for (int64_t i = 0; i < kTokens; ++i) {
        for (int64_t j = 0; j < kTokens; ++j) {
          if (layer.causal() && j > i) continue;
          pairs += sees->second(layer.options(), {i, j, kTokens, head, &layer});
        }
      }
    }
    pairs += static_cast<double>(kTokens * example.num_heads * layer.options().value("slots", int64_t{0}));
    const double dim = static_cast<double>(example.width) / example.num_heads;
    EXPECT_NEAR(layer.attention().Cost(kTokens, kTokens) / (2 * dim * pairs), 1, 0.02)
        << example.type << example.options;
  }
}

TEST(Patterns, RefuseWhatCannotBe) {
  const auto refused = [](const std::string& type, const std::vector<Refusal>& refusals) {
    const std::vector<AttentionExample> all = AttentionExamples();
    const Layer layer(*std::ranges::find(all, type, &AttentionExample::type), Precision::kF32);
    const auto weights = Weights::Of({});
    ExpectRefused(layer, WeightScope(*weights), refusals);
  };
  refused("blockwise", {{Place::kDecoder, "{}", {"block is missing"}},
                        {Place::kDecoder, R"({"block": 0})", {"block", "0", "below 1"}},
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
            R"({"block_size": 4, "num_blocks": 9, "num_random_blocks": 0, "form": "etc"})",
            {"form", "etc", "not served yet"}},
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
