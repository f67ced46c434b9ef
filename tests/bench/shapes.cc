#include "tests/bench/shapes.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace heed {
namespace {

Json BertLike(int layers, int width, int hidden) {
  return {{"model_type", "heed"},      {"architecture", "encoder"},
          {"vocab_size", 30522},       {"hidden_size", width},
          {"num_attention_heads", 12}, {"intermediate_size", hidden},
          {"hidden_act", "gelu"},      {"norm", "post"},
          {"positions", "learned"},    {"head", "classification"},
          {"num_labels", 2},           {"max_position_embeddings", 512},
          {"layer_norm_eps", 1e-12},   {"layers", Layers(layers, {{"type", "full"}})}};
}

}  // namespace

Json Layers(int count, const Json& attention) {
  Json layers = Json::array();
  for (int i = 0; i < count; ++i) layers.push_back({{"attention", attention}, {"ffn", {{"type", "dense"}}}});
  return layers;
}

Json BertBase() { return BertLike(12, 768, 3072); }
Json MiniLm() { return BertLike(6, 384, 1536); }

Json Llama135M() {
  Json attention = {{"type", "softmax"}, {"num_key_value_heads", 3}, {"rope", {{"theta", 10000}}}};
  return {{"model_type", "heed"},     {"architecture", "decoder"},
          {"vocab_size", 49152},      {"hidden_size", 576},
          {"num_attention_heads", 9}, {"intermediate_size", 1536},
          {"hidden_act", "swiglu"},   {"norm", "pre"},
          {"norm_type", "rms"},       {"head", "lm"},
          {"attention_bias", false},  {"layers", Layers(30, attention)}};
}

Json LongDecoder() {
  Json attention = {{"type", "softmax"}, {"rope", {{"theta", 10000}}}};
  return {{"model_type", "heed"},
          {"architecture", "decoder"},
          {"vocab_size", 256},
          {"hidden_size", 256},
          {"num_attention_heads", 4},
          {"intermediate_size", 1024},
          {"hidden_act", "gelu"},
          {"head", "lm"},
          {"layers", Layers(4, attention)}};
}

Json Longformer(int64_t max_tokens) {
  Json config = BertBase();
  config["max_position_embeddings"] = max_tokens;
  config["layers"] = Layers(12, {{"type", "sliding_window"}, {"window", 512}, {"global_tokens", {0}}});
  return config;
}

Json Stack(const StackShape& shape, const Json& attention) {
  Json config = {{"model_type", "heed"},
                 {"vocab_size", 256},
                 {"hidden_size", shape.width},
                 {"num_attention_heads", shape.heads},
                 {"intermediate_size", shape.hidden},
                 {"hidden_act", "gelu"},
                 {"layers", Layers(shape.layers, attention)}};
  config["architecture"] = shape.causal ? "decoder" : "encoder";
  config["head"] = shape.causal ? "lm" : "classification";
  if (!shape.causal) config["num_labels"] = 2;
  return config;
}

std::vector<int64_t> RaggedLengths() {
  std::mt19937 random(5);
  std::vector<int64_t> lengths(192);
  for (int64_t& length : lengths) {
    double normal = 0;  // of twelve uniform numbers: the same on every standard library
    for (int i = 0; i < 12; ++i) normal += random() / 4294967296.0;
    length = std::clamp<int64_t>(std::llround(std::exp(std::log(80.0) + 0.75 * (normal - 6))), 8, 512);
  }
  return lengths;
}

std::vector<int32_t> Tokens(int64_t n, int64_t vocabulary) {
  std::vector<int32_t> tokens(n);
  for (int64_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>((i * 7919 + 13) % vocabulary);
  return tokens;
}

}  // namespace heed
