// A request's options as the jobs take them, checked as far as they do not depend on an input. Errors name
// the field.
#ifndef HEED_SERVER_API_OPTIONS_H_
#define HEED_SERVER_API_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/generation/beam_search.h"
#include "heed/config/v1/config.pb.h"
#include "heed/v1/inference.pb.h"
#include "server/jobs/classify.h"
#include "server/jobs/embed.h"
#include "server/jobs/fill.h"
#include "server/jobs/generate.h"
#include "server/jobs/score.h"
#include "server/registry.h"

namespace heed {

// What is asked and has no effect is refused.
absl::StatusOr<ClassifyOptions> ToOptions(const v1::ClassifyOptions& options, const ModelInfo& info);
absl::StatusOr<EmbedOptions> ToOptions(const v1::EmbedOptions& options, const ModelInfo& info);
absl::StatusOr<ScoreOptions> ToOptions(const v1::ScoreOptions& options);
absl::StatusOr<FillOptions> ToOptions(const v1::FillOptions& options);

// Of a Generate that searches with beams, as it asks, or as the model does where it asks for neither beams
// nor sampling: `width` 0 if neither does. What excludes a search is refused.
absl::StatusOr<BeamOptions> ToBeam(const v1::GenerateRequest& request, const GenerationDefaults& defaults);

// Draws a seed where the request has none. stopping.max_tokens, and min_tokens, stay 0 where the request
// leaves them open.
absl::StatusOr<GenerateOptions> ToOptions(const v1::GenerateRequest& request, const ServedModel& model,
                                          const config::v1::LimitsConfig& limits);

// The rules that hold for the outputs of a request. INVALID_ARGUMENT for a first token that there is not.
absl::StatusOr<std::shared_ptr<const TokenRules>> ToRules(const v1::GenerateRequest& request,
                                                          const ServedModel& model);

// How many tokens may follow a prompt of so many: what was asked for, INVALID_ARGUMENT if that is beyond
// `longest`; else as many as usual or what is left.
absl::StatusOr<int32_t> MaxNewTokens(int64_t asked, int64_t prompt, int64_t longest, int64_t usual);

// The same of pixels, after a prompt of an image: unasked, all that are left.
absl::StatusOr<int32_t> MaxNewPixels(int64_t asked, const JobInput& prompt, int64_t longest);

// How many inputs a request has, between 1 and `most`. `field`: what they are called.
absl::Status CheckCount(int64_t inputs, int64_t most, std::string_view field = "inputs");

absl::Status CheckPriority(const v1::Target& target);

}  // namespace heed

#endif  // HEED_SERVER_API_OPTIONS_H_
