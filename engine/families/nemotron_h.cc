// "nemotron_h" (NVIDIA 2025; Nemotron 3): blocks of one kind each, x + mixer(norm(x)): the second Mamba's
// mixers, attention that is not turned, feed-forwards of squared relu, mixtures of experts chosen by
// sigmoids and a correction with an expert for all rows. layers_block_type lists them, or
// hybrid_override_pattern, M * - E. A feed-forward and the mixer or attention before it are one layer of the
// native format. Names: backbone.{embeddings, layers.I.{norm, mixer.{in_proj, conv1d, dt_bias, A_log, D,
// norm, out_proj} | {q_proj, k_proj, v_proj, o_proj} | {up_proj, down_proj} | {gate, experts.E,
// shared_experts}}, norm_f}.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/mamba.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

enum class Kind { kMixer, kAttention, kDense, kExperts };

bool IsFeedForward(Kind kind) { return kind == Kind::kDense || kind == Kind::kExperts; }

// Each block's kind, by a name of transformers 5, an older one, or a letter.
std::vector<Kind> ReadKinds(JsonFields& fields) {
  static const auto& kinds =
      *new std::map<std::string, Kind, std::less<>>{{"linear_attention", Kind::kMixer},
                                                    {"mamba", Kind::kMixer},
                                                    {"M", Kind::kMixer},
                                                    {"full_attention", Kind::kAttention},
                                                    {"attention", Kind::kAttention},
                                                    {"*", Kind::kAttention},
                                                    {"mlp", Kind::kDense},
                                                    {"-", Kind::kDense},
                                                    {"moe", Kind::kExperts},
                                                    {"E", Kind::kExperts}};
  Json names = fields.Raw("layers_block_type");
  const std::string pattern = fields.String("hybrid_override_pattern", "");
  if (names.is_null()) {
    names = Json::array();
    for (const char letter : pattern) names.push_back(std::string(1, letter));
  }
  std::vector<Kind> blocks;
  if (!names.is_array() || names.empty() || std::ssize(names) > kMostLayers) {
    fields.Fail(Cat("layers_block_type: ", Shown(names), " is no list of at most ", kMostLayers, " blocks"));
    return blocks;
  }
  for (const Json& name : names) {
    const auto found = name.is_string() ? kinds.find(name.get<std::string>()) : kinds.end();
    if (found == kinds.end()) {
      fields.Fail(Cat("layers_block_type: ", Shown(name),
                      " is not served; linear_attention, full_attention, mlp and moe are"));
      return {};
    }
    const bool apart = IsFeedForward(found->second) && (blocks.empty() || IsFeedForward(blocks.back()));
    if (apart) {
      fields.Fail(Cat("layers_block_type: ", Shown(name), " at ", blocks.size(),
                      " is served behind linear_attention or full_attention"));
      return {};
    }
    blocks.push_back(found->second);
  }
  return blocks;
}

Json ReadMixer(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("mamba_hidden_act", "silu");
  const int64_t groups = Size(fields, "n_groups", 8);
  Json mixer = {{"type", "mamba2"},
                {"num_heads", Size(fields, "mamba_num_heads", 128)},
                {"head_dim", Size(fields, "mamba_head_dim", 64)},
                {"state_size", Size(fields, "ssm_state_size", 128)},
                {"num_groups", groups},
                {"kernel", Size(fields, "conv_kernel", 4, 64)},
                {"norm_groups", groups},
                {"norm_eps", fields.Number("layer_norm_epsilon", 1e-5, 0, 1)}};
  ReadTimeStepLimit(fields, mixer);
  return mixer;
}

Mixture ReadMixture(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("moe_latent_size", nullptr);
  checkpoint.Require("n_shared_experts", 1);
  return {.options = {{"experts", Size(fields, "n_routed_experts", 8)},
                      {"top_k", Size(fields, "num_experts_per_tok", 2)},
                      {"intermediate_size", Size(fields, "moe_intermediate_size", 7688)},
                      {"score", "sigmoid"},
                      {"normalize", fields.Bool("norm_topk_prob", true)},
                      {"scale", fields.Number("routed_scaling_factor", 1, 1e-6, 1e6)},
                      {"groups", Size(fields, "n_group", 1)},
                      {"top_groups", Size(fields, "topk_group", 1)},
                      {"shared_size", Size(fields, "moe_shared_expert_intermediate_size", 7688)}},
          .module = "mixer",
          .correction = "gate.e_score_correction_bias",
          .shared = "shared_experts"};
}

Decoder ReadShape(Checkpoint& checkpoint, const std::vector<Kind>& blocks) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("sliding_window", nullptr);
  const std::string prefix =
      checkpoint.Prefix("backbone.").empty() ? checkpoint.Prefix("model.") : "backbone.";
  Decoder decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", 131072),
                                 {.bos = 1, .eos = 2, .pad = 0}, prefix + "layers.");
  decoder.width = Size(fields, "hidden_size", 4096);
  decoder.heads = Size(fields, "num_attention_heads", 32);
  decoder.layers = std::ranges::count_if(blocks, [](Kind kind) { return !IsFeedForward(kind); });
  decoder.SetLayers({{"type", "softmax"},
                     {"num_key_value_heads", Size(fields, "num_key_value_heads", 8)},
                     {"head_dim", Size(fields, "head_dim", 128)}});
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "intermediate_size", 21504);
  config["hidden_act"] = ActivationName(fields, "mlp_hidden_act", "relu2");
  config["norm_type"] = "rms";
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-5, 0, 1);
  decoder.tensors().Add("embed.tokens.weight", prefix + "embeddings.weight");
  decoder.tensors().AddModule("norm", prefix + "norm_f");
  decoder.tensors().Ignore("mtp.*");
  return decoder;
}

// Layers are numbered otherwise than the file's blocks.
struct Block {
  Kind kind;
  int64_t number, layer;
};

void AddBlock(const Block& block, const Json& mixer, Decoder& decoder) {
  const auto [kind, number, layer] = block;
  const std::string of = Cat(decoder.layer_prefix, number, "."), to = Cat("layers.", layer, ".");
  TensorView& tensors = decoder.tensors();
  tensors.AddModule(to + (IsFeedForward(kind) ? "norm2" : "norm1"), of + "norm");
  if (kind == Kind::kMixer) {
    decoder.attention(layer) = mixer;
    AddMambaMixer(to + "attention.", of + "mixer.", mixer["kernel"], tensors);
  } else if (kind == Kind::kAttention) {
    for (const char* name : {"q", "k", "v", "o"})
      tensors.AddModule(Cat(to, "attention.", name), Cat(of, "mixer.", name, "_proj"));
  } else if (kind == Kind::kDense) {
    tensors.AddModule(to + "ffn.up", of + "mixer.up_proj");
    tensors.AddModule(to + "ffn.down", of + "mixer.down_proj");
    decoder.layer(layer).erase("ffn");
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadNemotronHFamily(Checkpoint& checkpoint) {
  const std::vector<Kind> blocks = ReadKinds(checkpoint.fields());
  RETURN_IF_ERROR(checkpoint.fields().error());
  Decoder decoder = ReadShape(checkpoint, blocks);
  for (int64_t i = 0; i < decoder.layers; ++i) decoder.layer(i)["ffn"] = {{"type", "none"}};
  const Json mixer = ReadMixer(checkpoint);
  Mixture mixture = ReadMixture(checkpoint);
  int64_t layer = -1;
  for (int64_t i = 0; i < std::ssize(blocks); ++i) {
    if (!IsFeedForward(blocks[i])) ++layer;
    AddBlock({blocks[i], i, layer}, mixer, decoder);
    mixture.number = i;
    if (blocks[i] == Kind::kExperts) SetMixture(checkpoint, layer, mixture, decoder);
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
