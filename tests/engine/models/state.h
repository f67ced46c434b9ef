// What a sequence remembers, as bytes.
#ifndef HEED_TESTS_ENGINE_MODELS_STATE_H_
#define HEED_TESTS_ENGINE_MODELS_STATE_H_

#include <cstdint>
#include <memory>
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

// How many of a state's bytes say whose it is.
inline size_t OriginBytes(const Model& model) {
  std::string bytes;
  StateArchive::Saving(&bytes).Origin(model.info().origin);
  return bytes.size();
}

// Restores the bytes into the sequence, a fresh one.
inline absl::Status Restore(const std::string& bytes, Sequence* sequence) {
  StateArchive archive = StateArchive::Restoring(bytes);
  sequence->Archive(archive);
  return archive.Finish();
}

// A fresh sequence with that state, which is one of this model.
inline std::unique_ptr<Sequence> RestoredSequence(const Model& model, const std::string& bytes) {
  std::unique_ptr<Sequence> sequence = model.Start();
  const absl::Status status = Restore(bytes, sequence.get());
  EXPECT_TRUE(status.ok()) << status;
  return sequence;
}

inline absl::Status Restored(const Model& model, const std::string& bytes) {
  return Restore(bytes, model.Start().get());
}

// Cut short or damaged, a state is an error or, damaged, another state.
inline void ExpectDamageIsNoCrash(const Model& model, const std::string& good) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string bad = good.substr(0, random() % good.size());
    if (round % 2) {
      bad = good;
      const size_t from = round % 4 == 1 ? 0 : OriginBytes(model);
      for (int i = 0; i < 8; ++i) bad[from + random() % 64] = static_cast<char>(random());
    }
    EXPECT_TRUE(!Restored(model, bad).ok() || (bad.size() == good.size() && round % 4 == 3));
  }
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_MODELS_STATE_H_
