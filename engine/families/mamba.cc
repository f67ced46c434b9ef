// "mamba" (Gu and Dao 2023), "falcon_mamba" (TII 2024, which norms dt, B and C): pre-norm layers of a
// selective state space. Names: backbone.{embeddings, layers.I.{norm, mixer.{in_proj, conv1d, x_proj,
// dt_proj, A_log, D, out_proj}}, norm_f}, without "backbone." in a base model.
//   CausalLM  lm_head, or tied to the embedding
//   Model     the rows as they are
#include "engine/families/mamba.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// What the native format takes for no limit. Python writes Infinity, transformers 5 an object that says so.
constexpr double kMostStep = 3e38;

// What both models of the first Mamba share.
absl::StatusOr<NativeModel> ReadFirstMamba(Checkpoint& checkpoint, bool normed) {
  JsonFields& fields = checkpoint.fields();
  MambaShape shape{.hidden_size = Size(fields, "hidden_size", 768),
                   .num_hidden_layers = Size(fields, "num_hidden_layers", 32, kMostLayers),
                   .vocab_size = Size(fields, "vocab_size", 50280),
                   .tokens = {.bos = 0, .eos = 0, .pad = 0},
                   .tied = true};
  const Json& rank = fields.Raw("time_step_rank");
  const bool automatic = rank.is_null() || rank == "auto";
  shape.attention = {
      {"type", "mamba"},
      {"inner_size", Size(fields, "intermediate_size", Size(fields, "expand", 2, 64) * shape.hidden_size)},
      {"state_size", Size(fields, "state_size", 16)},
      {"time_step_rank", automatic ? (shape.hidden_size + 15) / 16 : Size(fields, "time_step_rank", 1)},
      {"kernel", Size(fields, "conv_kernel", 4, 64)}};
  if (normed) shape.attention["norm_eps"] = fields.Number("mixer_rms_eps", 1e-6, 0, 1);
  return ReadMambaModel(checkpoint, shape);
}

}  // namespace

void AddMambaMixer(const std::string& to, const std::string& of, int64_t kernel, TensorView& tensors) {
  tensors.AddModule(to + "in", of + "in_proj");
  tensors.Add(to + "convolution.weight", ViewedTensor(of + "conv1d.weight").Shaped({-1, kernel}));
  tensors.Add(to + "convolution.bias", ViewedTensor(of + "conv1d.bias"));
  tensors.AddModule(to + "x", of + "x_proj");
  tensors.AddModule(to + "dt", of + "dt_proj");
  tensors.Add(to + "dt_bias", ViewedTensor(of + "dt_bias"));
  tensors.Add(to + "a_log", ViewedTensor(of + "A_log"));
  tensors.Add(to + "d", ViewedTensor(of + "D"));
  tensors.AddModule(to + "norm", of + "norm");
  tensors.AddModule(to + "o", of + "out_proj");
}

void ReadTimeStepLimit(JsonFields& fields, Json& attention) {
  static const auto& infinity = *new Json{{"__float__", "Infinity"}};
  const Json& limits = fields.Raw("time_step_limit");
  if (limits.is_null()) return;
  const bool pair = limits.is_array() && limits.size() == 2;
  if (!pair || !limits[0].is_number() || !(limits[1].is_number() || limits[1] == infinity))
    return fields.Fail(Cat("time_step_limit: ", Shown(limits), " is no list of two numbers"));
  attention["time_step_min"] = limits[0];
  attention["time_step_max"] =
      limits[1].is_number() ? std::min(limits[1].get<double>(), kMostStep) : kMostStep;
}

Json ReadMamba2Layer(Checkpoint& checkpoint, const Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const int64_t heads = Size(fields, "mamba_n_heads", 128), groups = Size(fields, "mamba_n_groups", 1),
                inner = Size(fields, "mamba_expand", 2, 64) * decoder.width;
  const Json& dim = fields.Raw("mamba_d_head");
  const bool automatic = dim.is_null() || dim == "auto";
  Json attention = {
      {"type", "mamba2"},
      {"num_heads", heads},
      {"head_dim", automatic ? std::max<int64_t>(1, inner / heads) : Size(fields, "mamba_d_head", 64)},
      {"state_size", Size(fields, "mamba_d_state", 256)},
      {"num_groups", groups},
      {"kernel", Size(fields, "mamba_d_conv", 4, 64)},
      {"norm_groups", checkpoint.version() < 5 ? 1 : groups},
      {"norm_eps", decoder.model.config["layer_norm_eps"]}};
  ReadTimeStepLimit(fields, attention);
  return attention;
}

void SetMixer(int64_t i, const Json& attention, const std::string& module, Decoder& decoder) {
  decoder.attention(i) = attention;
  AddMambaMixer(Cat("layers.", i, ".attention."), Cat(decoder.layer_prefix, i, ".", module, "."),
                attention["kernel"], decoder.tensors());
}

void SetFeedForwardNames(Checkpoint& checkpoint, Decoder& decoder) {
  decoder.tensors().AddModule("norm", checkpoint.Prefix("model.") + "final_layernorm");
  decoder.AddModules("norm2", "pre_ff_layernorm");
  decoder.AddModules("ffn.gate", "feed_forward.gate_proj");
  decoder.AddModules("ffn.up", "feed_forward.up_proj");
  decoder.AddModules("ffn.down", "feed_forward.down_proj");
}

absl::StatusOr<NativeModel> ReadMambaModel(Checkpoint& checkpoint, const MambaShape& shape) {
  const std::string prefix = checkpoint.Prefix("backbone.");
  Decoder decoder = BeginDecoder(checkpoint, shape.vocab_size, shape.tokens, prefix + "layers.");
  checkpoint.Require("hidden_act", "silu");
  decoder.width = shape.hidden_size;
  decoder.layers = shape.num_hidden_layers;
  decoder.heads = shape.num_heads;
  decoder.SetLayers(shape.attention);
  Json& config = decoder.config();
  config["norm_type"] = "rms";
  config["layer_norm_eps"] = checkpoint.fields().Number("layer_norm_epsilon", 1e-5, 0, 1);

  TensorView& tensors = decoder.tensors();
  const std::string older = prefix + "embedding.weight";
  tensors.Add("embed.tokens.weight", checkpoint.Has(older) ? older : prefix + "embeddings.weight");
  for (int64_t i = 0; i < decoder.layers; ++i) {
    decoder.layer(i)["ffn"] = {{"type", "none"}};
    AddMambaMixer(Cat("layers.", i, ".attention."), Cat(decoder.layer_prefix, i, ".mixer."),
                  shape.attention["kernel"], tensors);
  }
  decoder.AddModules("norm1", "norm");
  tensors.AddModule("norm", prefix + "norm_f");
  return WithHead(checkpoint, std::move(decoder), {.tied = shape.tied});
}

absl::StatusOr<NativeModel> ReadMambaFamily(Checkpoint& checkpoint) {
  return ReadFirstMamba(checkpoint, /*normed=*/false);
}

absl::StatusOr<NativeModel> ReadFalconMambaFamily(Checkpoint& checkpoint) {
  return ReadFirstMamba(checkpoint, /*normed=*/true);
}

}  // namespace heed
