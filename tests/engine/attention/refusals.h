// Options that a type refuses where it stands, and what the message must name.
#ifndef HEED_TESTS_ENGINE_ATTENTION_REFUSALS_H_
#define HEED_TESTS_ENGINE_ATTENTION_REFUSALS_H_

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {

struct Refusal {
  Place place;
  const char* options;
  std::vector<const char*> message;  // parts of it
};

// Of the layer's type; the weights are those in `scope`.
inline void ExpectRefused(const Layer& layer, const WeightScope& scope,
                          const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    Json options = *ParseJson(refusal.options, "options");
    options["type"] = layer.example().type;
    const auto refused = layer.New(options, scope, refusal.place);
    ASSERT_FALSE(refused.ok()) << refusal.options;
    for (const char* part : refusal.message)
      EXPECT_THAT(refused.status().message(), testing::HasSubstr(part)) << refusal.options;
  }
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ATTENTION_REFUSALS_H_
