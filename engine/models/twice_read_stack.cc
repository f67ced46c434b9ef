// "twice-read-encoder" (BART's classifiers, Lewis et al. 2020): an encoder and a decoder that read the same
// input, the decoder one row later, behind decoder_start_token_id. Row i of the decoder has seen the input up
// to i and, by cross-attention, all that the encoder made of it; the head reads the decoder's rows, of which
// i stands for the input's token i.
//   layers, decoder_layers, and the decoder's other keys, as of "encoder-decoder"
// Tensors: encoder.* and decoder.*, as of "encoder-decoder".
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"

namespace heed {
namespace {

class TwiceReadStack : public StackRecipe {
 public:
  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    if (config.decoder_start_token_id < 0)
      return Invalid("config.json: decoder_start_token_id is missing, behind which the input is read again");
    LoadedStack loaded;
    LayerPlan plan(config);
    plan.precision = precision;
    const int read = loaded.stack.AddSet({.width = config.width});
    RETURN_IF_ERROR(AddRows(config, plan, config.layers, scope / "encoder", read, loaded));
    ASSIGN_OR_RETURN(std::optional<Norm> norm, LoadLastNorm(config, config.width, scope / "encoder"));
    if (norm) loaded.stack.Add(read, std::make_unique<NormStep>(*std::move(norm)));

    const int again = loaded.stack.AddSet(
        {.width = config.decoder_width, .labelled = false, .id_before = config.decoder_start_token_id});
    const ModelConfig decoder = DecoderOf(config);
    LayerPlan decoder_plan(decoder);
    decoder_plan.precision = precision;
    decoder_plan.key = "decoder_layers";
    decoder_plan.causal = true;
    decoder_plan.source = read;
    decoder_plan.source_width = config.width;
    RETURN_IF_ERROR(AddRows(decoder, decoder_plan, config.decoder_layers, scope / "decoder", again, loaded));
    ASSIGN_OR_RETURN(norm, LoadLastNorm(decoder, decoder.width, scope / "decoder"));
    if (norm) loaded.stack.SetNorm(*std::move(norm));
    loaded.max_tokens = decoder.max_positions;
    return loaded;
  }

 private:
  static absl::Status AddRows(const ModelConfig& config, const LayerPlan& plan,
                              const std::vector<LayerConfig>& layers, const WeightScope& scope, int set,
                              LoadedStack& loaded) {
    ASSIGN_OR_RETURN(const Embedding embedding, AddEmbedding(config, plan, scope, set, loaded.stack));
    loaded.tied = embedding.tokens();
    loaded.embedding_bytes += embedding.bytes();
    return AddLayers(plan, layers, &loaded.layers, scope, set, loaded.stack);
  }
};

}  // namespace

std::shared_ptr<const StackRecipe> ReadTwiceReadStack(JsonFields& fields, ModelConfig& config) {
  config.RequireTokens(fields);
  ReadEmbeddingTables(fields, config);
  if (config.type_vocab_size > 0)
    fields.Fail(
        Cat("type_vocab_size: ", config.type_vocab_size, ", of rows that are read twice; 0 is served"));
  ReadLastNorm(fields, config);
  config.layers = ReadLayers(fields, "layers", /*cross=*/false);
  config.decoder_layers = ReadLayers(fields, "decoder_layers", /*cross=*/true);
  ReadDecoderKeys(fields, config);
  return std::make_shared<TwiceReadStack>();
}

}  // namespace heed
