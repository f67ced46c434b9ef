// Encoders with the layers of BERT whose queries and keys are turned, instead of a table of positions.
// "nomic_bert" (Nussbaum et al. 2024): feed-forwards with a gate, no biases. Its published files have GPT-2's
//   keys (n_embd, n_head, ...).  Model;  MaskedLM: cls.predictions, tied to the embedding
// "gte" and, of the same files before transformers had the family, "new" (Zhang et al. 2024, mGTE): gated
//   feed-forwards, biases.
// "jina_embeddings_v3" (Sturua et al. 2024), without adapters: feed-forwards without a gate; RoBERTa's heads.
#include <utility>

#include "engine/base/status.h"
#include "engine/families/bert.h"
#include "engine/families/gpt2.h"
#include "engine/families/parts.h"
#include "engine/families/rope.h"

namespace heed {
namespace {

// What differs among them: what config.json may leave out, and how modules are called below a layer.
struct RotaryBert {
  std::string prefix;  // "gte."
  int64_t vocab_size = 30522, width = 768, layers = 12, heads = 12, hidden = 3072, types = 2;
  int64_t max_positions = 8192;
  double eps = 1e-12;
  RopeDefaults rope{};
  bool gated = true;
  std::string embedding_norm = "emb_ln", layer = "encoder.layers.";
  std::string qkv = "attn.Wqkv", o = "attn.out_proj", norm1 = "norm1", norm2 = "norm2", down = "mlp.fc2";
};

void AddShape(Checkpoint& checkpoint, const RotaryBert& kind, Json& config) {
  JsonFields& fields = checkpoint.fields();
  const int64_t width = SizeOfEither(checkpoint, "n_embd", "hidden_size", kind.width, kMostSize),
                heads = SizeOfEither(checkpoint, "n_head", "num_attention_heads", kind.heads, kMostSize);
  config["hidden_size"] = width;
  config["num_attention_heads"] = heads;
  config["intermediate_size"] =
      SizeOfEither(checkpoint, "n_inner", "intermediate_size", kind.hidden, kMostSize);
  config["max_position_embeddings"] =
      SizeOfEither(checkpoint, "n_positions", "max_position_embeddings", kind.max_positions, kMostSize);
  config["norm"] = "post";
  config["layer_norm_eps"] =
      fields.Number("layer_norm_epsilon", fields.Number("layer_norm_eps", kind.eps, 0, 1), 0, 1);
  config["embedding_norm"] = true;
  config["type_vocab_size"] = fields.Int("type_vocab_size", kind.types, 0, kMostSize);
  const int64_t layers = SizeOfEither(checkpoint, "n_layer", "num_hidden_layers", kind.layers, kMostLayers);
  config["layers"] = Json(
      layers,
      Json{{"attention", {{"type", "softmax"}, {"rope", ReadRope(checkpoint, kind.rope, width / heads)}}}});
}

// Keys of the shape, and the tensors of embeddings and layers but what stands before ffn.down.
NativeModel ReadRotaryBert(Checkpoint& checkpoint, const RotaryBert& kind) {
  NativeModel model{
      .config = BeginConfig(checkpoint, "encoder", Size(checkpoint.fields(), "vocab_size", kind.vocab_size)),
      .tensors = TensorView()};
  AddShape(checkpoint, kind, model.config);
  model.config["hidden_act"] = kind.gated ? GatedName(checkpoint.fields(), "hidden_act", "gelu")
                                          : ActivationName(checkpoint.fields(), "hidden_act", "gelu");
  TensorView& tensors = *model.tensors;
  tensors.Add("embed.tokens.weight", kind.prefix + "embeddings.word_embeddings.weight");
  tensors.Add("embed.types.weight", kind.prefix + "embeddings.token_type_embeddings.weight");
  tensors.AddModule("embed.norm", kind.prefix + kind.embedding_norm);
  tensors.Ignore("*rotary_emb.inv_freq");
  const char* const names[] = {"q", "k", "v"};
  for (size_t i = 0; i < model.config["layers"].size(); ++i) {
    const std::string of = Cat(kind.prefix, kind.layer, i, "."), to = Cat("layers.", i, ".");
    for (const char* part : {".weight", ".bias"}) {
      for (int product = 0; product < 3; ++product)
        tensors.Add(Cat(to, "attention.", names[product], part),
                    ViewedTensor(Cat(of, kind.qkv, part)).PartOfGroups(1, {1, 1, 1}, product));
    }
    tensors.AddModule(to + "attention.o", of + kind.o);
    tensors.AddModule(to + "norm1", of + kind.norm1);
    tensors.AddModule(to + "norm2", of + kind.norm2);
    tensors.AddModule(to + "ffn.down", of + kind.down);
  }
  return model;
}

// One module of every layer, below its name.
void AddInEach(const RotaryBert& kind, const std::string& name, const std::string& module,
               NativeModel& model) {
  for (size_t i = 0; i < model.config["layers"].size(); ++i)
    model.tensors->AddModule(Cat("layers.", i, ".", name), Cat(kind.prefix, kind.layer, i, ".", module));
}

absl::Status AddBertHead(Checkpoint& checkpoint, const std::string& prefix, NativeModel& model) {
  const std::string& task = checkpoint.task();
  if (task == "SequenceClassification") {
    AddPooledClassifier(checkpoint, {.module = prefix + "pooler.dense"}, model);
    return absl::OkStatus();
  }
  model.tensors->Ignore(prefix + "pooler.*");
  if (task == "Model" || task == "MaskedLM" || AddTokenHead(checkpoint, model)) return absl::OkStatus();
  return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForSequenceClassification",
                                 "ForTokenClassification", "ForQuestionAnswering"});
}

}  // namespace

absl::StatusOr<NativeModel> ReadNomicBertFamily(Checkpoint& checkpoint) {
  const RotaryBert kind{.prefix = checkpoint.Prefix("nomic_bert."),
                        .max_positions = 2048,
                        .rope = {.theta = 1000, .theta_key = "rotary_emb_base"}};
  const std::pair<const char*, Json> required[] = {
      {"prenorm", false},           {"use_rms_norm", false},           {"rotary_emb_interleaved", false},
      {"rotary_emb_fraction", 1.0}, {"rotary_scaling_factor", Json()}, {"activation_function", "swiglu"}};
  for (const auto& [key, value] : required) checkpoint.Require(key, value);
  JsonFields& fields = checkpoint.fields();
  NativeModel model = ReadRotaryBert(checkpoint, kind);
  const bool published = fields.Has("activation_function");
  if (published) model.config["hidden_act"] = "swiglu";
  AddInEach(kind, "ffn.up", "mlp.fc11", model);
  AddInEach(kind, "ffn.gate", "mlp.fc12", model);
  model.tensors->Ignore(kind.prefix + "pooler.*");
  if (checkpoint.task() == "Model") return model;
  if (checkpoint.task() != "MaskedLM") return checkpoint.UnknownTask({"Model", "ForMaskedLM"});
  model.config["head"] = "lm";
  AddHeadLayer(model.config["hidden_size"], published ? "silu" : ActivationName(fields, "hidden_act", "gelu"),
               /*norm=*/true, model.config);
  const std::string head = "cls.predictions.";
  model.tensors->AddModule("head_layers.0", head + "transform.dense");
  model.tensors->AddModule("head_layers.0.norm", head + "transform.layer_norm");
  model.tensors->Add("lm_head.weight", head + "decoder.weight");
  model.tensors->Add("lm_head.bias", head + "bias");
  model.tensors->Ignore(head + "decoder.bias");  // the same again
  return model;
}

absl::StatusOr<NativeModel> ReadGteFamily(Checkpoint& checkpoint) {
  const std::string published = checkpoint.Prefix("new.");
  const RotaryBert kind{.prefix = published.empty() ? checkpoint.Prefix("gte.") : published,
                        .vocab_size = 250048,
                        .types = 1,
                        .rope = {.ntk = true},
                        .embedding_norm = "embeddings.LayerNorm",
                        .layer = "encoder.layer.",
                        .qkv = "attention.qkv_proj",
                        .o = "attention.o_proj",
                        .norm1 = "attn_ln",
                        .norm2 = "mlp_ln",
                        .down = "mlp.down_proj"};
  checkpoint.Require("layer_norm_type", "layer_norm");
  checkpoint.Require("logn_attention_scale", false);
  checkpoint.Require("position_embedding_type", "rope");
  NativeModel model = ReadRotaryBert(checkpoint, kind);
  for (size_t i = 0; i < model.config["layers"].size(); ++i) {
    const ViewedTensor both(Cat(kind.prefix, kind.layer, i, ".mlp.up_gate_proj.weight"));
    model.tensors->Add(Cat("layers.", i, ".ffn.up.weight"), both.PartOfGroups(1, {1, 1}, 0));
    model.tensors->Add(Cat("layers.", i, ".ffn.gate.weight"), both.PartOfGroups(1, {1, 1}, 1));
  }
  RETURN_IF_ERROR(AddBertHead(checkpoint, kind.prefix, model));
  if (checkpoint.task() == "MaskedLM") {
    AddMaskedHead("lm_head", checkpoint.Has("lm_head.norm.weight") ? "norm" : "layer_norm",
                  model.config["hidden_size"], "gelu", model);
    model.tensors->AddModule("lm_head", "lm_head.decoder");
  }
  return model;
}

absl::StatusOr<NativeModel> ReadJinaV3Family(Checkpoint& checkpoint) {
  const RotaryBert kind{.prefix = checkpoint.Prefix("roberta."),
                        .vocab_size = 250002,
                        .width = 1024,
                        .layers = 24,
                        .heads = 16,
                        .hidden = 4096,
                        .types = 1,
                        .max_positions = 8194,
                        .eps = 1e-5,
                        .rope = {.theta = 20000},
                        .gated = false,
                        .qkv = "mixer.Wqkv",
                        .o = "mixer.out_proj"};
  NativeModel model = ReadRotaryBert(checkpoint, kind);
  AddInEach(kind, "ffn.up", "mlp.fc1", model);
  return WithRobertaHead(checkpoint, kind.prefix, std::move(model));
}

}  // namespace heed
