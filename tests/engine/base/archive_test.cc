#include "engine/base/archive.h"

#include <cstring>

#include "engine/base/status.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

// Something that remembers: a count, that many bytes in a larger buffer, and a plain number.
struct State {
  int64_t count = 0;
  Buffer bytes = Buffer::Zeros(16);
  float scale = 0;

  void Archive(StateArchive& archive) {
    archive.Number(count, 0, 16);
    archive.Bytes(bytes, count);
    archive.Bytes(&scale, sizeof(scale));
  }
};

State Remembering(std::string_view text) {
  State state{.count = std::ssize(text), .scale = 2.5f};
  std::memcpy(state.bytes.as<char>(), text.data(), text.size());
  return state;
}

std::string Saved(State state) {
  std::string bytes;
  StateArchive archive = StateArchive::Saving(&bytes);
  state.Archive(archive);
  EXPECT_TRUE(archive.Finish().ok());
  return bytes;
}

absl::Status Restore(std::string_view bytes, State& state) {
  StateArchive archive = StateArchive::Restoring(bytes);
  state.Archive(archive);
  return archive.Finish();
}

TEST(StateArchive, RestoresWhatItSaved) {
  State state;
  ASSERT_TRUE(Restore(Saved(Remembering("hello")), state).ok());
  EXPECT_EQ(state.count, 5);
  EXPECT_EQ(std::string_view(state.bytes.as<char>(), 5), "hello");
  EXPECT_EQ(state.scale, 2.5f);
}

TEST(StateArchive, SavesOnlyWhatIsUsedAndMeasuresWhatIsHeld) {
  EXPECT_EQ(Saved(Remembering("hello")).size(), 8u + 5 + 4);
  StateArchive archive = StateArchive::Measuring();
  Remembering("hello").Archive(archive);
  EXPECT_EQ(archive.measured(), 8 + 16 + 4);
}

TEST(StateArchive, RefusesEveryTruncation) {
  const std::string bytes = Saved(Remembering("hello"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    State state;
    EXPECT_FALSE(Restore(std::string_view(bytes).substr(0, size), state).ok()) << size;
  }
  State state;
  EXPECT_EQ(Restore(bytes.substr(0, bytes.size() - 1), state).message(), "state: ends 1 bytes too early");
  EXPECT_EQ(Restore(bytes + "xy", state).message(), "state: 2 bytes too many");
}

TEST(StateArchive, RefusesNumbersOutOfRangeAndLeavesTheValue) {
  for (int64_t count : {int64_t{-1}, int64_t{17}, INT64_MAX, INT64_MIN}) {
    std::string bytes = Saved(Remembering("hello"));
    std::memcpy(bytes.data(), &count, sizeof(count));
    State state;
    EXPECT_EQ(Restore(bytes, state).message(), Cat("state: ", count, " is not in [0, 16]"));
    EXPECT_EQ(state.count, 0);
  }
}

TEST(StateArchive, KeepsTheFirstError) {
  StateArchive archive = StateArchive::Measuring();
  archive.Fail(absl::InvalidArgumentError("first"));
  archive.Fail(absl::InvalidArgumentError("second"));
  EXPECT_EQ(archive.Finish().message(), "first");
}

}  // namespace
}  // namespace heed
