// "falcon" (Almazrouei et al. 2023): attention and feed-forward beside one another (parallel_attn), both of
// one layer norm, or, in the new architecture with two (num_ln_in_parallel_attn), each of its own. Rows of
// query_key_value: all queries, one key, one value (multi_query); in the new architecture group by group the
// queries, their key, their value; else head by head. ALiBi is added before scores are scaled, in exact
// numbers and once (transformers rounds slopes and their products with positions to bfloat16; its "eager"
// attention, not its default, adds them twice). Names: transformer.word_embeddings,
// transformer.h.I.{input_layernorm or ln_attn and ln_mlp, post_attention_layernorm,
// self_attention.{query_key_value, dense}, mlp.{dense_h_to_4h, dense_4h_to_h}}, transformer.ln_f.
#include <cmath>

#include "engine/families/decoder.h"
#include "engine/families/gpt2.h"
#include "engine/families/parts.h"
#include "engine/families/rope.h"

namespace heed {
namespace {

void AddFalconAttention(Checkpoint& checkpoint, bool grouped, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const bool shared = !grouped && fields.Bool("multi_query", true);
  decoder.key_value_heads = grouped  ? Size(fields, "num_kv_heads", decoder.heads)
                            : shared ? 1
                                     : decoder.heads;
  const int64_t head_dim = decoder.width / decoder.heads;
  Json attention = {{"type", "softmax"}, {"num_key_value_heads", decoder.key_value_heads}};
  if (fields.Bool("alibi", false)) {
    attention["alibi"] = true;
    attention["alibi_scale"] = 1 / std::sqrt(static_cast<double>(head_dim));
  } else {
    attention["rope"] = ReadRope(checkpoint, {}, head_dim);
  }
  decoder.SetLayers(attention);
  const int64_t queries = decoder.heads / decoder.key_value_heads;  // of each key
  decoder.AddFused("self_attention.query_key_value", decoder.key_value_heads, {queries, 1, 1});
  decoder.AddModules("attention.o", "self_attention.dense");
}

void AddFalconNorms(Checkpoint& checkpoint, bool grouped, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  if (grouped) checkpoint.Require("parallel_attn", true);
  if (!fields.Bool("parallel_attn", true)) {
    decoder.AddModules("norm1", "input_layernorm");
    decoder.AddModules("norm2", "post_attention_layernorm");
  } else if (grouped && fields.Int("num_ln_in_parallel_attn", 2, 1, 2) == 2) {
    decoder.SetParallel();
    decoder.AddModules("norm1", "ln_attn");
    decoder.AddModules("norm2", "ln_mlp");
  } else {
    decoder.SetParallel("input_layernorm");
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadFalconFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("transformer.");
  Decoder decoder =
      BeginDecoder(checkpoint, Size(fields, "vocab_size", 65024), {.bos = 11, .eos = 11}, prefix + "h.");
  decoder.width = SizeOfEither(checkpoint, "n_embed", "hidden_size", 4544, kMostSize);
  decoder.layers = Size(fields, "num_hidden_layers", 32, kMostLayers);
  decoder.heads = Size(fields, "num_attention_heads", 71);
  const bool grouped = fields.Bool("new_decoder_architecture", false);
  AddFalconAttention(checkpoint, grouped, decoder);
  AddFalconNorms(checkpoint, grouped, decoder);
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "ffn_hidden_size", 4 * decoder.width);
  config["hidden_act"] = ActivationName(fields, "activation", "gelu");
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-5, 0, 1);

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "word_embeddings.weight");
  tensors.AddModule("norm", prefix + "ln_f");
  decoder.AddModules("ffn.up", "mlp.dense_h_to_4h");
  decoder.AddModules("ffn.down", "mlp.dense_4h_to_h");
  return WithHead(checkpoint, std::move(decoder), {.token_classifier = "classifier", .tied = true});
}

}  // namespace heed
