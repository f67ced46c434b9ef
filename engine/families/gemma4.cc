// "gemma4_text" (Gemma 4, 2026): Gemma 3's layers, norms whose weights are stored as they are, values normed
// too, scores that are not scaled, rows times layer_scalar behind each layer. Whole layers have other heads
// (per_layer_config, or global_head_dim and num_global_key_value_heads), of which a share is turned, and,
// with attention_k_eq_v, values that are the keys before their norm. With enable_moe_block experts stand
// beside each feed-forward; with hidden_size_per_layer_input each layer reads numbers made of the token and
// its first row; the last num_kv_shared_layers read keys and values of the last layer of their kind before
// them, and have, with use_double_wide_mlp, feed-forwards twice as wide.
// "embedding_gemma2_text" (EmbeddingGemma 2, 2026): an encoder of the same layers, whose inputs are made of
// first rows alone, and a product behind the last norm (embedding_projection).
#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// Of layers without a window, where config.json does not say it.
struct WholeHeads {
  int64_t head_dim = 0, key_value_heads = 0;
};

// Heads of the i-th layer.
void SetHeads(Checkpoint& checkpoint, int64_t i, bool sliding, const WholeHeads& whole, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  Json& attention = decoder.attention(i);
  const Json& all = fields.Raw("per_layer_config");
  int64_t head_dim = decoder.head_dim, heads = decoder.key_value_heads;
  if (!sliding) {
    head_dim = Size(fields, "global_head_dim", all.is_object() ? head_dim : whole.head_dim);
    heads = Size(fields, "num_global_key_value_heads", all.is_object() ? heads : whole.key_value_heads);
  }
  if (all.is_object() && all.contains(Cat(i))) {
    JsonFields own(all[Cat(i)], fields.Name(Cat("per_layer_config.", i)));
    head_dim = Size(own, "head_dim", head_dim);
    heads = Size(own, "num_key_value_heads", heads);
    fields.Fail(own.error());
  }
  attention["head_dim"] = head_dim;
  attention["num_key_value_heads"] = heads;
  attention["rope"] = ReadRope(checkpoint, {.theta = sliding ? 1e4 : 1e6}, head_dim,
                               sliding ? "sliding_attention" : "full_attention");
  const std::string of = Cat(decoder.layer_prefix, i, ".self_attn.");
  if (!checkpoint.Has(of + "v_proj.weight"))
    decoder.tensors().AddModule(Cat("layers.", i, ".attention.v"), of + "k_proj");
}

void SetNorms(Decoder& decoder) {
  decoder.config()["norm"] = "sandwich";
  decoder.AddModules("norm1_post", "post_attention_layernorm");
  decoder.AddModules("norm2", "pre_feedforward_layernorm");
  decoder.AddModules("norm2_post", "post_feedforward_layernorm");
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  decoder.SetAttention("v_norm", true);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    decoder.layer(i)["layer_scale"] = true;
    decoder.tensors().Add(Cat("layers.", i, ".layer_scale.weight"),
                          Cat(decoder.layer_prefix, i, ".layer_scalar"));
  }
}

// Experts beside the dense feed-forward: router, experts and feed-forward read the same row, normed, each
// times weights of its own, which here are part of their products.
void AddExperts(Checkpoint& checkpoint, int64_t i, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const std::string of = Cat(decoder.layer_prefix, i, "."), to = Cat("layers.", i, ".");
  const int64_t experts = Size(fields, "num_experts", 0);
  decoder.layer(i)["ffn"] = {{"type", "moe"},
                             {"experts", experts},
                             {"top_k", Size(fields, "top_k_experts", 0)},
                             {"normalize", true},
                             {"intermediate_size", Size(fields, "moe_intermediate_size", 0)},
                             {"shared_size", decoder.config()["intermediate_size"]},
                             {"expert_scale", true},
                             {"result_norms", true}};
  TensorView& tensors = decoder.tensors();
  const ViewedTensor dense = of + "pre_feedforward_layernorm.weight",
                     routed = of + "pre_feedforward_layernorm_2.weight";
  tensors.Add(to + "norm2.weight", dense.Times(0).Plus(1));
  for (const char* name : {"gate", "up"})
    tensors.Add(Cat(to, "ffn.shared.", name, ".weight"),
                ViewedTensor(Cat(of, "mlp.", name, "_proj.weight")).TimesColumns(dense));
  tensors.AddModule(to + "ffn.shared.down", of + "mlp.down_proj");
  for (const char* name : {"gate", "up", "down"}) {
    for (const char* part : {".weight", ".bias"}) tensors.Remove(Cat(to, "ffn.", name, part));
  }
  for (int64_t e = 0; e < experts; ++e) {
    const std::string expert = Cat(to, "ffn.experts.", e, ".");
    const std::string both = of + "experts.gate_up_proj";
    tensors.Add(expert + "gate.weight", OfExpert(both, e, {1, 1}, 0).TimesColumns(routed));
    tensors.Add(expert + "up.weight", OfExpert(both, e, {1, 1}, 1).TimesColumns(routed));
    tensors.Add(expert + "down.weight", OfExpert(of + "experts.down_proj", e, {1}, 0));
  }
  const float root = 1 / std::sqrt(static_cast<float>(decoder.width));
  tensors.Add(
      to + "ffn.router.weight",
      ViewedTensor(of + "router.proj.weight").TimesColumns(ViewedTensor(of + "router.scale").Times(root)));
  tensors.Add(to + "ffn.router.expert_scale", of + "router.per_expert_scale");
  tensors.AddModule(to + "ffn.shared_norm", of + "post_feedforward_layernorm_1");
  tensors.AddModule(to + "ffn.experts_norm", of + "post_feedforward_layernorm_2");
}

// How modules of the layers' inputs are called: of the model, and below a layer.
struct InputNames {
  std::string model, layer;
  bool table = true;  // they are made of tokens too
};

void AddLayerInputs(Checkpoint& checkpoint, int64_t size, const InputNames& names, Decoder& decoder) {
  size = checkpoint.fields().Int("hidden_size_per_layer_input", size, 0, kMostSize);
  if (size == 0) return;
  decoder.config()["layer_inputs"] = {{"size", size}, {"table", names.table}};
  const std::string of = checkpoint.Prefix("model.") + names.model;
  const float root = 1 / std::sqrt(static_cast<float>(decoder.width));
  TensorView& tensors = decoder.tensors();
  tensors.Add("layer_inputs.projection.weight",
              ViewedTensor(of + "per_layer_model_projection.weight").Times(root));
  tensors.AddModule("layer_inputs.norm", of + "per_layer_projection_norm");
  decoder.AddModules("input.gate", names.layer + "per_layer_input_gate");
  decoder.AddModules("input.out", names.layer + "per_layer_projection");
  decoder.AddModules("input.norm", names.layer + "post_per_layer_input_norm");
  if (!names.table) return;
  const int64_t tokens = decoder.config()["vocab_size"].get<int64_t>(),
                rows = Size(checkpoint.fields(), "vocab_size_per_layer_input", 262144);
  if (rows < tokens)
    checkpoint.fields().Fail(Cat("vocab_size_per_layer_input: ", rows, " is below vocab_size ", tokens));
  tensors.Add("embed.layer_inputs.weight",
              ViewedTensor(of + "embed_tokens_per_layer.weight").Rows(0, tokens));
}

// The last layers, which have no keys and values of their own.
void ShareKeys(Checkpoint& checkpoint, const std::vector<bool>& sliding, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const int64_t shared = fields.Int("num_kv_shared_layers", 0, 0, kMostLayers),
                first = decoder.layers - shared;
  const bool twice = fields.Bool("use_double_wide_mlp", false);
  for (int64_t i = std::max<int64_t>(first, 0); i < decoder.layers; ++i) {
    int64_t lender = first - 1;
    while (lender >= 0 && sliding[lender] != sliding[i]) --lender;
    if (lender < 0)
      return fields.Fail(
          Cat("num_kv_shared_layers: ", shared, ": no layer of the kind of layer ", i, " is before them"));
    decoder.layer(i)["keys_of"] = lender;
    if (twice)
      decoder.layer(i)["ffn"] = {
          {"intermediate_size", 2 * decoder.config()["intermediate_size"].get<int64_t>()}};
    for (const char* name : {"k", "v", "k_norm"}) {
      for (const char* part : {".weight", ".bias"})
        decoder.tensors().Remove(Cat("layers.", i, ".attention.", name, part));
    }
    for (const char* name : {"k_proj", "v_proj", "k_norm", "v_norm"})
      decoder.tensors().Ignore(Cat(decoder.layer_prefix, i, ".self_attn.", name, ".*"));
  }
}

// What both families have in common. Which layers have a window.
std::vector<bool> SetGemma4Layers(Checkpoint& checkpoint, const WholeHeads& whole, Decoder& decoder) {
  decoder.config()["embedding_scale"] = std::sqrt(static_cast<double>(decoder.width));
  SetNorms(decoder);
  decoder.SetAttention("scale", 1.0);
  std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return (i + 1) % 6 != 0; });
  for (int64_t i = 0; i < decoder.layers; ++i) SetHeads(checkpoint, i, sliding[i], whole, decoder);
  return sliding;
}

}  // namespace

absl::StatusOr<NativeModel> ReadGemma4Family(Checkpoint& checkpoint) {
  checkpoint.Require("use_bidirectional_attention", false);
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 262144,
                                                  .hidden_size = 2304,
                                                  .intermediate_size = 9216,
                                                  .num_hidden_layers = 30,
                                                  .num_attention_heads = 8,
                                                  .num_key_value_heads = 4,
                                                  .head_dim = 256,
                                                  .tokens = {.bos = 2, .eos = 1, .pad = 0},
                                                  .act_key = "hidden_activation",
                                                  .act = "gelu_pytorch_tanh"});
  const std::vector<bool> sliding =
      SetGemma4Layers(checkpoint, {.head_dim = 512, .key_value_heads = decoder.key_value_heads}, decoder);
  SetWindows(sliding, WindowOf(checkpoint, 512), decoder);
  AddLayerInputs(checkpoint, 256, {}, decoder);
  ShareKeys(checkpoint, sliding, decoder);
  for (int64_t i = 0; i < decoder.layers && checkpoint.fields().Bool("enable_moe_block", false); ++i)
    AddExperts(checkpoint, i, decoder);
  const auto cap = NumberOrNone(checkpoint, "final_logit_softcapping", std::nullopt, 1e-3, 1e6);
  if (cap && checkpoint.task() == "CausalLM") decoder.config()["logits_soft_cap"] = *cap;
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadEmbeddingGemma2Family(Checkpoint& checkpoint) {
  if (checkpoint.task() != "Model") return checkpoint.UnknownTask({"TextModel"});
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 262144,
                                                  .hidden_size = 512,
                                                  .intermediate_size = 2048,
                                                  .num_hidden_layers = 24,
                                                  .num_attention_heads = 4,
                                                  .num_key_value_heads = 2,
                                                  .head_dim = 256,
                                                  .tokens = {.bos = 2, .eos = 1, .pad = 0},
                                                  .act_key = "hidden_activation",
                                                  .act = "gelu_pytorch_tanh"});
  decoder.config()["architecture"] = "encoder";
  const std::vector<bool> sliding =
      SetGemma4Layers(checkpoint, {.head_dim = 512, .key_value_heads = 1}, decoder);
  // config.json tells how many are seen to either side.
  SetWindows(sliding, 2 * WindowOf(checkpoint, 512), decoder);
  AddLayerInputs(checkpoint, 512, {.model = "ple.", .layer = "ple_block.", .table = false}, decoder);
  decoder.tensors().AddModule("head_layers.0", checkpoint.Prefix("model.") + "embedding_projection");
  AddHeadLayer(Size(checkpoint.fields(), "embedding_dim", 768), nullptr, /*norm=*/false, decoder.config());
  return std::move(decoder.model);
}

}  // namespace heed
