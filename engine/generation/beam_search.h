// Beam search: of all texts, a few that have the likeliest beginnings are gone on with at a time.
//
// A hypothesis is a text with the sum of its tokens' log-probabilities (log softmax over the vocabulary). A
// step extends each live one (at first the empty text alone) by every token and ranks all extensions by their
// sums; of equal ones the better parent's comes first, then the lower token. Down this ranking, an end token
// ends its hypothesis if it ranks among the first `width`, any other token makes the next live one, until
// there are `width` of these. Ended ones are scored sum / length^length_penalty, end token included, and the
// `width` best are kept. The search is over when `width` are kept and the best live one, scored as if it
// ended here, beats none of them; or at the longest length, where the live ones end too, without an end
// token.
#ifndef HEED_ENGINE_GENERATION_BEAM_SEARCH_H_
#define HEED_ENGINE_GENERATION_BEAM_SEARCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/generation/token_rules.h"

namespace heed {

inline constexpr int32_t kMaxBeams = 16;

struct BeamOptions {
  int32_t width = 0;            // 1 .. kMaxBeams hypotheses; 0: no beam search
  double length_penalty = 0;    // -10 .. 10; above 0 long texts lose less
  int32_t results = 1;          // texts wanted, the best; at most width
  int32_t choices = 0;          // ids from here on end no text and are in none; 0: all may be
  int32_t min_tokens = 0;       // while fewer are generated, no end token comes
  bool early_stopping = false;  // over as soon as `width` are kept
  bool renormalize = false;     // probabilities are of the tokens that may come, not of the vocabulary
};

// The message names the field as requests call it, its value and the limit.
absl::Status Validate(const BeamOptions& options);

// The search after one prompt. It knows no model: whoever runs it has a sequence for each live hypothesis.
class BeamSearch {
 public:
  // A live hypothesis: the parent-th of the live ones before, gone on with a token.
  struct Extension {
    int parent = 0;
    int32_t token = 0;
  };
  struct Hypothesis {
    double score = 0;
    bool ended = false;  // with an end token; else it is of the longest length
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;  // of each token
  };

  // Valid options with a width; max_tokens is at least 1. A token that the ruling forces costs nothing.
  BeamSearch(const BeamOptions& options, std::vector<int32_t> end_tokens, int64_t max_tokens,
             TokenRuling ruling = {});

  // Those that wait for logits.
  int live() const { return static_cast<int>(live_.size()); }
  // The logits that follow the i-th live hypothesis, once for each in a step; of different ones on any
  // threads.
  void Read(int i, std::span<const float> logits);
  // When all are read: the live hypotheses now, best first; none when the search is over. INTERNAL if a
  // probability is no number.
  absl::StatusOr<std::vector<Extension>> Advance();
  // When it is over: the best, best first, `width` where the vocabulary has as many texts.
  std::vector<Hypothesis> Results() const;

 private:
  struct Candidate {
    double sum = 0;
    int parent = 0;
    int32_t token = 0;
    float logprob = 0;
  };
  struct Live {
    double sum = 0;
    int node = -1;
    std::vector<Candidate> best;  // extensions of it, all that may be walked to
    bool broken = false;          // a logit was no number
  };
  struct Ended {
    double score = 0;
    int node = -1;
    bool by_token = false;
  };
  // A token of a text; the texts are a tree.
  struct Node {
    int parent = -1;
    int32_t token = 0;
    float logprob = 0;
  };
  static bool Before(const Candidate& a, const Candidate& b);
  bool IsEnd(int32_t token) const;
  void Walk(const std::vector<Candidate>& ranked, std::vector<Extension>& extensions);
  void KeepBest();
  double Score(double sum) const;
  bool Over() const;
  void Rank(int i, std::span<const float> logits, double sum_exp);
  bool Rules() const;  // whether some tokens may not come now
  // Takes them away, and gives those that must come, if there are any.
  std::vector<int32_t> Rule(int node, std::vector<float>& logits) const;
  std::vector<int32_t> TextOf(int node) const;

  const BeamOptions options_;
  const std::vector<int32_t> end_tokens_;
  const int64_t max_tokens_;
  const TokenRuling ruling_;
  int64_t length_ = 0;
  std::vector<Node> nodes_;
  std::vector<Live> live_{{}};
  std::vector<Ended> ended_;  // best first
};

}  // namespace heed

#endif  // HEED_ENGINE_GENERATION_BEAM_SEARCH_H_
