// "bert" (Devlin et al. 2019): post-norm layers over tokens, positions and token types. Names:
// bert.embeddings.*, bert.encoder.layer.I.{attention.{self.{query, key, value}, output}, intermediate,
// output}, bert.pooler.dense; without "bert." in a base model.
//   MaskedLM                cls.predictions.{transform.{dense, LayerNorm}, bias}, tied to the embedding
//   SequenceClassification  the pooler (tanh of the first row), classifier
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs, of two labels
//   Model                   the rows as they are
#include "engine/families/bert.h"

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {

NativeModel ReadBertEncoder(Checkpoint& checkpoint, const BertNames& names) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("position_embedding_type", "absolute");
  checkpoint.Require("is_decoder", false);
  const int64_t width = Size(fields, "hidden_size", 768),
                layers = Size(fields, "num_hidden_layers", 12, kMostLayers);
  NativeModel model{.config = BeginConfig(checkpoint, "encoder", Size(fields, "vocab_size", 30522)),
                    .tensors = TensorView()};
  Json& config = model.config;
  config["hidden_size"] = width;
  config["num_attention_heads"] = Size(fields, "num_attention_heads", 12);
  config["intermediate_size"] = Size(fields, "intermediate_size", 3072);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu");
  config["norm"] = "post";
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-12, 0, 1);
  config["positions"] = "learned";
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 512) - names.skipped;
  config["embedding_norm"] = true;
  const int64_t embedding_size =
      Size(fields, "embedding_size", names.embedding_size > 0 ? names.embedding_size : width);
  if (embedding_size != width) config["embedding_size"] = embedding_size;
  config["type_vocab_size"] = fields.Int("type_vocab_size", 2, 0, kMostSize);
  config["layers"] = Json(layers, Json{{"attention", {{"type", "full"}}}});

  TensorView& tensors = *model.tensors;
  const std::string embeddings = names.prefix + "embeddings.";
  tensors.Add("embed.tokens.weight", embeddings + "word_embeddings.weight");
  tensors.Add("embed.positions.weight",
              ViewedTensor(embeddings + "position_embeddings.weight").RowsFrom(names.skipped));
  tensors.Add("embed.types.weight", embeddings + "token_type_embeddings.weight");
  tensors.AddModule("embed.norm", embeddings + "LayerNorm");
  tensors.AddModule("embed.projection", names.prefix + "embeddings_project");
  for (int64_t i = 0; i < layers; ++i) {
    const std::string of = Cat(names.prefix, "encoder.layer.", i, "."), to = Cat("layers.", i, ".");
    tensors.AddModule(to + "attention.q", of + "attention.self.query");
    tensors.AddModule(to + "attention.k", of + "attention.self.key");
    tensors.AddModule(to + "attention.v", of + "attention.self.value");
    tensors.AddModule(to + "attention.o", of + "attention.output.dense");
    tensors.AddModule(to + "norm1", of + "attention.output.LayerNorm");
    tensors.AddModule(to + "ffn.up", of + "intermediate.dense");
    tensors.AddModule(to + "ffn.down", of + "output.dense");
    tensors.AddModule(to + "norm2", of + "output.LayerNorm");
  }
  tensors.Ignore("*position_ids");
  tensors.Ignore("*token_type_ids");
  return model;
}

void AddPredictions(NativeModel& model) {
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  config["head"] = "lm";
  AddHeadLayer(config["hidden_size"], config["hidden_act"], /*norm=*/true, config);
  tensors.AddModule("head_layers.0", "cls.predictions.transform.dense");
  tensors.AddModule("head_layers.0.norm", "cls.predictions.transform.LayerNorm");
  tensors.Add("lm_head.weight", std::string("cls.predictions.decoder.weight"));
  tensors.Add("lm_head.bias", std::string("cls.predictions.bias"));
  tensors.Ignore("cls.predictions.decoder.bias");  // the same again
  tensors.Ignore("cls.seq_relationship.*");
}

absl::StatusOr<NativeModel> WithBertHead(Checkpoint& checkpoint, const std::string& prefix,
                                         NativeModel model) {
  const std::string& task = checkpoint.task();
  if (task == "SequenceClassification") {
    AddPooledClassifier(checkpoint, {.module = prefix + "pooler.dense"}, model);
    return model;
  }
  model.tensors->Ignore(prefix + "pooler.*");
  if (task == "MaskedLM" || task == "PreTraining") {
    AddPredictions(model);
  } else if (!AddTokenHead(checkpoint, model) && task != "Model") {
    return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  return model;
}

absl::StatusOr<NativeModel> WithUnpooledHead(Checkpoint& checkpoint, NativeModel model) {
  const std::string& task = checkpoint.task();
  if (task == "MaskedLM") {
    AddPredictions(model);
  } else if (task == "SequenceClassification") {
    AddFirstRowClassifier(checkpoint, "classifier", model.config["hidden_act"], model);
  } else if (!AddTokenHead(checkpoint, model) && task != "Model") {
    return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  return model;
}

absl::StatusOr<NativeModel> ReadBertFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("bert.");
  return WithBertHead(checkpoint, prefix, ReadBertEncoder(checkpoint, {.prefix = prefix}));
}

}  // namespace heed
