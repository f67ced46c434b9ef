// config_sentence_transformers.json, which sentence-transformers writes beside a checkpoint: texts that an
// embedder was trained to find before others, by what these are for: "query": "Represent this query: ".
#ifndef HEED_ENGINE_FAMILIES_SENTENCE_PROMPTS_H_
#define HEED_ENGINE_FAMILIES_SENTENCE_PROMPTS_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace heed {

struct SentencePrompts {
  std::map<std::string, std::string, std::less<>> by_name;
  std::string default_name;  // of the one before texts of which nothing is said; empty: none
};

// No prompts where the folder has no such file. INVALID_ARGUMENT names the file, the field and what is wrong:
// a prompt that is no text, or above 16 KiB, a default that is none of them.
absl::StatusOr<SentencePrompts> ReadSentencePrompts(const std::string& folder);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_SENTENCE_PROMPTS_H_
