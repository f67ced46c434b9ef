#include "engine/families/decoder.h"

#include <memory>
#include <utility>

#include "engine/base/memory.h"
#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kMostWindow = int64_t{1} << 30;

void SetToken(const Checkpoint& checkpoint, const char* key, const Json& fallback, Json& config) {
  if (checkpoint.config().contains(key) || fallback.is_null()) return;
  Json ids = Json::array();
  for (const Json& id : fallback.is_array() ? fallback : Json::array({fallback})) {
    if (id < config["vocab_size"]) ids.push_back(id);
  }
  if (!ids.empty()) config[key] = fallback.is_array() ? ids : ids[0];
}

Tensor Zeros(int64_t count) {
  auto numbers = std::make_shared<Buffer>(Buffer::Zeros(count * sizeof(float)));
  Tensor tensor{DType::kF32, {count}};
  tensor.data = numbers->as<float>();
  tensor.memory = std::move(numbers);
  return tensor;
}

// Before transformers 5 a tied head is the embedding whatever the file has; since then what the file has.
absl::Status AddLanguageModel(Checkpoint& checkpoint, const DecoderHead& head, TensorView& tensors) {
  const bool tied = checkpoint.fields().Bool("tie_word_embeddings", head.tied);
  const std::string weight = head.language_model + ".weight";
  if (!tied && !checkpoint.Has(weight))
    return Invalid("tensor \"", weight, "\" is missing, and tie_word_embeddings is false");
  if (tied && checkpoint.version() < 5) {
    tensors.Ignore(weight);
  } else {
    tensors.Add("lm_head.weight", weight);
  }
  tensors.Add("lm_head.bias", head.language_model + ".bias");
  return absl::OkStatus();
}

}  // namespace

void Decoder::SetLayers(const Json& attention) {
  config()["hidden_size"] = width;
  config()["num_attention_heads"] = heads;
  config()["layers"] = Json(layers, Json{{"attention", attention}});
}

void Decoder::SetAttention(const std::string& key, const Json& value) {
  for (int64_t i = 0; i < layers; ++i) attention(i)[key] = value;
}

void Decoder::SetParallel(const std::string& norm) {
  for (int64_t i = 0; i < layers; ++i) layer(i)["parallel"] = true;
  if (norm.empty()) return;
  AddModules("norm1", norm);
  AddModules("norm2", norm);
}

void Decoder::AddModules(const std::string& name, const std::string& module) {
  for (int64_t i = 0; i < layers; ++i)
    tensors().AddModule(Cat("layers.", i, ".", name), Cat(layer_prefix, i, ".", module));
}

void Decoder::AddModules(const std::string& name, const std::string& module,
                         absl::FunctionRef<ViewedTensor(const ViewedTensor&)> part) {
  for (int64_t i = 0; i < layers; ++i) {
    for (const char* kind : {".weight", ".bias"}) {
      tensors().Add(Cat("layers.", i, ".", name, kind),
                    part(ViewedTensor(Cat(layer_prefix, i, ".", module, kind))));
    }
  }
}

void Decoder::AddFused(const std::string& module, int64_t groups, const std::vector<int64_t>& sizes,
                       const std::array<int, 3>& order) {
  constexpr const char* kNames[] = {"attention.q", "attention.k", "attention.v"};
  for (int product = 0; product < 3; ++product) {
    AddModules(kNames[product], module,
               [&](const ViewedTensor& fused) { return fused.PartOfGroups(groups, sizes, order[product]); });
  }
}

Decoder BeginDecoder(Checkpoint& checkpoint, int64_t vocab_size, const TokenIds& tokens,
                     std::string layer_prefix) {
  checkpoint.Require("is_encoder_decoder", false);
  checkpoint.Require("add_cross_attention", false);
  Decoder decoder{
      .model = {.config = BeginConfig(checkpoint, "decoder", vocab_size), .tensors = TensorView()},
      .layer_prefix = std::move(layer_prefix)};
  SetToken(checkpoint, "bos_token_id", tokens.bos, decoder.config());
  SetToken(checkpoint, "eos_token_id", tokens.eos, decoder.config());
  SetToken(checkpoint, "pad_token_id", tokens.pad, decoder.config());
  decoder.tensors().Ignore("*rotary_emb.inv_freq");
  return decoder;
}

std::optional<double> NumberOrNone(Checkpoint& checkpoint, std::string_view key,
                                   std::optional<double> fallback, double min, double max) {
  JsonFields& fields = checkpoint.fields();
  if (fields.Has(key)) return fields.Number(key, min, min, max);
  return checkpoint.config().contains(std::string(key)) ? std::nullopt : fallback;
}

int64_t WindowOf(Checkpoint& checkpoint, int64_t fallback) {
  const bool told = checkpoint.config().contains("sliding_window");
  return checkpoint.fields().Int("sliding_window", told ? 0 : fallback, 1, kMostWindow);
}

std::vector<bool> SlidingLayers(Checkpoint& checkpoint, int64_t layers,
                                absl::FunctionRef<bool(int64_t)> rule) {
  JsonFields& fields = checkpoint.fields();
  const Json& types = fields.Raw("layer_types");
  std::vector<bool> sliding(layers);
  if (types.is_array() && static_cast<int64_t>(types.size()) != layers)
    fields.Fail(Cat("layer_types: ", types.size(), " of ", layers, " layers"));
  for (int64_t i = 0; i < layers; ++i) {
    if (!types.is_array() || static_cast<int64_t>(types.size()) != layers) {
      sliding[i] = rule(i);
    } else if (types[i] == "sliding_attention") {
      sliding[i] = true;
    } else if (types[i] != "full_attention") {
      fields.Fail(Cat("layer_types[", i, "]: ", Shown(types[i]),
                      " is not served; full_attention and sliding_attention are"));
    }
  }
  return sliding;
}

void SetWindows(const std::vector<bool>& sliding, int64_t window, Decoder& decoder) {
  for (int64_t i = 0; i < decoder.layers && window > 0; ++i) {
    if (sliding[i]) decoder.attention(i)["window"] = window;
  }
}

void AddLearnedSinks(Decoder& decoder) {
  decoder.SetAttention("learned_sink", true);
  for (int64_t i = 0; i < decoder.layers; ++i)
    decoder.tensors().Add(Cat("layers.", i, ".attention.sink.weight"),
                          Cat(decoder.layer_prefix, i, ".self_attn.sinks"));
}

void AddScore(Decoder& decoder) {
  decoder.tensors().Add("classifier.weight", std::string("score.weight"));
  decoder.tensors().Add("classifier.bias",
                        ViewedTensor::Of(Zeros(decoder.config()["num_labels"].get<int64_t>())));
}

absl::StatusOr<NativeModel> WithHead(Checkpoint& checkpoint, Decoder decoder, const DecoderHead& head) {
  const std::string& task = checkpoint.task();
  Json& config = decoder.config();
  TensorView& tensors = decoder.tensors();
  if (task == "CausalLM" || task == "LMHeadModel") {
    config["head"] = "lm";
    RETURN_IF_ERROR(AddLanguageModel(checkpoint, head, tensors));
  } else if (task == "SequenceClassification") {
    SetLabels(checkpoint, "classification", config);
    PoolLastToken(config);
    AddScore(decoder);
  } else if (task == "TokenClassification") {
    SetLabels(checkpoint, "token_classification", config);
    tensors.AddModule("classifier", head.token_classifier);
  } else if (task != "Model") {
    return checkpoint.UnknownTask(
        {"Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification"});
  }
  return std::move(decoder.model);
}

}  // namespace heed
