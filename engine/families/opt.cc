// "opt" (Zhang et al. 2022): decoder over learned positions, whose table has two rows in front that belong to
// none; pre-norm, or, with do_layer_norm_before false (350m), post-norm and no norm at the end. Tokens may be
// narrower than the layers (word_embed_proj_dim: project_in, project_out). "biogpt" (Luo et al. 2022): the
// pre-norm form under other names, tokens times the root of their width.
// Names: model.decoder.{embed_tokens, embed_positions, project_in, project_out, final_layer_norm},
// model.decoder.layers.I.{self_attn_layer_norm, self_attn.{q_proj, k_proj, v_proj, out_proj},
// final_layer_norm, fc1, fc2}; the head is tied.
#include <cmath>

#include "engine/families/decoder.h"
#include "engine/families/opt.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kSkippedPositions = 2;

void ReadNorms(Checkpoint& checkpoint, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const bool before = fields.Bool("do_layer_norm_before", true);
  decoder.config()["norm"] = before ? "pre" : "post";
  if (before && fields.Bool("_remove_final_layer_norm", false)) decoder.config()["norm_last"] = false;
  if (fields.Bool("layer_norm_elementwise_affine", true)) return;
  decoder.config()["norm_weight"] = false;
  decoder.config()["norm_bias"] = false;
}

// The head's last product, tied, is as wide as the tokens' table.
void ReadProjections(Checkpoint& checkpoint, const std::string& prefix, Decoder& decoder) {
  const int64_t narrow = Size(checkpoint.fields(), "word_embed_proj_dim", decoder.width);
  if (narrow == decoder.width) return;
  decoder.config()["embedding_size"] = narrow;
  decoder.config()["embedding_projection"] = "tokens";
  AddHeadLayer(narrow, nullptr, /*norm=*/false, decoder.config());
  decoder.tensors().AddModule("embed.projection", prefix + "project_in");
  decoder.tensors().AddModule("head_layers.0", prefix + "project_out");
}

}  // namespace

void AddOptLayers(Decoder& decoder) {
  decoder.AddModules("norm1", "self_attn_layer_norm");
  decoder.AddModules("attention.q", "self_attn.q_proj");
  decoder.AddModules("attention.k", "self_attn.k_proj");
  decoder.AddModules("attention.v", "self_attn.v_proj");
  decoder.AddModules("attention.o", "self_attn.out_proj");
  decoder.AddModules("norm2", "final_layer_norm");
  decoder.AddModules("ffn.up", "fc1");
  decoder.AddModules("ffn.down", "fc2");
}

absl::StatusOr<NativeModel> ReadOptFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("model.") + "decoder.";
  Decoder decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", 50272),
                                 {.bos = 2, .eos = 2, .pad = 1}, prefix + "layers.");
  decoder.width = Size(fields, "hidden_size", 768);
  decoder.layers = Size(fields, "num_hidden_layers", 12, kMostLayers);
  decoder.heads = Size(fields, "num_attention_heads", 12);
  decoder.SetLayers({{"type", "full"}});
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "ffn_dim", 3072);
  config["hidden_act"] = ActivationName(fields, "activation_function", "relu");
  config["positions"] = "learned";
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 2048);
  ReadNorms(checkpoint, decoder);
  ReadProjections(checkpoint, prefix, decoder);

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "embed_tokens.weight");
  tensors.Add("embed.positions.weight",
              ViewedTensor(prefix + "embed_positions.weight").RowsFrom(kSkippedPositions));
  tensors.AddModule("norm", prefix + "final_layer_norm");
  AddOptLayers(decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadBiogptFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("biogpt.");
  Decoder decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", 42384),
                                 {.bos = 0, .eos = 2, .pad = 1}, prefix + "layers.");
  decoder.width = Size(fields, "hidden_size", 1024);
  decoder.layers = Size(fields, "num_hidden_layers", 24, kMostLayers);
  decoder.heads = Size(fields, "num_attention_heads", 16);
  decoder.SetLayers({{"type", "full"}});
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "intermediate_size", 4096);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu");
  config["positions"] = "learned";
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 1024);
  if (fields.Bool("scale_embedding", true))
    config["embedding_scale"] = std::sqrt(static_cast<double>(decoder.width));

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "embed_tokens.weight");
  tensors.Add("embed.positions.weight",
              ViewedTensor(prefix + "embed_positions.weight").RowsFrom(kSkippedPositions));
  tensors.AddModule("norm", prefix + "layer_norm");
  AddOptLayers(decoder);
  return WithHead(checkpoint, std::move(decoder), {.language_model = "output_projection", .tied = true});
}

}  // namespace heed
