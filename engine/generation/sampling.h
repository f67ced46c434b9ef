// From a row of logits to the next token: penalties, temperature, the filters, and the draw. The order and
// the edge rules are those of transformers' processors and warpers; presence and frequency penalties are
// OpenAI's.
#ifndef HEED_ENGINE_GENERATION_SAMPLING_H_
#define HEED_ENGINE_GENERATION_SAMPLING_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/generation/token_rules.h"

namespace heed {

inline constexpr int32_t kMaxTopLogprobs = 20;
inline constexpr int32_t kMaxBiases = 1024;

// Each default changes nothing. They act in this order.
struct SamplingOptions {
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to the logit of an id; at most kMaxBiases
  double repetition_penalty =
      1;  // > 0. Ids of the prompt or generated: a logit below 0 times it, any other divided by it
  double presence_penalty = 0;   // minus this once for each id generated before
  double frequency_penalty = 0;  // minus this for each time an id was generated
  int32_t min_tokens = 0;        // while fewer are generated, end tokens are removed
  double temperature =
      1;              // >= 0; 0 takes the largest logit (of equal ones the lowest id), and nothing below acts
  int32_t top_k = 0;  // keeps the k largest and their ties; 0 = all
  double typical_p = 1;      // (0, 1]; 1 = all
  double top_p = 1;          // [0, 1]; 1 = all
  double min_p = 0;          // [0, 1]
  uint64_t seed = 0;         // of the draw
  int32_t top_logprobs = 0;  // how many alternatives to report, at most kMaxTopLogprobs
  int32_t choices = 0;       // ids from here on are removed before all else, whatever their logits; 0 = none
};

// Checks every number against its range, ids against the vocabulary; the message names the field as requests
// call it, its value and the limit. NaN, infinities, -0 and subnormal numbers are refused too.
absl::Status Validate(const SamplingOptions& options, int64_t vocab_size);

// A random number in [0, 1) for draw `index` of stream `stream` under `seed`: counter-based (Philox 4x32-10,
// Salmon et al. 2011), so it depends on nothing else: not on the batch, the thread or earlier draws.
double UniformAt(uint64_t seed, uint64_t stream, uint64_t index);

struct TokenChoice {
  int32_t token = -1;
  float logprob =
      0;  // of the token under the model's distribution: log softmax of the logits as the model gave them
  std::vector<std::pair<int32_t, float>>
      top;  // top_logprobs (id, logprob), largest first, under the same distribution
};

// What one generated sequence needs to choose its tokens: the options and what it has said. One thread at a
// time.
class Sampler {
 public:
  // `stream` tells samples of one request apart. Options must be valid. The ruling acts after min_tokens.
  Sampler(SamplingOptions options, std::vector<int32_t> eos_token_ids, std::span<const int32_t> prompt,
          uint64_t stream, TokenRuling ruling = {});

  // Chooses the next token and remembers it. INTERNAL if a logit is NaN or +inf, or all of `choices` are
  // -inf; FAILED_PRECONDITION if min_tokens or the rules leave no token.
  absl::StatusOr<TokenChoice> Next(std::span<const float> logits);

  // The probabilities that Next would draw from, in double: what golden cases hold. Removed tokens have
  // exactly 0.
  absl::StatusOr<std::vector<double>> Probabilities(std::span<const float> logits) const;

  // As if Next() had chosen this token: for text that was generated before.
  void Remember(int32_t token);
  std::span<const int32_t> generated() const { return generated_; }

 private:
  bool TooShort() const;   // for an end token
  bool Penalises() const;  // whether Penalised() differs from the logits
  std::vector<double> Penalised(std::span<const float> logits) const;
  void Rule(std::vector<double>& x) const;
  absl::Status NoTokenLeft() const;
  absl::StatusOr<int32_t> Greedy(std::span<const float> logits) const;
  absl::StatusOr<int32_t> Random(std::span<const float> logits) const;

  SamplingOptions options_;
  std::vector<int32_t> eos_;
  uint64_t stream_;
  TokenRuling ruling_;
  std::vector<int32_t> generated_;
  std::unordered_map<int32_t, int32_t> seen_;  // id -> times generated; ids of the prompt only: 0
};

}  // namespace heed

#endif  // HEED_ENGINE_GENERATION_SAMPLING_H_
