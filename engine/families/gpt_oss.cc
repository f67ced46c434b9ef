// "gpt_oss" (OpenAI 2025): Llama's layers with biases, every other one with a window, a learned sink a head
// (sinks), YaRN, and experts in every layer (mlp.router, mlp.experts.{gate_up_proj, down_proj} [experts, in,
// out] with biases, gate and up column by column), gated as "clamped_glu"; the chosen ones share a softmax.
// Files whose experts are packed in MXFP4 (gate_up_proj_blocks) are not served. "openai_privacy_filter"
// (2026): such layers as an encoder, of which each row sees sliding_window rows to either side; pairs of
// neighbours are turned, and all columns of gates stand before those of up.
#include <utility>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// What stands where config.json says nothing of scaling.
Json RopeOfClass(double theta) {
  return {{"theta", theta},
          {"layout", "half"},
          {"scaling",
           {{"type", "yarn"},
            {"factor", 32.0},
            {"original_max_position_embeddings", 4096},
            {"beta_fast", 32.0},
            {"beta_slow", 1.0},
            {"truncate", false}}}};
}

// `groups`: of gate and up, side by side.
void SetExperts(Checkpoint& checkpoint, int64_t groups, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const int64_t experts = Size(fields, "num_local_experts", 128);
  const int64_t chosen = Size(fields, "num_experts_per_tok", 4);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string of = Cat(decoder.layer_prefix, i, ".mlp."), to = Cat("layers.", i, ".ffn.");
    decoder.layer(i)["ffn"] = {
        {"type", "moe"}, {"experts", experts}, {"top_k", chosen}, {"score", "chosen_softmax"}};
    decoder.tensors().AddModule(to + "router", of + "router");
    const auto add = [&](int64_t e, const char* name, const std::string& tensor, int64_t cut,
                         const std::vector<int64_t>& sizes, int part) {
      const std::string expert = Cat(to, "experts.", e, ".", name);
      decoder.tensors().Add(
          expert + ".weight",
          ViewedTensor(of + "experts." + tensor).MatrixOf(e).Transposed().PartOfGroups(cut, sizes, part));
      decoder.tensors().Add(expert + ".bias", ViewedTensor(of + "experts." + tensor + "_bias")
                                                  .Rows(e, 1)
                                                  .Shaped({-1})
                                                  .PartOfGroups(cut, sizes, part));
    };
    for (int64_t e = 0; e < experts; ++e) {
      add(e, "gate", "gate_up_proj", groups, {1, 1}, 0);
      add(e, "up", "gate_up_proj", groups, {1, 1}, 1);
      add(e, "down", "down_proj", 1, {1}, 0);
    }
  }
}

Decoder ReadGptOss(Checkpoint& checkpoint, const LlamaDefaults& defaults) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, defaults);
  JsonFields& fields = checkpoint.fields();
  for (const auto& [key, value] : {std::pair("swiglu_alpha", 1.702), std::pair("swiglu_limit", 7.0)})
    checkpoint.Require(key, value);
  const bool scaled = checkpoint.version() >= 5
                          ? fields.Has("rope_parameters") || fields.Has("rope_scaling")
                          : checkpoint.config().contains("rope_scaling") || fields.Has("rope_parameters");
  if (!scaled) decoder.SetAttention("rope", RopeOfClass(fields.Number("rope_theta", 150000, 1, 1e12)));
  decoder.config()["hidden_act"] = "clamped_glu";
  AddLearnedSinks(decoder);
  return decoder;
}

}  // namespace

absl::StatusOr<NativeModel> ReadGptOssFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGptOss(checkpoint, {.vocab_size = 201088,
                                            .hidden_size = 2880,
                                            .intermediate_size = 2880,
                                            .num_hidden_layers = 36,
                                            .num_attention_heads = 64,
                                            .num_key_value_heads = 8,
                                            .head_dim = 64,
                                            .eps = 1e-5,
                                            .rope = {.theta = 150000}});
  SetWindows(SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return i % 2 == 0; }),
             WindowOf(checkpoint, 128), decoder);
  SetExperts(checkpoint, decoder.config()["intermediate_size"], decoder);
  return WithHead(checkpoint, std::move(decoder));
}

// A window of an encoder counts both sides.
absl::StatusOr<NativeModel> ReadOpenAiPrivacyFilterFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGptOss(checkpoint, {.vocab_size = 200064,
                                            .hidden_size = 640,
                                            .intermediate_size = 640,
                                            .num_hidden_layers = 8,
                                            .num_attention_heads = 14,
                                            .num_key_value_heads = 2,
                                            .head_dim = 64,
                                            .eps = 1e-5,
                                            .rope = {.theta = 150000, .interleaved = true}});
  decoder.config()["architecture"] = "encoder";
  SetWindows(std::vector<bool>(decoder.layers, true), 2 * WindowOf(checkpoint, 128), decoder);
  SetExperts(checkpoint, 1, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
