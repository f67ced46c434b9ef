#include "tests/testing/random_model.h"

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/models/native.h"
#include "tests/testing/random_weights.h"

namespace heed {

std::unique_ptr<Weights> RandomWeightsFor(const Json& config, uint64_t seed) {
  const bool biases = config.value("attention_bias", true);
  const bool globals = CanonicalText(config).find("global_tokens") != std::string::npos;
  const auto has = [biases, globals](const std::string& name) {
    if (name.starts_with("lm_head.")) return false;
    return name.ends_with(".bias") ? biases : globals;
  };
  return NewRandomWeights(has, seed);
}

std::map<std::string, Tensor> RandomTensorsOf(const Json& config) {
  const std::unique_ptr<Weights> weights = RandomWeightsFor(config);
  const auto model = NewNativeModel(config, *weights, {});
  CHECK(model.ok()) << model.status();
  return weights->tensors();
}

absl::StatusOr<RandomModel> TryRandomModel(const Json& config, Precision precision, uint64_t seed) {
  RandomModel random;
  ASSIGN_OR_RETURN(random.model,
                   NewNativeModel(config, *RandomWeightsFor(config, seed), {.precision = precision}));
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
