// "rwkv" (RWKV 4, Peng et al. 2023): in each block time mixing, attention.{key, value, receptance, output,
// time_decay, time_first, time_mix_*}, then channel mixing, feed_forward.{key, value, receptance,
// time_mix_*}, each behind a norm, ln1 and ln2; the first block's pre_ln is a norm of the embedding. A block
// is two native layers. Names: rwkv.{embeddings, blocks.I, ln_out}, without "rwkv." in a base model; head.
//   CausalLM  head, or tied;  Model  the rows as they are
// rescale_every halves numbers for float16 and leaves what comes of them as it is: it is not needed.
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/families/decoder.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// A product and the shares of the row itself in what it reads.
void AddMixed(const std::string& to, const std::string& of, const char* native, const char* name,
              TensorView& tensors) {
  tensors.Add(Cat(to, native, ".weight"), Cat(of, name, ".weight"));
  tensors.Add(Cat(to, "mix_", native), ViewedTensor(Cat(of, "time_mix_", name)).Shaped({-1}));
}

void AddTimeMixing(const std::string& to, const std::string& block, TensorView& tensors) {
  const std::string of = block + "attention.", attention = to + "attention.";
  tensors.AddModule(to + "norm1", block + "ln1");
  AddMixed(attention, of, "k", "key", tensors);
  AddMixed(attention, of, "v", "value", tensors);
  AddMixed(attention, of, "r", "receptance", tensors);
  tensors.Add(attention + "decay", ViewedTensor(of + "time_decay").Shaped({-1}));
  tensors.Add(attention + "bonus", ViewedTensor(of + "time_first").Shaped({-1}));
  tensors.Add(attention + "o.weight", of + "output.weight");
}

void AddChannelMixing(const std::string& to, const std::string& block, TensorView& tensors) {
  const std::string of = block + "feed_forward.", attention = to + "attention.";
  tensors.AddModule(to + "norm1", block + "ln2");
  AddMixed(attention, of, "k", "key", tensors);
  AddMixed(attention, of, "r", "receptance", tensors);
  tensors.Add(attention + "o.weight", of + "value.weight");
}

}  // namespace

absl::StatusOr<NativeModel> ReadRwkvFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("rwkv.");
  Decoder decoder =
      BeginDecoder(checkpoint, Size(fields, "vocab_size", 50277), {.bos = 0, .eos = 0}, prefix + "blocks.");
  const int64_t blocks = Size(fields, "num_hidden_layers", 32, kMostLayers);
  decoder.width = Size(fields, "hidden_size", 4096);
  decoder.layers = 2 * blocks;
  decoder.heads = 1;
  decoder.SetLayers({{"type", "rwkv"}, {"inner_size", Size(fields, "attention_hidden_size", decoder.width)}});
  const int64_t hidden = Size(fields, "intermediate_size", 4 * decoder.width);
  Json& config = decoder.config();
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-5, 0, 1);
  config["embedding_norm"] = true;
  TensorView& tensors = decoder.tensors();
  for (int64_t i = 0; i < blocks; ++i) {
    const std::string block = Cat(decoder.layer_prefix, i, ".");
    AddTimeMixing(Cat("layers.", 2 * i, "."), block, tensors);
    AddChannelMixing(Cat("layers.", 2 * i + 1, "."), block, tensors);
    decoder.attention(2 * i + 1) = {{"type", "rwkv_channel"}, {"inner_size", hidden}};
    for (const int64_t layer : {2 * i, 2 * i + 1}) decoder.layer(layer)["ffn"] = {{"type", "none"}};
  }
  tensors.Add("embed.tokens.weight", prefix + "embeddings.weight");
  tensors.AddModule("embed.norm", Cat(decoder.layer_prefix, 0, ".pre_ln"));
  tensors.AddModule("norm", prefix + "ln_out");
  return WithHead(checkpoint, std::move(decoder), {.language_model = "head"});
}

}  // namespace heed
