// "encoder", "decoder" and "encoder-decoder" (Vaswani et al. 2017): layers one after another over the rows of
// the input.
//   layers, decoder_layers  [{"attention", "cross_attention", "ffn"}, ...]. As of any architecture a layer
//   may say
//                           "norm", where its norms stand instead of where the model's do, "attention_norm",
//                           the same of its attention alone, and "parallel" (false): x + attention(norm1(x))
//                           + ffn(norm2(x)); and "layer_scale" (false): its rows times a learned number when
//                           it is done, tensor layer_scale.weight [1] (Gemma 4, 2026)
//   decoder_max_position_embeddings (max_position_embeddings), decoder_embedding_norm_of (embedding_norm_of),
//   decoder_hidden_size (hidden_size), decoder_embedding_scale (embedding_scale)
//                           of an encoder-decoder's decoder
//   reversible (false)      two streams (Gomez et al. 2017), with norm "pre": they begin alike, and the head
//                           reads both side by side
//   extra_global_tokens (0) of an encoder: so many learned rows, without positions, stand before the tokens'
//                           (BigBird-ETC, Zaheer et al. 2020): all see them, and they see all. The head reads
//                           the tokens' rows, or, with pooling "first", the first of these
// Tensors: embed.*, embed.global.weight [extra_global_tokens, hidden_size], layers.I.*, norm.*; of an
// encoder-decoder under encoder. and decoder.
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"

namespace heed {
namespace {

constexpr int64_t kMostGlobalTokens = 1 << 20;  // of the model's own

class PlainStack : public StackRecipe {
 public:
  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    LayerPlan plan(config);
    plan.precision = precision;
    plan.causal = config.architecture == Architecture::kDecoder;
    plan.front = config.extra_global_tokens;
    if (config.architecture != Architecture::kEncoderDecoder) {
      ASSIGN_OR_RETURN(std::optional<Norm> norm,
                       AddRows(config, plan, config.layers, WorkInput::kTokens, scope, loaded));
      if (norm) loaded.stack.SetNorm(*std::move(norm));
      return loaded;
    }
    ASSIGN_OR_RETURN(std::optional<Norm> source_norm,
                     AddRows(config, plan, config.layers, WorkInput::kSource, scope / "encoder", loaded));
    if (source_norm) loaded.stack.Add(0, std::make_unique<NormStep>(*std::move(source_norm)));
    const ModelConfig decoder = DecoderOf(config);
    LayerPlan decoder_plan(decoder);
    decoder_plan.precision = precision;
    decoder_plan.key = "decoder_layers";
    decoder_plan.causal = true;
    decoder_plan.source = 0;
    decoder_plan.source_width = config.width;
    ASSIGN_OR_RETURN(std::optional<Norm> norm, AddRows(decoder, decoder_plan, config.decoder_layers,
                                                       WorkInput::kTokens, scope / "decoder", loaded));
    if (norm) loaded.stack.SetNorm(*std::move(norm));
    return loaded;
  }

 private:
  // Appends a set, its embedding and its layers; gives the norm after them, if theirs come first.
  static absl::StatusOr<std::optional<Norm>> AddRows(const ModelConfig& config, const LayerPlan& plan,
                                                     const std::vector<LayerConfig>& layers, WorkInput input,
                                                     const WeightScope& scope, LoadedStack& loaded) {
    const int64_t width = config.reversible ? 2 * config.width : config.width;
    const int set = loaded.stack.AddSet(
        {.count = input == WorkInput::kSource ? RowCount::OfSource() : RowCount::OfInput(plan.front),
         .input = input,
         .width = width,
         .remembered = plan.causal,
         .typed = config.type_vocab_size > 0 && config.architecture != Architecture::kEncoderDecoder,
         .front = plan.front});
    ASSIGN_OR_RETURN(const Embedding embedding, AddEmbedding(config, plan, scope, set, loaded.stack));
    loaded.tied = config.reversible ? Tensor() : embedding.tokens();
    loaded.embedding_bytes += embedding.bytes();
    if (plan.front > 0) {
      ASSIGN_OR_RETURN(Tensor global, (scope / "embed.global").Get("weight", {plan.front, width}));
      loaded.embedding_bytes += global.size() * SizeOf(global.dtype);
      loaded.stack.Add(set, std::make_unique<TableStep>(std::move(global)));
    }
    RETURN_IF_ERROR(AddLayers(plan, layers, &loaded.layers, scope, set, loaded.stack));
    return LoadLastNorm(config, width, scope);
  }
};

// Rows before the input's mean something to few attentions.
void CheckGlobalTokens(JsonFields& fields, const ModelConfig& config) {
  if (config.architecture != Architecture::kEncoder || config.reversible)
    fields.Fail(Cat("extra_global_tokens: ", config.extra_global_tokens,
                    " are for encoders that are not reversible"));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const Json& attention = config.layers[i].attention;
    if (attention.is_object() &&
        (attention.value("type", Json()) == "full" ||
         (attention.value("type", Json()) == "bigbird" && attention.value("form", Json()) == "etc"))) {
      continue;
    }
    fields.Fail(Cat("extra_global_tokens: layers[", i,
                    "].attention is neither \"bigbird\" of form \"etc\" nor \"full\""));
  }
}

}  // namespace

std::shared_ptr<const StackRecipe> ReadPlainStack(JsonFields& fields, ModelConfig& config) {
  config.RequireTokens(fields);
  ReadEmbeddingTables(fields, config);
  ReadLastNorm(fields, config);
  config.layers = ReadLayers(fields, "layers", /*cross=*/false);
  if (config.architecture == Architecture::kEncoderDecoder) {
    config.decoder_layers = ReadLayers(fields, "decoder_layers", /*cross=*/true);
    ReadDecoderKeys(fields, config);
  }
  config.reversible = fields.Bool("reversible", false);
  if (config.reversible && (config.norm.placement != NormPlacement::kPre ||
                            config.architecture == Architecture::kEncoderDecoder)) {
    fields.Fail("reversible: an encoder or a decoder, with norm \"pre\"");
  }
  config.extra_global_tokens = fields.Int("extra_global_tokens", 0, 0, kMostGlobalTokens);
  if (config.extra_global_tokens > 0) CheckGlobalTokens(fields, config);
  return std::make_shared<PlainStack>();
}

}  // namespace heed
