#include "server/api/generation.h"

#include "server/api/inputs.h"

namespace heed {
namespace {

v1::BeamOptions ToMessage(const BeamOptions& beam) {
  v1::BeamOptions out;
  out.set_width(beam.width);
  out.set_length_penalty(beam.length_penalty);
  out.set_results(beam.results);
  out.set_early_stopping(beam.early_stopping);
  return out;
}

v1::TokenRules ToMessage(const TokenRules& rules) {
  v1::TokenRules out;
  out.mutable_suppress_tokens()->Add(rules.suppress_tokens.begin(), rules.suppress_tokens.end());
  out.mutable_begin_suppress_tokens()->Add(rules.begin_suppress_tokens.begin(),
                                           rules.begin_suppress_tokens.end());
  for (const std::vector<int32_t>& run : rules.bad_words_ids)
    out.add_bad_words_ids()->mutable_ids()->Add(run.begin(), run.end());
  out.set_no_repeat_ngram_size(rules.no_repeat_ngram_size);
  out.set_encoder_no_repeat_ngram_size(rules.encoder_no_repeat_ngram_size);
  if (rules.forced_bos_token_id >= 0) out.set_forced_bos_token_id(rules.forced_bos_token_id);
  out.mutable_forced_eos_token_ids()->Add(rules.forced_eos_token_ids.begin(),
                                          rules.forced_eos_token_ids.end());
  return out;
}

v1::StoppingOptions DefaultStopping(const ServedModel& model) {
  constexpr int64_t kPrompt = 1;
  v1::StoppingOptions options;
  options.set_max_tokens(static_cast<int32_t>(model.generation().MostTokens(kPrompt)));
  options.set_min_tokens(static_cast<int32_t>(model.generation().LeastTokens(kPrompt)));
  return options;
}

}  // namespace

v1::SamplingOptions DefaultSampling(const ServedModel& model) {
  const SamplingOptions& defaults = model.generation().sampling;
  v1::SamplingOptions options;
  options.set_repetition_penalty(defaults.repetition_penalty);
  options.set_presence_penalty(defaults.presence_penalty);
  options.set_frequency_penalty(defaults.frequency_penalty);
  options.set_temperature(defaults.temperature);
  options.set_top_k(defaults.top_k > 0 ? defaults.top_k : static_cast<int32_t>(model.info().vocab_size));
  options.set_typical_p(defaults.typical_p);
  options.set_top_p(defaults.top_p);
  options.set_min_p(defaults.min_p);
  options.set_samples(1);
  return options;
}

void AddGeneration(const ServedModel& model, v1::ModelDescription* out) {
  const GenerationDefaults& generation = model.generation();
  *out->mutable_default_sampling() = DefaultSampling(model);
  *out->mutable_default_stopping() = DefaultStopping(model);
  if (generation.beam.width > 0) *out->mutable_default_beam() = ToMessage(generation.beam);
  if (generation.rules != nullptr) *out->mutable_token_rules() = ToMessage(*generation.rules);
  out->mutable_warnings()->Add(generation.warnings.begin(), generation.warnings.end());
  if (!Draws(model)) return;
  const DrawnImage& drawn = model.info().drawn;
  out->mutable_default_stopping()->set_max_tokens(static_cast<int32_t>(drawn.pixels()));
  auto* image = out->mutable_generated_image();
  image->set_height(static_cast<int32_t>(drawn.height));
  image->set_width(static_cast<int32_t>(drawn.width));
  image->set_channels(static_cast<int32_t>(drawn.channels));
  image->set_levels(drawn.levels);
  image->set_begins(drawn.front() > 0);
}

}  // namespace heed
