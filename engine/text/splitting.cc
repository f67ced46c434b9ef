#include "engine/text/splitting.h"

#include "engine/base/status.h"

namespace heed {
namespace {

struct Part {
  size_t begin = 0, end = 0;
  bool delimiter = false;
};

// The matches and what lies between them, all of the text.
std::vector<Part> Parts(const std::vector<Regex::Match>& matches, size_t size, bool invert) {
  std::vector<Part> parts;
  size_t done = 0;
  for (const Regex::Match& match : matches) {
    if (match.begin > done) parts.push_back({done, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (size > done) parts.push_back({done, size, invert});
  return parts;
}

}  // namespace

bool CutBetween(bool first, bool second, Behavior behavior) {
  switch (behavior) {
    case Behavior::kContiguous:
      return first != second;
    case Behavior::kMergedWithPrevious:
      return first || !second;
    case Behavior::kMergedWithNext:
      return second || !first;
    case Behavior::kRemoved:
    case Behavior::kIsolated:
      return true;
  }
  return true;
}

Behavior ReadBehavior(JsonFields& fields) {
  const std::string name = fields.Choice(
      "behavior", {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"});
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return Behavior::kIsolated;
}

absl::Status SplitAtMatches(const Regex& pattern, bool invert, Behavior behavior, CharSpan text,
                            Words& words) {
  ASSIGN_OR_RETURN(const auto matches, pattern.FindAll(text));
  bool before = false;
  for (const Part& part : Parts(matches, text.size(), invert)) {
    if (CutBetween(before, part.delimiter, behavior)) words.Cut();
    if (!part.delimiter || behavior != Behavior::kRemoved)
      words.Add(text.subspan(part.begin, part.end - part.begin));
    before = part.delimiter;
  }
  words.Cut();
  return absl::OkStatus();
}

}  // namespace heed
