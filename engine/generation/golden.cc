#include "engine/generation/golden.h"

#include <charconv>
#include <cmath>
#include <memory>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/generation/sampling.h"
#include "engine/weights/weights.h"

namespace heed {
namespace {

constexpr char kCases[] = "cases.json";
constexpr int64_t kMaxCasesBytes = 64 << 20;
constexpr double kBound = 1e-5;

std::vector<int32_t> ReadIds(JsonFields& fields, std::string_view key) {
  const Json& list = fields.Raw(key);
  std::vector<int32_t> ids;
  if (list.is_number_integer()) ids.push_back(list.get<int32_t>());
  if (!list.is_array()) return ids;
  for (const Json& id : list) {
    if (!id.is_number_integer()) fields.Fail(Cat(key, ": ", Shown(id), " is not an id"));
    ids.push_back(id.is_number_integer() ? id.get<int32_t>() : 0);
  }
  return ids;
}

void ReadBias(JsonFields& fields, SamplingOptions& options) {
  for (const auto& [key, bias] : fields.Raw("logit_bias").items()) {
    int32_t id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || !bias.is_number()) return fields.Fail(Cat("logit_bias: ", Shown(key)));
    options.logit_bias.emplace_back(id, bias.get<float>());
  }
}

SamplingOptions ReadOptions(JsonFields& fields) {
  SamplingOptions options;
  ReadBias(fields, options);
  options.repetition_penalty = fields.Number("repetition_penalty", 1, 0, 1e9);
  options.presence_penalty = fields.Number("presence_penalty", 0, -1e9, 1e9);
  options.frequency_penalty = fields.Number("frequency_penalty", 0, -1e9, 1e9);
  options.min_tokens = static_cast<int32_t>(fields.Int("min_tokens", 0, 0, INT32_MAX));
  options.temperature = fields.Number("temperature", 1, 0, 1e9);
  options.top_k = static_cast<int32_t>(fields.Int("top_k", 0, 0, INT32_MAX));
  options.typical_p = fields.Number("typical_p", 1, 0, 1e9);
  options.top_p = fields.Number("top_p", 1, 0, 1e9);
  options.min_p = fields.Number("min_p", 0, 0, 1);
  return options;
}

// What the case's options make of the row, and what they should.
absl::StatusOr<double> LargestDifference(const std::vector<double>& found,
                                         const std::vector<float>& expected) {
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if ((static_cast<float>(found[i]) > 0) != (expected[i] > 0)) {
      return Invalid("token ", i, " has probability ", found[i], " instead of ", expected[i]);
    }
    largest = std::max(largest, std::abs(found[i] - expected[i]));
  }
  if (largest > kBound) return Invalid("the largest difference is ", largest);
  return largest;
}

absl::StatusOr<double> Check(JsonFields& fields, const WeightScope& tensors, int index) {
  const std::string row = fields.String("row", "");
  JsonFields inner(fields.Raw("options"), fields.where() + ".options");
  const std::vector<int32_t> prompt = ReadIds(fields, "prompt_ids"),
                             generated = ReadIds(fields, "generated_ids");
  Sampler sampler(ReadOptions(inner), ReadIds(inner, "eos_token_id"), prompt, /*stream=*/0);
  RETURN_IF_ERROR(inner.Finish());
  RETURN_IF_ERROR(fields.Finish());
  for (int32_t id : generated) sampler.Remember(id);
  ASSIGN_OR_RETURN(const std::vector<float> logits, tensors.Floats(Cat("rows.", row), {-1}));
  ASSIGN_OR_RETURN(const std::vector<float> expected,
                   tensors.Floats(Cat("c", index, ".probabilities"), {std::ssize(logits)}));
  ASSIGN_OR_RETURN(const std::vector<double> found, sampler.Probabilities(logits));
  return LargestDifference(found, expected);
}

}  // namespace

absl::StatusOr<std::vector<GoldenResult>> CheckSamplingCases(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder, kCases, kMaxCasesBytes));
  ASSIGN_OR_RETURN(const Json cases, ParseJson(text, kCases));
  if (!cases.is_array() || cases.empty()) return Invalid(kCases, ": is not a list of cases");
  ASSIGN_OR_RETURN(const std::unique_ptr<Weights> weights, Weights::LoadFile(folder + "/cases.safetensors"));
  const WeightScope tensors(*weights);
  std::vector<GoldenResult> results;
  for (const Json& item : cases) {
    JsonFields fields(item, Cat(kCases, ": c", results.size()));
    GoldenResult result{.name = fields.String("name", ""), .ways = 1};
    const auto largest = Check(fields, tensors, static_cast<int>(results.size()));
    if (largest.ok()) result.largest = *largest;
    if (!largest.ok()) result.problem = std::string(largest.status().message());
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace heed
