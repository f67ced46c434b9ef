#include "tests/bench/checkpoints.h"

#include <utility>

#include "absl/log/check.h"
#include "engine/families/family.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

Json Native(const Json& published) {
  const std::unique_ptr<Weights> names = RandomWeightsFor(published);
  absl::StatusOr<NativeModel> model = ReadCheckpoint(published, *names);
  CHECK(model.ok()) << model.status();
  Json config = std::move(model->config);
  config["attention_bias"] = false;  // what MakeRandomModel() is to invent
  return config;
}

}  // namespace

Json ModernBertBase() {
  return Native({{"model_type", "modernbert"},
                 {"architectures", {"ModernBertForSequenceClassification"}},
                 {"hidden_size", 768},
                 {"num_attention_heads", 12},
                 {"num_hidden_layers", 22},
                 {"intermediate_size", 1152},
                 {"vocab_size", 50368},
                 {"max_position_embeddings", 8192},
                 {"local_attention", 128},
                 {"global_attn_every_n_layers", 3},
                 {"num_labels", 2}});
}

Json T5Small() {
  return Native({{"model_type", "t5"},
                 {"architectures", {"T5ForConditionalGeneration"}},
                 {"d_model", 512},
                 {"d_kv", 64},
                 {"d_ff", 2048},
                 {"num_layers", 6},
                 {"num_heads", 8},
                 {"vocab_size", 32128}});
}

Json Llama1B() {
  return Native({{"model_type", "llama"},
                 {"architectures", {"LlamaForCausalLM"}},
                 {"hidden_size", 2048},
                 {"intermediate_size", 8192},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 8},
                 {"num_hidden_layers", 16},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", 500000},
                 {"tie_word_embeddings", true},
                 {"vocab_size", 128256},
                 {"max_position_embeddings", 131072}});
}

Json GraniteMixture1B() {
  return Native({{"model_type", "granitemoe"},
                 {"architectures", {"GraniteMoeForCausalLM"}},
                 {"hidden_size", 1024},
                 {"intermediate_size", 512},
                 {"num_attention_heads", 16},
                 {"num_key_value_heads", 8},
                 {"num_hidden_layers", 24},
                 {"num_local_experts", 32},
                 {"num_experts_per_tok", 8},
                 {"attention_multiplier", 0.015625},
                 {"embedding_multiplier", 12},
                 {"logits_scaling", 6},
                 {"residual_multiplier", 0.22},
                 {"tie_word_embeddings", true},
                 {"vocab_size", 49155},
                 {"max_position_embeddings", 4096}});
}

Json GatedDelta(int64_t window) {
  Json config = Native({{"model_type", "qwen3_5_text"},
                        {"architectures", {"Qwen3_5ForCausalLM"}},
                        {"transformers_version", "5.0.0"},
                        {"hidden_size", 1024},
                        {"intermediate_size", 3584},
                        {"num_hidden_layers", 4},
                        {"num_attention_heads", 8},
                        {"num_key_value_heads", 2},
                        {"head_dim", 256},
                        {"linear_num_key_heads", 16},
                        {"linear_num_value_heads", 16},
                        {"linear_key_head_dim", 128},
                        {"linear_value_head_dim", 128},
                        {"linear_conv_kernel_dim", 4},
                        {"full_attention_interval", 4},
                        {"tie_word_embeddings", true},
                        {"vocab_size", 248320},
                        {"max_position_embeddings", 262144}});
  if (window > 0) config["layers"][3]["attention"]["window"] = window;
  return config;
}

}  // namespace heed
