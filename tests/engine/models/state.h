// What a sequence remembers, as bytes.
#ifndef HEED_TESTS_ENGINE_MODELS_STATE_H_
#define HEED_TESTS_ENGINE_MODELS_STATE_H_

#include <cstdint>
#include <random>
#include <string>

#include "engine/models/model.h"
#include "gtest/gtest.h"

namespace heed {

inline std::string StateOf(Sequence& sequence) {
  std::string bytes;
  StateArchive archive = StateArchive::Saving(&bytes);
  sequence.Archive(archive);
  return bytes;
}

inline int64_t MeasuredBytes(Sequence& sequence) {
  StateArchive archive = StateArchive::Measuring();
  sequence.Archive(archive);
  return archive.measured();
}

// Cut short or damaged, a state is an error or, damaged, another state.
inline void ExpectDamageIsNoCrash(const Model& model, const std::string& good) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string bad = good.substr(0, random() % good.size());
    if (round % 2) {
      bad = good;
      for (int i = 0; i < 8; ++i) bad[random() % 64] = static_cast<char>(random());
    }
    auto fresh = model.Start();
    StateArchive archive = StateArchive::Restoring(bad);
    fresh->Archive(archive);
    EXPECT_TRUE(bad.size() == good.size() || !archive.Finish().ok());
  }
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_MODELS_STATE_H_
