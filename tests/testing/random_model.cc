#include "tests/testing/random_model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/models/native.h"
#include "engine/weights/weights.h"

namespace heed {
namespace {

class Maker {
 public:
  Maker(const Json& config, uint64_t seed) : config_(config), state_(seed * 0x9E3779B97F4A7C15u + 1) {
    width_ = config["hidden_size"];
    rms_ = config.value("norm_type", "layer") == "rms";
    biases_ = config.value("attention_bias", true);
  }

  RandomWeights Make() {
    if (config_.contains("decoder_layers")) {
      Stack("encoder.", config_["layers"]);
      Stack("decoder.", config_["decoder_layers"]);
    } else {
      Stack("", config_["layers"]);
    }
    std::string head = config_.value("head", "none");
    if (head == "classification" || head == "token_classification")
      Product("classifier", config_["num_labels"], width_, true);
    return std::move(weights_);
  }

 private:
  void Stack(const std::string& prefix, const Json& layers) {
    Add(prefix + "embed.tokens.weight", {config_["vocab_size"], width_}, 1.0);
    if (config_.value("positions", "none") == "learned") {
      Add(prefix + "embed.positions.weight", {config_["max_position_embeddings"], width_}, 1.0);
    }
    for (size_t i = 0; i < layers.size(); ++i) Layer(Cat(prefix, "layers.", i), layers[i]);
    if (config_.value("norm", "pre") == "pre") Norm(prefix + "norm");
  }

  void Layer(const std::string& name, const Json& layer) {
    Norm(name + ".norm1");
    Attention(name + ".attention", layer["attention"]);
    if (layer.contains("cross_attention")) {
      Norm(name + ".norm_cross");
      Attention(name + ".cross_attention", layer["cross_attention"]);
    }
    const Json feed_forward = layer.value("ffn", Json{{"type", "dense"}});
    if (feed_forward["type"] == "none") return;
    Norm(name + ".norm2");
    FeedForward(name + ".ffn", feed_forward);
  }

  void FeedForward(const std::string& name, const Json& options) {
    if (options["type"] == "moe") {
      Product(name + ".router", options["experts"], width_, false);
      for (int64_t e = 0; e < options["experts"]; ++e) Dense(Cat(name, ".experts.", e));
    } else if (options["type"] == "pkm") {
      const int64_t heads = options.value("num_heads", config_["num_attention_heads"].get<int64_t>());
      const int64_t keys = options["n_keys"], query = options["d_k"];
      Product(name + ".query", heads * query, width_, biases_);
      Add(name + ".sub_keys", {heads, 2, keys, query / 2}, 1.0);
      Add(name + ".values", {keys * keys, width_}, 1.0);
    } else {
      Dense(name);
    }
  }

  void Dense(const std::string& name) {
    int64_t hidden = config_["intermediate_size"];
    std::string act = config_.value("hidden_act", "gelu");
    if (act == "swiglu" || act == "geglu" || act == "reglu") Product(name + ".gate", hidden, width_, biases_);
    Product(name + ".up", hidden, width_, biases_);
    Product(name + ".down", width_, hidden, biases_);
  }

  void Attention(const std::string& name, const Json& options) {
    int64_t heads = options.value("num_heads", config_["num_attention_heads"].get<int64_t>());
    int64_t head_dim = options.value("head_dim", width_ / heads);
    int64_t kv = options.value("num_key_value_heads", heads);
    Product(name + ".q", heads * head_dim, width_, biases_);
    if (options["type"] == "lsh") {
      int64_t directions = 0;
      const Json& buckets = options["num_buckets"];
      for (int64_t factor : buckets.is_array() ? buckets : Json::array({buckets})) directions += factor / 2;
      Add(name + ".rotations", {heads, head_dim, options["num_hashes"], directions}, 1.0);
    } else if (options["type"] == "routing") {
      const int64_t local = options.value("local_heads", 0);
      const int64_t keys = options.value("shared_qk", true) ? local : heads;
      if (keys > 0) Product(name + ".k", keys * head_dim, width_, biases_);
      Add(name + ".centroids", {heads - local, options["clusters"], head_dim}, 1.0);
    } else {
      Product(name + ".k", kv * head_dim, width_, biases_);
    }
    Product(name + ".v", kv * head_dim, width_, biases_);
    Product(name + ".o", width_, heads * head_dim, biases_);
    if (options.contains("global_tokens")) {
      for (const char* part : {".q_global", ".k_global", ".v_global"})
        Product(name + part, width_, width_, biases_);
    }
    if (options["type"] == "relative_memory" || options["type"] == "compressive") {
      Product(name + ".r", width_, width_, false);
      for (const char* part : {".pos_bias_u", ".pos_bias_v"}) Add(name + part, {heads, head_dim}, 0.3);
    }
    if (options.contains("num_features")) Add(name + ".features", {options["num_features"], head_dim}, 1.0);
    if (options.contains("conv_kernel"))
      Add(name + ".conv.weight", {heads, 1, options["conv_kernel"], 1}, 0.3);
    if (options.contains("slots")) {
      for (const char* part : {".pk", ".pv"}) Add(name + part, {heads, options["slots"], head_dim}, 1.0);
    }
    if (options["type"] == "bigbird" && options["num_random_blocks"] > 0) {
      const int64_t blocks = options["num_blocks"];
      AddIntegers(name + ".random_blocks", {heads, blocks - 2, options["num_random_blocks"]}, blocks);
    }
    if (options["type"] == "memory_compressed") Slots(name, options);
    if (options["type"] == "compressive" && options.value("compression", "conv") == "conv") {
      const int64_t rate = options["rate"];
      Add(name + ".compress.weight", {width_, width_, rate},
          1.0 / std::sqrt(static_cast<double>(width_ * rate)));
      Add(name + ".compress.bias", {width_}, 0.1);
    }
    if (options["type"] == "sinkhorn")
      Add(name + ".sort.weight", {heads, options["max_blocks"], head_dim}, 0.3);
    if (options["type"] == "linformer") Linformer(name, options, heads);
    if (options["type"] == "synthesizer") Synthesizer(name, options, heads, head_dim);
    if (options.contains("shaw")) {
      for (const char* part : {".shaw_keys", ".shaw_values"})
        Add(name + part, {2 * options["shaw"]["max_distance"].get<int64_t>() + 1, head_dim}, 0.8);
    }
    if (options.contains("relative_bias"))
      Add(name + ".relative_bias", {options["relative_bias"]["buckets"], heads}, 1.0);
  }

  void Slots(const std::string& name, const Json& options) {
    for (const char* part : {".null_k", ".null_v"}) Add(name + part, {width_}, 1.0);
    const int64_t stride = options["stride"];
    for (const char* part : {".compress_k", ".compress_v"}) {
      if (options.value("compression", "conv") != "conv") continue;
      Add(name + part + ".weight", {width_, width_, stride},
          1.0 / std::sqrt(static_cast<double>(width_ * stride)));
      Add(name + part + ".bias", {width_}, 0.1);
    }
  }

  void Linformer(const std::string& name, const Json& options, int64_t heads) {
    std::vector<int64_t> shape = {options["k"], options["n_max"]};
    if (options["sharing"] == "none") shape.insert(shape.begin(), heads);
    Add(name + ".e", shape, 0.1);
    if (options["sharing"] != "key-value") Add(name + ".f", shape, 0.1);
  }

  // What a term does not read is left out again, q and k too.
  void Synthesizer(const std::string& name, const Json& options, int64_t heads, int64_t head_dim) {
    const Json terms = options.value("terms", Json::array({options["form"]}));
    const auto has = [&](const char* term) {
      return std::find(terms.begin(), terms.end(), term) != terms.end();
    };
    const int64_t n = options["n_max"];
    const auto rows = [&](const char* part, int64_t count) {
      Add(name + "." + part + ".weight", {heads, count, head_dim},
          1.0 / std::sqrt(static_cast<double>(head_dim)));
      Add(name + "." + part + ".bias", {heads, count}, 0.1);
    };
    if (!has("dot_product")) {
      for (const char* part : {".q.weight", ".q.bias", ".k.weight", ".k.bias"})
        weights_.tensors.erase(name + part);
    }
    if (options["form"] == "mixture") Add(name + ".mix", {heads, static_cast<int64_t>(terms.size())}, 1.0);
    if (has("dense") || has("factorized_dense")) Product(name + ".dense1", heads * head_dim, width_, true);
    if (has("dense")) rows("dense2", n);
    if (has("random")) Add(name + ".random", {heads, n, n}, 1.0);
    if (has("factorized_dense")) {
      rows("factor_a", options["factors"][0]);
      rows("factor_c", options["factors"][1]);
    }
    for (const char* part : {".random1", ".random2"}) {
      if (has("factorized_random")) Add(name + part, {heads, n, options["rank"]}, 1.0);
    }
  }

  void Product(const std::string& name, int64_t out, int64_t in, bool bias) {
    Add(name + ".weight", {out, in}, 1.0 / std::sqrt(static_cast<double>(in)));
    if (bias) Add(name + ".bias", {out}, 0.1);
  }

  void Norm(const std::string& name) {
    Add(name + ".weight", {width_}, 0.1, 1.0);
    if (!rms_) Add(name + ".bias", {width_}, 0.1);
  }

  void Add(const std::string& name, std::vector<int64_t> shape, double scale, double mean = 0) {
    Tensor tensor{DType::kF32, std::move(shape), nullptr};
    Buffer& buffer = weights_.memory.emplace_back(tensor.size() * sizeof(float));
    for (int64_t i = 0; i < tensor.size(); ++i)
      buffer.as<float>()[i] = static_cast<float>(mean + scale * Next());
    tensor.data = buffer.as<float>();
    weights_.tensors.emplace(name, std::move(tensor));
  }

  // From 0 up to `below`.
  void AddIntegers(const std::string& name, std::vector<int64_t> shape, int64_t below) {
    Tensor tensor{DType::kI64, std::move(shape), nullptr};
    Buffer& buffer = weights_.memory.emplace_back(tensor.size() * sizeof(int64_t));
    for (int64_t i = 0; i < tensor.size(); ++i)
      buffer.as<int64_t>()[i] = static_cast<int64_t>(std::abs(Next()) * 1e6) % below;
    tensor.data = buffer.as<int64_t>();
    weights_.tensors.emplace(name, std::move(tensor));
  }

  // Uniform with variance 1 (xorshift64*, Vigna 2016).
  double Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (static_cast<double>((state_ * 0x2545F4914F6CDD1Du) >> 11) / 9007199254740992.0 - 0.5) *
           std::sqrt(12.0);
  }

  const Json& config_;
  uint64_t state_;
  int64_t width_;
  bool rms_, biases_;
  RandomWeights weights_;
};

}  // namespace

RandomWeights MakeRandomWeights(const Json& config, uint64_t seed) { return Maker(config, seed).Make(); }

absl::StatusOr<RandomModel> TryRandomModel(const Json& config, Precision precision, uint64_t seed) {
  RandomModel random{MakeRandomWeights(config, seed), nullptr};
  ASSIGN_OR_RETURN(random.model,
                   NewNativeModel(config, *Weights::Of(random.weights.tensors), {.precision = precision}));
  return random;
}

RandomModel MakeRandomModel(const Json& config, Precision precision, uint64_t seed) {
  absl::StatusOr<RandomModel> random = TryRandomModel(config, precision, seed);
  CHECK(random.ok()) << random.status().message();
  return *std::move(random);
}

Json SmallConfig(const std::string& architecture, const std::string& head, const Json& attention) {
  Json layer = {{"attention", attention}, {"ffn", {{"type", "dense"}}}};
  Json config = {{"model_type", "heed"},
                 {"architecture", architecture},
                 {"vocab_size", 50},
                 {"hidden_size", 32},
                 {"num_attention_heads", 4},
                 {"intermediate_size", 64},
                 {"hidden_act", "gelu"},
                 {"head", head},
                 {"layers", Json::array({layer, layer})}};
  if (architecture == "encoder-decoder") {
    layer["cross_attention"] = attention;
    config["decoder_layers"] = Json::array({layer, layer});
    config["decoder_start_token_id"] = 1;
  }
  if (head == "classification" || head == "token_classification") config["num_labels"] = 5;
  return config;
}

}  // namespace heed
