#include "server/api/options.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/api/generation.h"
#include "server/error.h"

namespace heed {
namespace {

absl::Status CheckRange(int64_t value, int64_t least, int64_t most, std::string_view field) {
  if (value >= least && value <= most) return absl::OkStatus();
  return AtField(Invalid("the value is ", value, ", it must be ", least, " to ", most), field);
}

// The engine names the field before its message: "sampling.top_p: 2 is above 1".
absl::Status AtItsField(const absl::Status& status) {
  const std::string message(status.message());
  const size_t colon = message.find(": ");
  if (status.ok() || colon == message.npos || message.find(' ') < colon) return status;
  return AtField({status.code(), message.substr(colon + 2)}, message.substr(0, colon));
}

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

SamplingOptions ToSampling(const v1::GenerateRequest& request, const ServedModel& model) {
  v1::SamplingOptions asked = DefaultSampling(model);
  asked.MergeFrom(request.sampling());
  SamplingOptions options;
  options.logit_bias.assign(asked.logit_bias().begin(), asked.logit_bias().end());
  std::sort(options.logit_bias.begin(), options.logit_bias.end());  // a map has no order
  options.repetition_penalty = asked.repetition_penalty();
  options.presence_penalty = asked.presence_penalty();
  options.frequency_penalty = asked.frequency_penalty();
  options.temperature = asked.temperature();
  options.top_k = asked.top_k() == model.info().vocab_size ? 0 : asked.top_k();  // 0 looks at no rank
  options.typical_p = asked.typical_p();
  options.top_p = asked.top_p();
  options.min_p = asked.min_p();
  options.min_tokens = request.stopping().min_tokens();
  options.seed = asked.has_seed() ? asked.seed() : RandomSeed();
  options.top_logprobs = request.details().top_logprobs();
  return options;
}

StopOptions ToStopping(const v1::StoppingOptions& asked) {
  StopOptions options;
  options.max_tokens = asked.max_tokens();
  options.stop_strings.assign(asked.stop().begin(), asked.stop().end());
  options.stop_tokens.assign(asked.stop_tokens().begin(), asked.stop_tokens().end());
  options.include_stop = asked.include_stop();
  options.ignore_eos = asked.ignore_eos();
  return options;
}

absl::Status CheckSampling(const v1::SamplingOptions& asked, const SamplingOptions& options,
                           const ModelInfo& info) {
  if (asked.has_top_k()) RETURN_IF_ERROR(CheckRange(asked.top_k(), 1, info.vocab_size, "sampling.top_k"));
  return AtItsField(Validate(options, info.vocab_size));
}

absl::Status CheckStopping(const v1::StoppingOptions& asked, StopOptions options, const ModelInfo& info,
                           int64_t most) {
  if (asked.has_max_tokens()) RETURN_IF_ERROR(CheckRange(asked.max_tokens(), 1, most, "stopping.max_tokens"));
  const int64_t min_most = asked.has_max_tokens() ? asked.max_tokens() : most;
  RETURN_IF_ERROR(CheckRange(asked.min_tokens(), 0, min_most, "stopping.min_tokens"));
  if (!asked.has_max_tokens()) options.max_tokens = 1;  // any that is valid: it depends on the input
  return AtItsField(Validate(options, info.vocab_size));
}

// What a request says beside `beam` that no beam search can do; empty if nothing.
std::string ExcludedByBeam(const v1::GenerateRequest& request) {
  if (request.stopping().min_tokens() > 0) return "stopping.min_tokens";
  if (request.stopping().stop_size() > 0) return "stopping.stop";
  if (request.details().top_logprobs() > 0) return "details.top_logprobs";
  return "";
}

absl::Status CheckLogprobs(bool logprobs, int32_t top_logprobs, std::string_view message) {
  const std::string field = Cat(message, ".top_logprobs");
  RETURN_IF_ERROR(CheckRange(top_logprobs, 0, kMaxTopLogprobs, field));
  if (logprobs || top_logprobs == 0) return absl::OkStatus();
  return AtField(
      Invalid("the value is ", top_logprobs, ", and ", message, ".logprobs is not set, which it needs"),
      field);
}

}  // namespace

absl::StatusOr<ClassifyOptions> ToOptions(const v1::ClassifyOptions& options, const ModelInfo& info) {
  ClassifyOptions result{.top = options.top(),
                         .raw_scores = options.raw_scores(),
                         .threshold = options.threshold(),
                         .all_tokens = options.all_tokens()};
  if (absl::Status status = Validate(result); !status.ok())
    return AtField(status, result.top < 0 ? "options.top" : "options.threshold");
  const bool of_tokens = info.head == Head::kTokenClassification;
  if (result.all_tokens && !of_tokens)
    return AtField(Invalid("the model classifies whole inputs, not their tokens"), "options.all_tokens");
  if (result.top > 0 && of_tokens) {
    return AtField(Invalid("the value is ", result.top, ", and the model's spans have one label each"),
                   "options.top");
  }
  return result;
}

absl::StatusOr<EmbedOptions> ToOptions(const v1::EmbedOptions& options, const ModelInfo& info) {
  using Normalize = EmbedOptions::Normalize;
  RETURN_IF_ERROR(CheckRange(options.dimensions(), 0, info.output_width, "options.dimensions"));
  EmbedOptions result{.dimensions = options.dimensions()};
  switch (options.normalize()) {
    case v1::EmbedOptions::NORMALIZE_UNSPECIFIED:
      return result;
    case v1::EmbedOptions::NORMALIZE_YES:
      result.normalize = Normalize::kYes;
      return result;
    case v1::EmbedOptions::NORMALIZE_NO:
      result.normalize = Normalize::kNo;
      return result;
    default:
      return AtField(Invalid("the value is ", static_cast<int>(options.normalize()),
                             ", it must be NORMALIZE_UNSPECIFIED, NORMALIZE_YES or NORMALIZE_NO"),
                     "options.normalize");
  }
}

absl::StatusOr<ScoreOptions> ToOptions(const v1::ScoreOptions& options) {
  RETURN_IF_ERROR(CheckLogprobs(options.logprobs(), options.top_logprobs(), "options"));
  return ScoreOptions{.top_logprobs = options.top_logprobs()};
}

absl::StatusOr<FillOptions> ToOptions(const v1::FillOptions& options) {
  RETURN_IF_ERROR(CheckRange(options.top(), 0, kMaxFillTop, "options.top"));
  FillOptions result{.positions = {options.positions().begin(), options.positions().end()}};
  if (options.top() > 0) result.top = options.top();
  std::sort(result.positions.begin(), result.positions.end());
  if (!result.positions.empty() && result.positions.front() < 0)
    return AtField(Invalid("the position ", result.positions.front(), " is below 0"), "options.positions");
  const auto repeated = std::adjacent_find(result.positions.begin(), result.positions.end());
  if (repeated != result.positions.end())
    return AtField(Invalid("the position ", *repeated, " is given twice"), "options.positions");
  return result;
}

absl::StatusOr<BeamOptions> ToBeam(const v1::GenerateRequest& request, const GenerationDefaults& defaults) {
  const bool by_default = request.strategy_case() == v1::GenerateRequest::STRATEGY_NOT_SET;
  if (by_default && defaults.beam.width == 0) return BeamOptions();
  if (request.has_sampling()) return BeamOptions();
  if (const std::string field = ExcludedByBeam(request); !field.empty()) {
    return AtField(Invalid("it is not possible with beam search",
                           by_default ? ", which is the model's default: ask for sampling" : ""),
                   field);
  }
  if (by_default) return defaults.beam;
  const v1::BeamOptions& asked = request.beam();
  BeamOptions options{.width = asked.width(),
                      .length_penalty = asked.length_penalty(),
                      .early_stopping = asked.early_stopping()};
  if (asked.has_results()) options.results = asked.results();
  RETURN_IF_ERROR(CheckRange(options.width, 1, kMaxBeams, "beam.width"));
  RETURN_IF_ERROR(AtItsField(Validate(options)));
  return options;
}

absl::StatusOr<GenerateOptions> ToOptions(const v1::GenerateRequest& request, const ServedModel& model,
                                          const config::v1::LimitsConfig& limits) {
  GenerateOptions options{.sampling = ToSampling(request, model), .stopping = ToStopping(request.stopping())};
  if (request.sampling().has_samples()) options.samples = request.sampling().samples();
  RETURN_IF_ERROR(CheckRange(options.samples, 1, limits.samples(), "sampling.samples"));
  RETURN_IF_ERROR(CheckLogprobs(request.details().logprobs(), request.details().top_logprobs(), "details"));
  RETURN_IF_ERROR(CheckSampling(request.sampling(), options.sampling, model.info()));
  RETURN_IF_ERROR(CheckStopping(request.stopping(), options.stopping, model.info(), limits.tokens()));
  return options;
}

absl::StatusOr<std::shared_ptr<const TokenRules>> ToRules(const v1::GenerateRequest& request,
                                                          const ServedModel& model) {
  const std::shared_ptr<const TokenRules>& rules = model.generation().rules;
  if (!request.has_first_token()) return rules;
  if (model.info().architecture != Architecture::kEncoderDecoder)
    return AtField(Invalid("'", model.spec.name, "' is no encoder-decoder: its prompt begins its output"),
                   "first_token");
  RETURN_IF_ERROR(CheckRange(request.first_token(), 0, model.info().vocab_size - 1, "first_token"));
  TokenRules changed = rules ? *rules : TokenRules();
  changed.forced_bos_token_id = request.first_token();
  return std::make_shared<const TokenRules>(std::move(changed));
}

absl::StatusOr<int32_t> MaxNewTokens(int64_t asked, int64_t prompt, int64_t longest, int64_t usual) {
  const int64_t left = longest - prompt;
  if (left < 1)
    return Error(ErrorReason::kInputTooLong, "the prompt has ", prompt,
                 " tokens, and prompt and text together at most ", longest);
  if (asked > left) {
    return Error(ErrorReason::kInputTooLong, "the prompt has ", prompt, " tokens and max_tokens is ", asked,
                 ", together at most ", longest, " are possible");
  }
  return static_cast<int32_t>(asked > 0 ? asked : std::min(left, usual));
}

absl::StatusOr<int32_t> MaxNewPixels(int64_t asked, const JobInput& prompt, int64_t longest) {
  const int64_t pixels = prompt.pixels(), image = prompt.model->info().drawn.pixels();
  const int64_t left = std::min(Room(prompt), longest - std::ssize(prompt.ids) + 1);
  if (left < 1) {
    return Error(ErrorReason::kInputTooLong, "the prompt has ", pixels, " pixels, the image ", image,
                 "; possible are at most ", pixels + left);
  }
  if (asked > left) {
    return Error(ErrorReason::kInputTooLong, "the prompt has ", pixels, " pixels and max_tokens is ", asked,
                 ", together at most ", pixels + left, " are possible");
  }
  return static_cast<int32_t>(asked > 0 ? asked : left);
}

absl::Status CheckCount(int64_t inputs, int64_t most, std::string_view field) {
  if (inputs == 0) return AtField(Error(ErrorReason::kInputEmpty, "there are no ", field), field);
  if (inputs > most)
    return AtField(Beyond(Error(ErrorReason::kTooManyInputs, "there are ", inputs, " ", field, ", at most ",
                                most, " are answered"),
                          inputs, most),
                   field);
  return absl::OkStatus();
}

absl::Status CheckPriority(const v1::Target& target) {
  return CheckRange(target.priority(), -10, 10, "target.priority");
}

}  // namespace heed
