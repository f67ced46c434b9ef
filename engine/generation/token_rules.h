// Which tokens may follow a text, whatever a request asks for: what those who made a checkpoint have found
// out of it and wrote into generation_config.json, whose names these are. The rules and their edges are those
// of transformers' logits processors.
#ifndef HEED_ENGINE_GENERATION_TOKEN_RULES_H_
#define HEED_ENGINE_GENERATION_TOKEN_RULES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace heed {

// Each default rules nothing. Ids are of the vocabulary.
struct TokenRules {
  std::vector<int32_t> suppress_tokens{};             // in no place
  std::vector<int32_t> begin_suppress_tokens{};       // not first; with a forced_bos_token_id, not second
  std::vector<std::vector<int32_t>> bad_words_ids{};  // runs of at least one token, none of which comes
  int32_t no_repeat_ngram_size = 0;                   // no run of so many comes twice; 0: it may
  int32_t encoder_no_repeat_ngram_size = 0;           // nor one of the source's
  int32_t forced_bos_token_id = -1;                   // the first; -1: any
  std::vector<int32_t> forced_eos_token_ids{};        // of as many as may come, the last is one of these

  bool operator==(const TokenRules&) const = default;
};

// The rules on the way through one text.
class TokenRuling {
 public:
  struct Verdict {
    std::vector<int32_t> only{};     // if there are any: one of these comes, and nothing else counts
    std::vector<int32_t> removed{};  // none of these; in any order, perhaps more than once
  };

  TokenRuling() = default;  // anything may come
  // Of what follows the prompt, `most` tokens at most. `source`: an encoder-decoder's, else empty. All must
  // outlive it; nullptr: anything may come.
  TokenRuling(const TokenRules* rules, std::span<const int32_t> prompt, std::span<const int32_t> source,
              int64_t most)
      : rules_(rules), prompt_(prompt), source_(source), most_(most) {}

  bool acts() const { return rules_ != nullptr; }
  Verdict After(std::span<const int32_t> generated) const;

 private:
  const TokenRules* rules_ = nullptr;
  std::span<const int32_t> prompt_, source_;
  int64_t most_ = 0;
};

}  // namespace heed

#endif  // HEED_ENGINE_GENERATION_TOKEN_RULES_H_
