// Cutting text at some of its parts: what becomes of these, and of what lies between them.
#ifndef HEED_ENGINE_TEXT_SPLITTING_H_
#define HEED_ENGINE_TEXT_SPLITTING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/json.h"
#include "engine/text/chars.h"
#include "engine/text/regex.h"

namespace heed {

// What becomes of the parts at which text is split.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The field `behavior`; kIsolated if it is absent.
Behavior ReadBehavior(JsonFields& fields);

// Splits at every character for which `is_delimiter` holds.
template <typename IsDelimiter>
void SplitAtCharacters(IsDelimiter is_delimiter, Behavior behavior, CharSpan text, Words& words);

// Splits at what the pattern finds; `invert`: at all else.
absl::Status SplitAtMatches(const Regex& pattern, bool invert, Behavior behavior, CharSpan text,
                            Words& words);

// Whether text is cut between two neighbouring parts, given which of them it is split at.
bool CutBetween(bool first, bool second, Behavior behavior);

template <typename IsDelimiter>
void SplitAtCharacters(IsDelimiter is_delimiter, Behavior behavior, CharSpan text, Words& words) {
  bool before = false;
  for (const Char& c : text) {
    const bool here = is_delimiter(c.code);
    if ((before || here) && CutBetween(before, here, behavior)) words.Cut();
    if (!here || behavior != Behavior::kRemoved) words.Add(c);
    before = here;
  }
  words.Cut();
}

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_SPLITTING_H_
