#include "engine/models/global_input.h"

#include "absl/log/check.h"
#include "engine/base/round.h"

namespace heed {

int64_t GlobalInput::DefaultCount(int64_t tokens) const { return Quotient(tokens, tokens_per_global); }

// Those for which too few global tokens are given belong to none.
void CompleteGlobalInput(const GlobalInput& input, int64_t tokens, std::vector<int32_t>& source,
                         std::vector<int32_t>& labels) {
  CHECK(input.read);
  if (source.empty()) {
    CHECK(input.has_default());
    source.assign(input.DefaultCount(tokens), input.token);
  }
  if (!labels.empty() || input.tokens_per_global == 0) return;
  labels.resize(tokens);
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t global = i / input.tokens_per_global;
    if (global < std::ssize(source)) labels[i] = static_cast<int32_t>(1 + global);
  }
}

}  // namespace heed
