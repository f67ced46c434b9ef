// The first stage: what a tokenizer does to the text before it looks for words.
#ifndef HEED_ENGINE_TEXT_NORMALIZERS_H_
#define HEED_ENGINE_TEXT_NORMALIZERS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/chars.h"

namespace heed {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `origin`: where the text began before any normalizer saw it. INVALID_ARGUMENT where a regular expression
  // fails on it (Regex::FindAll).
  virtual absl::Status Normalize(int32_t origin, Chars& text) const = 0;
};

// As tokenizer.json describes it; nullptr for null. `where` begins messages: "tokenizer.json: normalizer".
absl::StatusOr<std::unique_ptr<const Normalizer>> NewNormalizer(const Json& json, const std::string& where);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_NORMALIZERS_H_
