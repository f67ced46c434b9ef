#include "engine/generation/token_rules.h"

#include <algorithm>

namespace heed {
namespace {

using Ids = std::span<const int32_t>;

void Append(Ids ids, std::vector<int32_t>& to) { to.insert(to.end(), ids.begin(), ids.end()); }

// What would make the end of `text` a run of `size` tokens that is in `others`, too.
void RemoveRepeats(Ids text, Ids others, int64_t size, std::vector<int32_t>& removed) {
  if (size == 0 || std::ssize(text) < size - 1) return;
  const Ids last = text.last(size - 1);
  for (int64_t i = 0; i + size <= std::ssize(others); ++i) {
    if (std::ranges::equal(last, others.subspan(i, size - 1))) removed.push_back(others[i + size - 1]);
  }
}

// What would complete a run. As in transformers a run is no longer than the text before.
void RemoveRun(Ids text, Ids run, std::vector<int32_t>& removed) {
  if (run.size() > 1 && run.size() > text.size()) return;
  if (std::ranges::equal(text.last(run.size() - 1), run.first(run.size() - 1))) removed.push_back(run.back());
}

}  // namespace

TokenRuling::Verdict TokenRuling::After(Ids generated) const {
  if (rules_ == nullptr) return {};
  const int64_t count = std::ssize(generated);
  const bool forced_first = rules_->forced_bos_token_id >= 0;
  if (count + 1 == most_ && !rules_->forced_eos_token_ids.empty())
    return {.only = rules_->forced_eos_token_ids};
  if (count == 0 && forced_first) return {.only = {rules_->forced_bos_token_id}};

  Verdict verdict{.removed = rules_->suppress_tokens};
  if (count == (forced_first ? 1 : 0)) Append(rules_->begin_suppress_tokens, verdict.removed);
  if (rules_->bad_words_ids.empty() && rules_->no_repeat_ngram_size == 0 &&
      rules_->encoder_no_repeat_ngram_size == 0)
    return verdict;
  std::vector<int32_t> text(prompt_.begin(), prompt_.end());
  Append(generated, text);
  RemoveRepeats(text, text, rules_->no_repeat_ngram_size, verdict.removed);
  RemoveRepeats(text, source_, rules_->encoder_no_repeat_ngram_size, verdict.removed);
  for (const std::vector<int32_t>& run : rules_->bad_words_ids) RemoveRun(text, run, verdict.removed);
  return verdict;
}

}  // namespace heed
