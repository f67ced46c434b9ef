// "switch_transformers" (Fedus et al. 2021): T5 in which some layers' feed-forward is one of num_experts,
// times the probability that the router gave it. Names: layer.J.mlp.{wi, wo} or, of a sparse layer,
// mlp.{router.classifier, experts.expert_E.{wi, wo}}.
//   ConditionalGeneration  lm_head, or the shared embedding;  EncoderModel  the encoder's rows
// transformers passes on unchanged what goes to an expert beyond the first expert_capacity rows of a text;
// served are texts of so many rows, of which none does.
#include <utility>

#include "engine/base/status.h"
#include "engine/families/parts.h"
#include "engine/families/t5.h"

namespace heed {
namespace {

// One side's layers: what names begin with in the file and in the model, and which sublayer is the last.
struct Side {
  std::string of, to;
  int last;
};

// Of those that have a router.
void AddExperts(Checkpoint& checkpoint, const Side& side, Json& layers, TensorView& tensors) {
  const int64_t experts = Size(checkpoint.fields(), "num_experts", 8, 1 << 16);
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string of = Cat(side.of, "block.", i, ".layer.", side.last, ".mlp."),
                      ffn = Cat(side.to, "layers.", i, ".ffn.");
    if (!checkpoint.Has(of + "router.classifier.weight")) continue;
    layers[i]["ffn"] = {{"type", "moe"}, {"experts", experts}, {"top_k", 1}};
    tensors.AddModule(ffn + "router", of + "router.classifier");
    for (int64_t e = 0; e < experts; ++e) {
      tensors.AddModule(Cat(ffn, "experts.", e, ".up"), Cat(of, "experts.expert_", e, ".wi"));
      tensors.AddModule(Cat(ffn, "experts.", e, ".down"), Cat(of, "experts.expert_", e, ".wo"));
    }
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadSwitchFamily(Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(NativeModel model, ReadT5Kind(checkpoint, {.type = "switch_transformers",
                                                              .width = 768,
                                                              .layers = 12,
                                                              .heads = 12,
                                                              .feed_forward_module = "mlp"}));
  JsonFields& fields = checkpoint.fields();
  Json& config = model.config;
  const bool alone = checkpoint.task() == "EncoderModel";
  config["max_position_embeddings"] = Size(fields, "expert_capacity", 64);
  AddExperts(checkpoint, {"encoder.", alone ? "" : "encoder.", 1}, config["layers"], *model.tensors);
  if (!alone) AddExperts(checkpoint, {"decoder.", "decoder.", 2}, config["decoder_layers"], *model.tensors);
  return model;
}

}  // namespace heed
