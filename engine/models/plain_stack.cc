// "encoder", "decoder" and "encoder-decoder" (Vaswani et al. 2017): layers one after another over the rows of
// the input.
//   layers, decoder_layers  [{"attention", "cross_attention", "ffn"}, ...]. As of any architecture a layer
//   may say
//                           "norm", where its norms stand instead of where the model's do, "attention_norm",
//                           the same of its attention alone, and "parallel" (false): x + attention(norm1(x))
//                           + ffn(norm2(x)); and "layer_scale" (false): its rows times a learned number when
//                           it is done, tensor layer_scale.weight [1] (Gemma 4, 2026); and "keys_of": its
//                           attention reads the keys and values of that layer's, counted from 0, which comes
//                           before it, and has no k and v of its own. A decoder's "softmax" attentions of the
//                           same options, without those that have weights beside queries, keys and values
//   layer_inputs {"size", "table" (false)}  of an encoder or a decoder: every layer reads so many numbers
//                           that are made of the token's first row and, with a table, of the token
//                           (engine/models/layer_inputs.h; Gemma 4, 2026)
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
#include "engine/models/layer_inputs.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"

namespace heed {
namespace {

constexpr int64_t kMostGlobalTokens = 1 << 20;  // of the model's own
constexpr int64_t kMostInputs = 1 << 18;        // of a row's numbers, of all layers

class PlainStack : public StackRecipe {
 public:
  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    LayerPlan plan(config);
    plan.precision = precision;
    plan.causal = config.architecture == Architecture::kDecoder;
    plan.front = config.extra_global_tokens;
    plan.layer_input = config.layer_inputs;
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
    const int64_t width = config.reversible ? 2 * config.width : config.width,
                  beside = plan.layer_input * std::ssize(layers);
    const int set = loaded.stack.AddSet(
        {.count = input == WorkInput::kSource ? RowCount::OfSource() : RowCount::OfInput(plan.front),
         .input = input,
         .width = width + beside,
         .beside = beside,
         .remembered = plan.causal,
         .typed = config.type_vocab_size > 0 && config.architecture != Architecture::kEncoderDecoder,
         .front = plan.front});
    ASSIGN_OR_RETURN(const Embedding embedding, AddEmbedding(config, plan, scope, set, loaded.stack));
    loaded.tied = config.reversible ? Tensor() : embedding.tokens();
    loaded.embedding_bytes += embedding.bytes();
    if (beside > 0) {
      ASSIGN_OR_RETURN(std::unique_ptr<RowStep> step,
                       LoadInputsOfLayers(config, plan, scope, &loaded.embedding_bytes));
      loaded.stack.Add(set, std::move(step));
    }
    if (plan.front > 0) {
      ASSIGN_OR_RETURN(Tensor global, (scope / "embed.global").Get("weight", {plan.front, width}));
      loaded.embedding_bytes += global.size() * SizeOf(global.dtype);
      loaded.stack.Add(set, std::make_unique<TableStep>(std::move(global)));
    }
    RETURN_IF_ERROR(AddLayers(plan, layers, &loaded.layers, scope, set, loaded.stack));
    return LoadLastNorm(config, width, scope);
  }
};

void ReadLayerInputs(JsonFields& fields, ModelConfig& config) {
  const Json& given = fields.Raw("layer_inputs");
  if (given.is_null()) return;
  if (!given.is_object()) return fields.Fail("layer_inputs is not an object");
  JsonFields own(given, fields.Name("layer_inputs"));
  config.layer_inputs = own.RequiredInt("size", 1, kMostInputs);
  config.layer_inputs_table = own.Bool("table", false);
  if (std::ssize(config.layers) * config.layer_inputs > kMostInputs)
    own.Fail(Cat("size: ", config.layer_inputs, " numbers of ", config.layers.size(), " layers, above ",
                 kMostInputs));
  fields.Fail(own.Finish());
  if (config.architecture == Architecture::kEncoderDecoder || config.reversible ||
      config.extra_global_tokens > 0)
    fields.Fail("layer_inputs: of an encoder or a decoder, not reversible, without extra_global_tokens");
}

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
  ReadLayerInputs(fields, config);
  return std::make_shared<PlainStack>();
}

}  // namespace heed
