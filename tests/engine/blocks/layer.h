// A feed-forward of an example, with random weights, and rows that pass through it.
#ifndef HEED_TESTS_ENGINE_BLOCKS_LAYER_H_
#define HEED_TESTS_ENGINE_BLOCKS_LAYER_H_

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/blocks/feed_forward.h"

namespace heed {

using Numbers = std::vector<float>;

// Shapes of a dense feed-forward's tensors under `prefix`.
inline std::map<std::string, std::vector<int64_t>> DenseShapes(const std::string& prefix, int64_t width,
                                                               int64_t hidden, bool gated = false) {
  std::map<std::string, std::vector<int64_t>> shapes = {{prefix + "up.weight", {hidden, width}},
                                                        {prefix + "up.bias", {hidden}},
                                                        {prefix + "down.weight", {width, hidden}},
                                                        {prefix + "down.bias", {width}}};
  if (gated) shapes[prefix + "gate.weight"] = {hidden, width};
  return shapes;
}

struct FeedForwardExample {
  std::string type;
  std::string options = "{}";  // the layer's "ffn" object without its type
  int64_t width = 40;
  int64_t hidden = 72;
  std::string act = "gelu";
  std::map<std::string, std::vector<int64_t>> shapes;  // of its tensors
};

inline FeedForwardExample DenseExample(const std::string& act = "gelu") {
  FeedForwardExample example{.type = "dense", .act = act};
  example.shapes = DenseShapes("", example.width, example.hidden, ParseHiddenAct(act)->gated);
  return example;
}

inline FeedForwardExample XieluExample() {
  FeedForwardExample example = DenseExample();
  example.options = "{\"xielu\": true}";
  for (const char* number : {"alpha_p", "alpha_n", "beta", "eps"})
    example.shapes[std::string("xielu.") + number] = {1};
  return example;
}

inline FeedForwardExample MoeExample(int64_t experts, int64_t top_k, const std::string& act = "gelu") {
  FeedForwardExample example{.type = "moe", .act = act};
  example.options =
      "{\"experts\": " + std::to_string(experts) + ", \"top_k\": " + std::to_string(top_k) + "}";
  example.shapes["router.weight"] = {experts, example.width};
  for (int64_t e = 0; e < experts; ++e) {
    example.shapes.merge(DenseShapes("experts." + std::to_string(e) + ".", example.width, example.hidden,
                                     ParseHiddenAct(act)->gated));
  }
  return example;
}

// With an expert for all rows, wider than the width and narrower than the others.
inline FeedForwardExample SharedMoeExample(bool gated) {
  FeedForwardExample example = MoeExample(5, 3, "swiglu");
  example.options = std::string("{\"experts\": 5, \"top_k\": 3, \"shared_size\": 56, \"shared_gate\": ") +
                    (gated ? "true" : "false") + "}";
  example.shapes.merge(DenseShapes("shared.", example.width, 56, /*gated=*/true));
  if (gated) example.shapes["shared_gate.weight"] = {1, example.width};
  return example;
}

// The same with norms of what the experts and the shared one say, and scales of experts.
inline FeedForwardExample NormedMoeExample() {
  FeedForwardExample example = SharedMoeExample(false);
  example.options =
      "{\"experts\": 5, \"top_k\": 3, \"shared_size\": 56, \"result_norms\": true, "
      "\"expert_scale\": true}";
  example.shapes["router.expert_scale"] = {5};
  for (const char* norm : {"experts_norm", "shared_norm"}) {
    example.shapes[std::string(norm) + ".weight"] = {example.width};
    example.shapes[std::string(norm) + ".bias"] = {example.width};
  }
  return example;
}

struct PkmSizes {
  int64_t heads = 2, keys = 12, query = 10, top_k = 3;
};
inline FeedForwardExample PkmExample(const PkmSizes& sizes = {}) {
  FeedForwardExample example{.type = "pkm", .hidden = 0};
  example.options =
      "{\"num_heads\": " + std::to_string(sizes.heads) + ", \"n_keys\": " + std::to_string(sizes.keys) +
      ", \"d_k\": " + std::to_string(sizes.query) + ", \"top_k\": " + std::to_string(sizes.top_k) + "}";
  example.shapes = {{"query.weight", {sizes.heads * sizes.query, example.width}},
                    {"query.bias", {sizes.heads * sizes.query}},
                    {"sub_keys", {sizes.heads, 2, sizes.keys, sizes.query / 2}},
                    {"values", {sizes.keys * sizes.keys, example.width}}};
  return example;
}

// What the contract tests try. A type of feed_forwards.def that has none here fails.
inline std::vector<FeedForwardExample> FeedForwardExamples() {
  return {DenseExample(),
          DenseExample("swiglu"),
          MoeExample(1, 1),
          MoeExample(6, 1, "relu"),
          MoeExample(5, 2),
          MoeExample(3, 2, "geglu"),
          PkmExample(),
          PkmExample({5, 420, 6, 17}),
          PkmExample({1, 4, 14, 4}),
          SharedMoeExample(false),
          SharedMoeExample(true),
          NormedMoeExample(),
          XieluExample()};
}

// Normal numbers, matrices such that a product of normal numbers with them is normal.
inline std::map<std::string, Numbers> RandomTensors(const FeedForwardExample& example, int seed = 7) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::map<std::string, Numbers> tensors;
  for (const auto& [name, shape] : example.shapes) {
    const float scale = name.ends_with("weight") ? 1 / std::sqrt(static_cast<float>(shape.back())) : 1;
    Numbers& numbers = tensors[name];
    int64_t size = 1;
    for (int64_t dim : shape) size *= dim;
    for (int64_t i = 0; i < size; ++i) numbers.push_back(scale * normal(random));
  }
  return tensors;
}

class FeedForwardLayer {
 public:
  FeedForwardLayer(const FeedForwardExample& example, Precision precision)
      : FeedForwardLayer(example, precision, RandomTensors(example)) {}
  FeedForwardLayer(const FeedForwardExample& example, Precision precision,
                   std::map<std::string, Numbers> tensors)
      : example_(example), precision_(Supported(precision)), tensors_(std::move(tensors)) {
    std::map<std::string, Tensor> views;
    for (const auto& [name, shape] : example_.shapes)
      views[name] = {DType::kF32, shape, tensors_.at(name).data()};
    weights_ = Weights::Of(views);
    options_ = *ParseJson(example_.options, "options");
    options_["type"] = example_.type;
    const WeightScope scope(*weights_);
    auto feed_forward = New(options_, scope);
    CHECK(feed_forward.ok()) << feed_forward.status();
    CHECK(scope.AllUsed().ok()) << scope.AllUsed();
    feed_forward_ = *std::move(feed_forward);
  }

  // With its weights or those in `scope`.
  absl::StatusOr<std::unique_ptr<FeedForward>> New(const Json& options) const {
    return New(options, WeightScope(*weights_));
  }
  absl::StatusOr<std::unique_ptr<FeedForward>> New(const Json& options, const WeightScope& scope) const {
    const FeedForwardSetting setting{example_.width,
                                     example_.hidden,
                                     *ParseHiddenAct(example_.act),
                                     2,
                                     precision_,
                                     "config.json: layers[0].ffn"};
    JsonFields fields(options, setting.where);
    return NewFeedForward(setting, fields, scope);
  }

  const FeedForward& operator*() const { return *feed_forward_; }
  const FeedForward* operator->() const { return feed_forward_.get(); }
  const FeedForwardExample& example() const { return example_; }
  const Json& options() const { return options_; }
  Precision precision() const { return precision_; }
  int64_t width() const { return example_.width; }
  const Numbers& tensor(const std::string& name) const { return tensors_.at(name); }
  bool has(const std::string& name) const { return tensors_.contains(name); }

 private:
  FeedForwardExample example_;
  Precision precision_;
  std::map<std::string, Numbers> tensors_;
  std::unique_ptr<Weights> weights_;
  Json options_;
  std::unique_ptr<FeedForward> feed_forward_;
};

// Rows of normal numbers, as the layer's activation type holds them.
inline Numbers RandomInput(const FeedForwardLayer& layer, int64_t rows, int seed = 100) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Numbers x(rows * layer.width());
  for (float& number : x) {
    number = normal(random);
    if (ActivationType(layer.precision()) == DType::kBf16) number = ToFloat(ToBf16(number));
  }
  return x;
}

struct Passage {
  Numbers out;                    // [rows, width]
  bool scratch_grew = false;      // beyond what the feed-forward declares
  bool shared_overflows = false;  // the same of the team's memory
};

// The rows through the layer in one block, by so many threads as one team; added to `start`, if there is one.
inline Passage Pass(const FeedForwardLayer& layer, const Numbers& x, int team = 1,
                    const Numbers* start = nullptr) {
  constexpr int64_t kGuard = 64;
  const int64_t width = layer.width(), rows = static_cast<int64_t>(x.size()) / width;
  const int64_t shared = layer->SharedBytes(layer->block_rows());
  BlockBuffers buffers({.width = width,
                        .reads = std::max(width, layer->reads()),
                        .shared_bytes = shared + kGuard,
                        .rows = layer->block_rows()},
                       layer.precision());
  std::memset(buffers.shared.as<char>(), 0xff, buffers.shared.size());  // NaN: nobody may rely on it
  const Rows in = buffers.input.First(rows);
  for (int64_t i = 0; i < rows * width; ++i) {
    if (in.dtype == DType::kBf16) {
      in.As<Bf16>().row(i / width)[i % width] = ToBf16(x[i]);
    } else {
      in.As<float>().row(i / width)[i % width] = x[i];
    }
  }
  Passage passage{start ? *start : Numbers(rows * width, 1e30f)};
  const Matrix<float> out{passage.out.data(), rows, width, width};
  std::vector<Scratch> scratch(team);
  for (Scratch& own : scratch) own.Reserve(layer->scratch_bytes());
  const size_t reserved = scratch[0].bytes();
  Threads(team).RunTeam([&](Team& members) {
    RowBlock block{members, scratch[members.rank()], buffers, out};
    layer->Run(block, in, {.out = {DType::kF32, out.data, rows, width, width}, .add = start != nullptr});
  });
  for (const Scratch& own : scratch) passage.scratch_grew = passage.scratch_grew || own.bytes() > reserved;
  const auto* guard = buffers.shared.as<unsigned char>() + shared;
  for (int64_t i = 0; i < kGuard; ++i)
    passage.shared_overflows = passage.shared_overflows || guard[i] != 0xff;
  return passage;
}

// Row r of rows of so many numbers.
inline Numbers RowOf(const Numbers& rows, int64_t r, int64_t width) {
  return {rows.begin() + r * width, rows.begin() + (r + 1) * width};
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_BLOCKS_LAYER_H_
