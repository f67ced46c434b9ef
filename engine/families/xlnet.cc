// "xlnet" (Yang et al. 2019): post-norm encoder with relative positions and relative segments. A text is read
// as a whole: there is no memory of texts before it (mem_len). Names: transformer.{word_embedding,
// layer.I.{rel_attn.{q, k, v, o, r, r_w_bias, r_r_bias, r_s_bias, seg_embed, layer_norm}, ff.{layer_1,
// layer_2, layer_norm}}}, without "transformer." in a base model.
//   LMHeadModel              lm_loss, of the content stream; tied to the embedding
//   SequenceClassification   sequence_summary.summary (summary_activation), logits_proj
//   TokenClassification      classifier;  QuestionAnsweringSimple  qa_outputs;  Model  the rows as they are
// A file does not say how far positions may be apart: max_position_embeddings, or else 1024.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kTypes = 5;  // that its tokenizers give: two texts, the first token, one unused, padding

// [hidden_size, heads, head_dim] as [heads head_dim, hidden_size].
ViewedTensor Product(const std::string& name, int64_t width) {
  return ViewedTensor(name).Shaped({width, -1}).Transposed();
}

void AddLayer(const std::string& of, const std::string& to, int64_t width, TensorView& tensors) {
  const std::string attention = of + "rel_attn.", native = to + "attention.";
  for (const char* name : {"q", "k", "v", "r"})
    tensors.Add(Cat(native, name, ".weight"), Product(attention + name, width));
  tensors.Add(native + "o.weight", ViewedTensor(attention + "o").Shaped({width, -1}));
  tensors.Add(native + "pos_bias_u", attention + "r_w_bias");
  tensors.Add(native + "pos_bias_v", attention + "r_r_bias");
  tensors.Add(native + "segment_bias", attention + "r_s_bias");
  // Of the same segment comes first here.
  const ViewedTensor segments(attention + "seg_embed");
  tensors.Add(native + "segments", ViewedTensor::Joined({segments.Rows(1, 1), segments.Rows(0, 1)}));
  tensors.AddModule(to + "norm1", attention + "layer_norm");
  tensors.AddModule(to + "ffn.up", of + "ff.layer_1");
  tensors.AddModule(to + "ffn.down", of + "ff.layer_2");
  tensors.AddModule(to + "norm2", of + "ff.layer_norm");
}

void SetShape(Checkpoint& checkpoint, Json& config) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("attn_type", "bi");
  checkpoint.Require("bi_data", false);
  if (fields.Int("clamp_len", -1, -1, kMostSize) > 0)
    fields.Fail(Cat("clamp_len: ", fields.Int("clamp_len", -1, -1, kMostSize), " is not served; -1 is"));
  const int64_t width = Size(fields, "d_model", 1024), heads = Size(fields, "n_head", 16);
  config["hidden_size"] = width;
  config["num_attention_heads"] = heads;
  config["intermediate_size"] = Size(fields, "d_inner", 4096);
  config["hidden_act"] = ActivationName(fields, "ff_activation", "gelu");
  config["norm"] = "post";
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-12, 0, 1);
  config["type_vocab_size"] = kTypes;
  const Json attention = {{"type", "relative_segments"},
                          {"max_distance", Size(fields, "max_position_embeddings", 1024) - 1},
                          {"head_dim", Size(fields, "d_head", std::max<int64_t>(width / heads, 1))}};
  config["layers"] = Json(Size(fields, "n_layer", 24, kMostLayers), Json{{"attention", attention}});
  DefaultToken("bos_token_id", 1, config);
  DefaultToken("eos_token_id", 2, config);
  DefaultToken("pad_token_id", 5, config);
}

void SetSummary(Checkpoint& checkpoint, NativeModel& model) {
  JsonFields& fields = checkpoint.fields();
  SetLabels(checkpoint, "classification", model.config);
  model.config["pooling"] = fields.Choice("summary_type", {"last", "first", "mean"});
  model.tensors->AddModule("classifier", "logits_proj");
  if (!fields.Bool("summary_use_proj", true)) return;
  const bool none = checkpoint.config().contains("summary_activation") && !fields.Has("summary_activation");
  const Json act = none ? Json() : Json(ActivationName(fields, "summary_activation", "tanh"));
  AddHeadLayer(model.config["hidden_size"], act, /*norm=*/false, model.config);
  model.tensors->AddModule("head_layers.0", "sequence_summary.summary");
}

absl::Status AddHead(Checkpoint& checkpoint, NativeModel& model) {
  const std::string& task = checkpoint.task();
  if (task == "LMHeadModel") {
    model.config["head"] = "lm";
    if (!checkpoint.fields().Bool("tie_word_embeddings", true))
      model.tensors->Add("lm_head.weight", std::string("lm_loss.weight"));
    model.tensors->Ignore("lm_loss.weight");  // the embedding again
    model.tensors->Add("lm_head.bias", std::string("lm_loss.bias"));
  } else if (task == "SequenceClassification") {
    SetSummary(checkpoint, model);
  } else if (task == "QuestionAnsweringSimple") {
    SetSpanLabels(model.config);
    model.tensors->AddModule("classifier", "qa_outputs");
  } else if (task == "QuestionAnswering" || (!AddTokenHead(checkpoint, model) && task != "Model")) {
    return checkpoint.UnknownTask({"Model", "LMHeadModel", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnsweringSimple"});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NativeModel> ReadXlnetFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("transformer.");
  NativeModel model{
      .config = BeginConfig(checkpoint, "encoder", Size(checkpoint.fields(), "vocab_size", 32000)),
      .tensors = TensorView()};
  SetShape(checkpoint, model.config);
  const int64_t width = model.config["hidden_size"];
  model.tensors->Add("embed.tokens.weight", prefix + "word_embedding.weight");
  // A type adds nothing to a token's row.
  model.tensors->Add("embed.types.weight", ViewedTensor::Zeros({kTypes, width}));
  model.tensors->Ignore("*mask_emb");
  for (size_t i = 0; i < model.config["layers"].size(); ++i)
    AddLayer(Cat(prefix, "layer.", i, "."), Cat("layers.", i, "."), width, *model.tensors);
  RETURN_IF_ERROR(AddHead(checkpoint, model));
  return model;
}

}  // namespace heed
