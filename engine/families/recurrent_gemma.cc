// "recurrent_gemma" (Griffin: De et al. 2024): of block_types, again and again, layers of a real-gated linear
// recurrent unit, temporal_block.{linear_x, linear_y, linear_out, conv_1d, rg_lru}, and of attention with a
// window, half of a head turned, temporal_block.{q_proj, k_proj, v_proj, o_proj}; each with a gated
// feed-forward of half of intermediate_size, mlp_block; norms temporal_pre_norm, channel_pre_norm and
// final_norm, stored less one. Tokens count the root of the width, rounded to bf16; logits are capped.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// Of each layer, whether it is recurrent.
std::vector<bool> RecurrentLayers(JsonFields& fields, int64_t layers) {
  static const auto& usual = *new Json({"recurrent", "recurrent", "attention"});
  const Json& told = fields.Raw("block_types");
  const Json& types = told.is_null() ? usual : told;
  std::vector<bool> recurrent(layers);
  if (!types.is_array() || types.empty()) {
    fields.Fail(Cat("block_types: ", Shown(types), " is no list"));
    return recurrent;
  }
  for (int64_t i = 0; i < layers; ++i) {
    const Json& type = types[i % types.size()];
    recurrent[i] = type == "recurrent";
    if (!recurrent[i] && type != "attention") {
      fields.Fail(Cat("block_types: ", Shown(type), " is neither \"recurrent\" nor \"attention\""));
    }
  }
  return recurrent;
}

void SetRecurrence(int64_t i, const Json& attention, Decoder& decoder) {
  const std::string of = Cat(decoder.layer_prefix, i, ".temporal_block."),
                    to = Cat("layers.", i, ".attention.");
  TensorView& tensors = decoder.tensors();
  decoder.attention(i) = attention;
  tensors.AddModule(to + "x", of + "linear_x");
  tensors.AddModule(to + "y", of + "linear_y");
  tensors.AddModule(to + "o", of + "linear_out");
  tensors.Add(to + "convolution.weight",
              ViewedTensor(of + "conv_1d.weight").Shaped({-1, attention["kernel"].get<int64_t>()}));
  tensors.Add(to + "convolution.bias", of + "conv_1d.bias");
  for (const char* gate : {"input_gate", "recurrent_gate"}) {
    tensors.Add(Cat(to, gate, ".weight"), Cat(of, "rg_lru.", gate, "_weight"));
    tensors.Add(Cat(to, gate, ".bias"), Cat(of, "rg_lru.", gate, "_bias"));
  }
  tensors.Add(to + "recurrent_param", of + "rg_lru.recurrent_param");
}

void AddNames(Checkpoint& checkpoint, Decoder& decoder) {
  decoder.tensors().AddModule("norm", checkpoint.Prefix("model.") + "final_norm");
  decoder.AddModules("norm1", "temporal_pre_norm");
  decoder.AddModules("norm2", "channel_pre_norm");
  for (const char* name : {"q", "k", "v", "o"})
    decoder.AddModules(Cat("attention.", name), Cat("temporal_block.", name, "_proj"));
  for (const char* name : {"gate", "up", "down"})
    decoder.AddModules(Cat("ffn.", name), Cat("mlp_block.", name, "_proj"));
}

}  // namespace

absl::StatusOr<NativeModel> ReadRecurrentGemmaFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 256000,
                                                  .hidden_size = 2560,
                                                  .intermediate_size = 3 * 2560,
                                                  .num_hidden_layers = 26,
                                                  .num_attention_heads = 10,
                                                  .tokens = {.bos = 2, .eos = 1, .pad = 0},
                                                  .act_key = "hidden_activation",
                                                  .act = "gelu_pytorch_tanh",
                                                  .rope = {.share = 0.5}});
  checkpoint.Require("hidden_activation", "gelu_pytorch_tanh");
  JsonFields& fields = checkpoint.fields();
  Json& config = decoder.config();
  config["norm_offset"] = 1;
  config["intermediate_size"] = config["intermediate_size"].get<int64_t>() / 2;
  config["embedding_scale"] = ToFloat(ToBf16(std::sqrt(static_cast<float>(decoder.width))));
  const double cap = fields.Number("logits_soft_cap", 30, 1e-3, 1e6);
  if (checkpoint.task() == "CausalLM") config["logits_soft_cap"] = cap;
  decoder.SetAttention("window", Size(fields, "attention_window_size", 2048));
  const Json recurrence = {{"type", "rg_lru"},
                           {"inner_size", Size(fields, "lru_width", decoder.width)},
                           {"kernel", Size(fields, "conv1d_width", 4, 64)}};
  AddNames(checkpoint, decoder);
  const std::vector<bool> recurrent = RecurrentLayers(fields, decoder.layers);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (recurrent[i]) SetRecurrence(i, recurrence, decoder);
  }
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
