// "bloom" (Le Scao et al. 2022): pre-norm decoder, ALiBi, a norm of the embedding; rows of query_key_value
// are, head by head, query, key, value. Names: transformer.{word_embeddings, word_embeddings_layernorm},
// transformer.h.I.{input_layernorm, self_attention.{query_key_value, dense}, post_attention_layernorm,
// mlp.{dense_h_to_4h, dense_4h_to_h}}, transformer.ln_f; the head is tied.
//   apply_residual_connection_post_layernorm   what a sublayer gives is added to the norm that it has read
#include "engine/families/decoder.h"
#include "engine/families/gpt2.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadBloomFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("transformer.");
  Decoder decoder =
      BeginDecoder(checkpoint, Size(fields, "vocab_size", 250880), {.bos = 1, .eos = 2}, prefix + "h.");
  decoder.width = SizeOfEither(checkpoint, "n_embed", "hidden_size", 64, kMostSize);
  decoder.layers = SizeOfEither(checkpoint, "n_layer", "num_hidden_layers", 2, kMostLayers);
  decoder.heads = SizeOfEither(checkpoint, "n_head", "num_attention_heads", 8, kMostSize);
  decoder.SetLayers({{"type", "softmax"}, {"alibi", true}});
  Json& config = decoder.config();
  config["intermediate_size"] = 4 * decoder.width;
  config["hidden_act"] = "gelu_new";
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-5, 0, 1);
  config["embedding_norm"] = true;
  if (fields.Bool("apply_residual_connection_post_layernorm", false)) config["norm"] = "normed";

  TensorView& tensors = decoder.tensors();
  tensors.Add("embed.tokens.weight", prefix + "word_embeddings.weight");
  tensors.AddModule("embed.norm", prefix + "word_embeddings_layernorm");
  tensors.AddModule("norm", prefix + "ln_f");
  decoder.AddModules("norm1", "input_layernorm");
  decoder.AddFused("self_attention.query_key_value", decoder.heads, {1, 1, 1});
  decoder.AddModules("attention.o", "self_attention.dense");
  decoder.AddModules("norm2", "post_attention_layernorm");
  decoder.AddModules("ffn.up", "mlp.dense_h_to_4h");
  decoder.AddModules("ffn.down", "mlp.dense_4h_to_h");
  return WithHead(checkpoint, std::move(decoder), {.token_classifier = "classifier", .tied = true});
}

}  // namespace heed
