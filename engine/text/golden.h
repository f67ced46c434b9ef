// Golden cases of tokenizers: FOLDER/{tokenizer.json, cases.json}, which must agree in every id, offset and
// byte; and where there is a model_cases.json, what SentencePiece gives for the model beside it, spiece.model
// say, of which that alone is loaded.
#ifndef HEED_ENGINE_TEXT_GOLDEN_H_
#define HEED_ENGINE_TEXT_GOLDEN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/golden.h"

namespace heed {

// All cases of a folder, "c0" the first, a model's "m0". An error if the folder cannot be read; a case that
// disagrees is a problem of it.
absl::StatusOr<std::vector<GoldenResult>> CheckTokenizerCases(const std::string& folder);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_GOLDEN_H_
