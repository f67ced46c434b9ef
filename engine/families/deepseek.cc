// Decoders with Llama's names and latent attention (DeepSeek-AI 2024): self_attn.{kv_a_proj_with_mqa [latent,
// shared key], kv_a_layernorm, kv_b_proj, q_proj or q_a_proj, q_a_layernorm, q_b_proj}.
// "deepseek_v2" (2024): the first first_k_dense_replace layers are dense, the others have experts chosen by a
//   softmax and experts for all rows.
// "deepseek_v3" (V3, R1, V3.1, 2024; Kimi K2): experts chosen by sigmoids and a correction, from the best
//   groups.
// "glm4_moe_lite" (GLM-4.7-Flash, 2026): likewise, mlp_layer_types says which layers have experts.
// "axk1" (2026): likewise, with a norm of what experts give (post_mlp_layernorm).
// "deepseek_v32" (V3.2, 2025): as V3, with an index (self_attn.indexer.{wq_b, wk, k_norm, weights_proj})
//   that says which index_topk keys a row meets.
// "glm_moe_dsa" (GLM-5, 2026): likewise; the index's heads are turned as the others. Layers that take the
//   choice of the layer before (indexer_types "shared") are not served.
// "youtu" (Tencent 2026): dense.
// "minicpm3" (OpenBMB 2024): dense; tokens times scale_emb, what sublayers add times scale_depth over the
// root
//   of the layers, logits divided by hidden_size / dim_model_base.
// "mistral4" (Mistral AI 2026): experts chosen by a softmax; scores grow with the position.
#include <cmath>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr double kLeast = 1e-6, kMost = 1e6;

struct LatentDefaults {
  int64_t query_latent = 1536, latent = 512, key = 128, rope = 64, value = 128;
};

// Of YaRN: scores are scaled by its square too, where mscale_all_dim is told.
double ScoreScale(const Json& rope, int64_t query_dim) {
  double scale = 1 / std::sqrt(static_cast<double>(query_dim));
  const Json scaling = rope.is_object() ? rope.value("scaling", Json::object()) : Json::object();
  if (scaling.value("type", "") != "yarn") return scale;
  const double factor = scaling["factor"], all = scaling.value("mscale_all_dim", 0.0);
  const double m = factor > 1 && all > 0 ? 0.1 * all * std::log(factor) + 1 : 1;
  return scale * m * m;
}

// A latent of queries may be none (null).
int64_t QueryLatent(Checkpoint& checkpoint, int64_t fallback) {
  const bool told = checkpoint.config().contains("q_lora_rank");
  return checkpoint.fields().Int("q_lora_rank", told ? 0 : fallback, 0, kMostSize);
}

void AddLatentTensors(int64_t latent, bool query_latent, Decoder& decoder) {
  decoder.AddModules("attention.kv", "self_attn.kv_a_proj_with_mqa", [&](const ViewedTensor& fused) {
    return ViewedTensor::Joined({fused.RowsFrom(latent), fused.Rows(0, latent)});
  });
  decoder.AddModules("attention.kv_norm", "self_attn.kv_a_layernorm");
  decoder.AddModules("attention.expand", "self_attn.kv_b_proj");
  if (!query_latent) return;
  decoder.AddModules("attention.q", "self_attn.q_b_proj");
  decoder.AddModules("attention.q_latent", "self_attn.q_a_proj");
  decoder.AddModules("attention.q_norm", "self_attn.q_a_layernorm");
}

void SetLatentAttention(Checkpoint& checkpoint, const LatentDefaults& defaults, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const int64_t latent = Size(fields, "kv_lora_rank", defaults.latent),
                shared = Size(fields, "qk_rope_head_dim", defaults.rope),
                key = Size(fields, "qk_nope_head_dim", defaults.key),
                query_latent = QueryLatent(checkpoint, defaults.query_latent);
  Json rope = decoder.attention(0).value("rope", Json());
  if (rope.is_object()) rope.erase("dims");
  Json attention = {{"type", "latent"},
                    {"latent_dim", latent},
                    {"rope_dim", shared},
                    {"key_dim", key},
                    {"value_dim", Size(fields, "v_head_dim", defaults.value)},
                    {"scale", ScoreScale(rope, key + shared)}};
  if (query_latent > 0) attention["query_latent_dim"] = query_latent;
  if (!rope.is_null()) attention["rope"] = rope;
  for (int64_t i = 0; i < decoder.layers; ++i) decoder.attention(i) = attention;
  AddLatentTensors(latent, query_latent > 0, decoder);
}

// Of heads of an index.
struct IndexDefaults {
  int64_t heads = 64;
  const char* layout = "half";
};

void SetIndex(Checkpoint& checkpoint, const IndexDefaults& defaults, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  decoder.SetAttention("index", {{"heads", Size(fields, "index_n_heads", defaults.heads)},
                                 {"head_dim", Size(fields, "index_head_dim", 128)},
                                 {"top_k", Size(fields, "index_topk", 2048)},
                                 {"layout", defaults.layout}});
  decoder.AddModules("attention.index_q", "self_attn.indexer.wq_b");
  decoder.AddModules("attention.index_k", "self_attn.indexer.wk");
  decoder.AddModules("attention.index_k_norm", "self_attn.indexer.k_norm");
  decoder.AddModules("attention.index_weights", "self_attn.indexer.weights_proj");
}

struct MixtureDefaults {
  int64_t experts = 256, chosen = 8, hidden = 2048, shared = 1, groups = 8, top_groups = 4;
  double scale = 2.5;
};

Mixture MixtureOf(JsonFields& fields, const MixtureDefaults& defaults) {
  const int64_t hidden = Size(fields, "moe_intermediate_size", defaults.hidden);
  return {.options = {{"experts", Size(fields, "n_routed_experts", defaults.experts)},
                      {"top_k", Size(fields, "num_experts_per_tok", defaults.chosen)},
                      {"intermediate_size", hidden},
                      {"score", "sigmoid"},
                      {"normalize", fields.Bool("norm_topk_prob", true)},
                      {"scale", fields.Number("routed_scaling_factor", defaults.scale, kLeast, kMost)},
                      {"groups", Size(fields, "n_group", defaults.groups)},
                      {"top_groups", Size(fields, "topk_group", defaults.top_groups)},
                      {"shared_size", hidden * Size(fields, "n_shared_experts", defaults.shared)}},
          .correction = "gate.e_score_correction_bias",
          .shared = "shared_experts"};
}

// Layers behind the last, which predict tokens further on.
void IgnoreNextLayers(Decoder& decoder) {
  decoder.tensors().Ignore(Cat(decoder.layer_prefix, decoder.layers, ".*"));
}

LlamaDefaults DeepseekV3(const TokenIds& tokens) {
  return {.vocab_size = 129280,
          .hidden_size = 7168,
          .intermediate_size = 18432,
          .num_hidden_layers = 61,
          .num_attention_heads = 128,
          .num_key_value_heads = 128,
          .tokens = tokens,
          .rope = {.interleaved = true}};
}

}  // namespace

absl::StatusOr<NativeModel> ReadDeepseekV2Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 32000,
                                                  .hidden_size = 4096,
                                                  .intermediate_size = 11008,
                                                  .tokens = {.bos = 1, .eos = 2},
                                                  .rope = {.interleaved = true}});
  SetLatentAttention(checkpoint, {}, decoder);
  Mixture mixture = MixtureOf(
      checkpoint.fields(),
      {.experts = 64, .chosen = 8, .hidden = 1407, .shared = 2, .groups = 1, .top_groups = 1, .scale = 1});
  mixture.correction.clear();
  mixture.options["score"] = "softmax";
  mixture.options["normalize"] = false;
  mixture.options["group_score"] = "max";
  if (checkpoint.fields().String("topk_method", "greedy") == "greedy")
    mixture.options["groups"] = mixture.options["top_groups"] = 1;
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 0), mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadDeepseekV3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, DeepseekV3({.bos = 0, .eos = 1}));
  SetLatentAttention(checkpoint, {}, decoder);
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 3),
              MixtureOf(checkpoint.fields(), {}), decoder);
  IgnoreNextLayers(decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadDeepseekV32Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, DeepseekV3({.bos = 0, .eos = 1}));
  SetLatentAttention(checkpoint, {}, decoder);
  SetIndex(checkpoint, {}, decoder);
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 3),
              MixtureOf(checkpoint.fields(), {}), decoder);
  IgnoreNextLayers(decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadGlmMoeDsaFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  LlamaDefaults defaults = DeepseekV3({.bos = 0, .eos = 1});
  defaults.vocab_size = 154880;
  defaults.hidden_size = 6144;
  defaults.intermediate_size = 12288;
  defaults.num_hidden_layers = 78;
  defaults.num_attention_heads = defaults.num_key_value_heads = 64;
  defaults.eps = 1e-5;
  Decoder decoder = ReadLlamaDecoder(checkpoint, defaults);
  SetLatentAttention(checkpoint, {.query_latent = 2048, .key = 192, .value = 256}, decoder);
  SetIndex(checkpoint, {.heads = 32, .layout = "interleaved"}, decoder);
  checkpoint.Require("index_topk_pattern", nullptr);
  if (!fields.Raw("indexer_types").is_array()) checkpoint.Require("index_topk_freq", 1);
  for (const Json& type : fields.Raw("indexer_types")) {
    if (type != "full") fields.Fail(Cat("indexer_types: ", Shown(type), " is not served; \"full\" is"));
  }
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 3),
              MixtureOf(fields, {.groups = 1, .top_groups = 1}), decoder);
  IgnoreNextLayers(decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadGlm4MoeLiteFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 154880,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 10240,
                                                  .num_hidden_layers = 47,
                                                  .num_attention_heads = 20,
                                                  .num_key_value_heads = 20,
                                                  .tokens = {.bos = 0, .eos = 1},
                                                  .eps = 1e-5,
                                                  .rope = {.interleaved = true}});
  SetLatentAttention(checkpoint, {.query_latent = 768, .key = 192, .value = 256}, decoder);
  const Mixture mixture =
      MixtureOf(checkpoint.fields(),
                {.experts = 64, .chosen = 4, .hidden = 1536, .groups = 1, .top_groups = 1, .scale = 1.8});
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 1), mixture, decoder);
  IgnoreNextLayers(decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadAxk1Family(Checkpoint& checkpoint) {
  LlamaDefaults defaults = DeepseekV3({.bos = 0, .eos = 1});
  defaults.vocab_size = 163840;
  defaults.num_attention_heads = defaults.num_key_value_heads = 64;
  Decoder decoder = ReadLlamaDecoder(checkpoint, defaults);
  SetLatentAttention(checkpoint, {}, decoder);
  const std::vector<bool> sparse = LayersWithExperts(checkpoint, decoder.layers, 1);
  SetMixtures(checkpoint, sparse, MixtureOf(checkpoint.fields(), {.experts = 192}), decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!sparse[i]) continue;
    decoder.layer(i)["norm"] = "sandwich";
    decoder.layer(i)["attention_norm"] = "pre";
    decoder.tensors().AddModule(Cat("layers.", i, ".norm2_post"),
                                Cat(decoder.layer_prefix, i, ".post_mlp_layernorm"));
  }
  IgnoreNextLayers(decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadYoutuFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 128256,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 6144,
                                                  .num_attention_heads = 16,
                                                  .tokens = {.bos = 128000, .eos = 128001},
                                                  .rope = {.theta = 1.6e6, .interleaved = true}});
  SetLatentAttention(checkpoint, {}, decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadMiniCpm3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 73448,
                                                  .hidden_size = 2560,
                                                  .intermediate_size = 6400,
                                                  .num_hidden_layers = 62,
                                                  .num_attention_heads = 40,
                                                  .tokens = {.bos = 1, .eos = 2},
                                                  .eps = 1e-5});
  SetLatentAttention(checkpoint, {.query_latent = 768, .latent = 256, .key = 64, .rope = 32, .value = 64},
                     decoder);
  JsonFields& fields = checkpoint.fields();
  const auto width = static_cast<double>(decoder.width);
  decoder.config()["embedding_scale"] = fields.Number("scale_emb", 1, kLeast, kMost);
  decoder.config()["residual_multiplier"] =
      fields.Number("scale_depth", 1.4, kLeast, kMost) / std::sqrt(static_cast<double>(decoder.layers));
  if (checkpoint.task() == "CausalLM")
    decoder.config()["logits_scale"] = fields.Number("dim_model_base", 256, 1, kMost) / width;
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadMistral4Family(Checkpoint& checkpoint) {
  LlamaDefaults defaults = DeepseekV3({.bos = 1, .eos = 2});
  defaults.rope.position_scale = true;
  Decoder decoder = ReadLlamaDecoder(checkpoint, defaults);
  SetLatentAttention(checkpoint, {}, decoder);
  SetPositionScale(checkpoint, decoder);
  Mixture mixture = MixtureOf(checkpoint.fields(), {.groups = 1, .top_groups = 1, .scale = 1});
  mixture.correction.clear();
  mixture.options["score"] = "softmax";
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 0), mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
