// "falcon_h1" (TII 2025): in every layer attention and a second Mamba's mixer read one norm and are added,
// before a SwiGLU: self_attn.{q_proj, k_proj, v_proj, o_proj}, mamba.{in_proj, conv1d, dt_bias, A_log, D,
// norm, out_proj}, feed_forward behind pre_ff_layernorm; the last norm is final_layernorm. Without
// mamba_rms_norm a mixer's result is gated and not normed.
// Multipliers of the embedding (embedding_multiplier), of what attention and mixer read and give
// (attention_in_multiplier, attention_out_multiplier, ssm_in_multiplier, ssm_out_multiplier), of keys
// (key_multiplier), of a mixer's gate, x, B, C and time steps (ssm_multipliers), of the feed-forward's gate
// and result (mlp_multipliers) and of the logits (lm_head_multiplier).
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mamba.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr double kLeast = 1e-6, kMost = 1e6;

// Times factors, one after another for the parts of its rows; sizes as in PartOfGroups.
ViewedTensor Scaled(const ViewedTensor& tensor, const std::vector<int64_t>& sizes,
                    const std::vector<double>& factors) {
  bool one = true;
  for (const double factor : factors) one = one && factor == 1;
  if (one) return tensor;
  std::vector<ViewedTensor> parts;
  for (int i = 0; i < std::ssize(sizes); ++i)
    parts.push_back(tensor.PartOfGroups(1, sizes, i).Times(static_cast<float>(factors[i])));
  return ViewedTensor::Joined(parts);
}

ViewedTensor Scaled(const ViewedTensor& tensor, double factor) {
  return factor == 1 ? tensor : tensor.Times(static_cast<float>(factor));
}

// `count` numbers, all 1 where they are not told.
std::vector<double> Multipliers(JsonFields& fields, const std::string& key, size_t count) {
  const Json& told = fields.Raw(key);
  std::vector<double> numbers(count, 1.0);
  if (told.is_null()) return numbers;
  if (!told.is_array() || told.size() != count) {
    fields.Fail(Cat(key, ": ", Shown(told), " is no list of ", count, " numbers"));
    return numbers;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!told[i].is_number()) fields.Fail(Cat(key, ": ", Shown(told[i]), " is no number"));
    numbers[i] = told[i].is_number() ? told[i].get<double>() : 1;
  }
  return numbers;
}

// What the layer's attention has of it no more.
void Remove(const std::string& module, Decoder& decoder) {
  for (const char* kind : {".weight", ".bias"}) decoder.tensors().Remove(module + kind);
}

// In every layer.
void Scale(const std::string& name, const std::string& module, double factor, Decoder& decoder) {
  decoder.AddModules(name, module, [&](const ViewedTensor& tensor) { return Scaled(tensor, factor); });
}

Json ReadMixer(Checkpoint& checkpoint, const Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  Json mixer = ReadMamba2Layer(checkpoint, decoder);
  const bool told = checkpoint.config().contains("mamba_d_ssm") && !fields.Has("mamba_d_ssm");
  const int64_t heads = mixer["num_heads"], inner = told ? Size(fields, "mamba_expand", 2, 64) * decoder.width
                                                         : Size(fields, "mamba_d_ssm", 1024);
  const Json& dim = fields.Raw("mamba_d_head");
  if (dim.is_null() || dim == "auto") mixer["head_dim"] = std::max<int64_t>(1, inner / heads);
  if (heads * mixer["head_dim"].get<int64_t>() != inner) {
    fields.Fail(Cat("mamba_d_ssm: ", inner, " numbers are not mamba_n_heads: ", heads,
                    " of mamba_d_head: ", Shown(mixer["head_dim"])));
  }
  const bool normed = fields.Bool("mamba_rms_norm", false),
             before_gate = fields.Bool("mamba_norm_before_gate", true);
  mixer["norm"] = !normed ? "none" : before_gate ? "norm_first" : "gate_first";
  mixer["norm_groups"] = mixer["num_groups"];  // whatever the version
  return mixer;
}

// Rows of a mixer's in_proj: its gate, x, B, C, time steps.
std::vector<int64_t> MixerParts(const Json& mixer) {
  const int64_t heads = mixer["num_heads"], inner = heads * mixer["head_dim"].get<int64_t>(),
                shared = mixer["num_groups"].get<int64_t>() * mixer["state_size"].get<int64_t>();
  return {inner, inner, shared, shared, heads};
}

void SetMixers(Checkpoint& checkpoint, const Json& mixer, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const std::vector<double> each = Multipliers(fields, "ssm_multipliers", 5);
  const double in = fields.Number("ssm_in_multiplier", 1, kLeast, kMost);
  std::vector<double> read = each;
  for (double& factor : read) factor *= in;
  const std::vector<int64_t> sizes = MixerParts(mixer);
  TensorView& tensors = decoder.tensors();
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string to = Cat("layers.", i, ".attention.parts.1."),
                      of = Cat(decoder.layer_prefix, i, ".mamba.");
    AddMambaMixer(to, of, mixer["kernel"], tensors);
    Remove(to + "o", decoder);
    tensors.Add(to + "in.weight", Scaled(of + "in_proj.weight", sizes, read));
    tensors.Add(to + "in.bias", Scaled(of + "in_proj.bias", sizes, each));
  }
}

// o reads the results of both, side by side.
void AddOutput(JsonFields& fields, Decoder& decoder) {
  const double attention = fields.Number("attention_out_multiplier", 1, kLeast, kMost),
               mixer = fields.Number("ssm_out_multiplier", 1, kLeast, kMost);
  const bool scaled = attention != 1 || mixer != 1;
  const auto columns = [&](const std::string& name, double factor) {
    const ViewedTensor tensor = ViewedTensor(name).Transposed();
    return scaled ? tensor.Times(static_cast<float>(factor)) : tensor;
  };
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string to = Cat("layers.", i, ".attention.o."), of = Cat(decoder.layer_prefix, i, ".");
    decoder.tensors().Add(to + "weight",
                          ViewedTensor::Joined({columns(of + "self_attn.o_proj.weight", attention),
                                                columns(of + "mamba.out_proj.weight", mixer)})
                              .Transposed());
    decoder.tensors().Add(to + "bias", Scaled(of + "mamba.out_proj.bias", mixer));
  }
}

void SetFeedForward(Checkpoint& checkpoint, Decoder& decoder) {
  SetFeedForwardNames(checkpoint, decoder);
  const std::vector<double> factors = Multipliers(checkpoint.fields(), "mlp_multipliers", 2);
  Scale("ffn.gate", "feed_forward.gate_proj", factors[0], decoder);
  Scale("ffn.down", "feed_forward.down_proj", factors[1], decoder);
}

void SetAttentions(Checkpoint& checkpoint, const Json& mixer, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("attention_bias", false);
  decoder.SetAttention("scale", fields.Number("key_multiplier", 1, kLeast, kMost) /
                                    std::sqrt(static_cast<double>(decoder.head_dim)));
  for (int64_t i = 0; i < decoder.layers; ++i)
    decoder.attention(i) = {{"type", "side_by_side"}, {"parts", {decoder.attention(i), mixer}}};
  const double in = fields.Number("attention_in_multiplier", 1, kLeast, kMost);
  for (const char* name : {"q", "k", "v"}) {
    Scale(Cat("attention.parts.0.", name), Cat("self_attn.", name, "_proj"), in, decoder);
    for (int64_t i = 0; i < decoder.layers; ++i) Remove(Cat("layers.", i, ".attention.", name), decoder);
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadFalconH1Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 128000,
                                                  .intermediate_size = 14336,
                                                  .num_key_value_heads = 8,
                                                  .tokens = {.bos = 1, .eos = 2, .pad = 0},
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 100000}});
  JsonFields& fields = checkpoint.fields();
  const Json mixer = ReadMixer(checkpoint, decoder);
  SetAttentions(checkpoint, mixer, decoder);
  SetMixers(checkpoint, mixer, decoder);
  AddOutput(fields, decoder);
  SetFeedForward(checkpoint, decoder);
  decoder.config()["embedding_scale"] = fields.Number("embedding_multiplier", 1, kLeast, kMost);
  const double logits = fields.Number("lm_head_multiplier", 1, kLeast, kMost);
  if (checkpoint.task() == "CausalLM") decoder.config()["logits_scale"] = logits;
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
