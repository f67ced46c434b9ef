#include "engine/base/archive.h"

#include <cstring>

#include "engine/base/status.h"
#include "gmock/gmock.h"
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

std::string Begun(const StateOrigin& origin) {
  std::string bytes;
  StateArchive::Saving(&bytes).Origin(origin);
  return bytes;
}

std::string Refusal(std::string_view bytes, const StateOrigin& own) {
  StateArchive archive = StateArchive::Restoring(bytes);
  archive.Origin(own);
  return std::string(archive.Finish().message());
}

TEST(StateArchive, RefusesAnOriginThatIsAnother) {
  const std::string bytes = Begun({"0123", "f32"});
  EXPECT_EQ(Refusal(bytes, {"0123", "f32"}), "");
  EXPECT_EQ(Refusal(bytes, {"0124", "f32"}), "state: is of model 0123 in f32; this is 0124 in f32");
  EXPECT_EQ(Refusal(bytes, {"0123", "bf16"}), "state: is of model 0123 in f32; this is 0123 in bf16");
}

TEST(StateArchive, RefusesAnotherFormat) {
  std::string bytes = Begun({"0123", "f32"});
  const size_t format = bytes.find('\n') + 1;
  ASSERT_EQ(bytes[format], StateArchive::kFormat);
  bytes[format] = 9;
  EXPECT_EQ(Refusal(bytes, {"0123", "f32"}), Cat("state: is of format 9, not ", StateArchive::kFormat));
}

TEST(StateArchive, RefusesWhatDoesNotBeginAsAState) {
  const std::string bytes = Begun({"0123", "f32"});
  EXPECT_EQ(Refusal(std::string(200, 'x'), {"0123", "f32"}), "state: does not begin as one");
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT(Refusal(bytes.substr(0, size), {"0123", "f32"}), testing::HasSubstr("too early"));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const char c : {'\0', '\n', '\xff'}) {
      std::string bad = bytes;
      bad[i] = c;
      EXPECT_EQ(Refusal(bad, {"0123", "f32"}).empty(), bad == bytes);
    }
  }
}

TEST(StateArchive, AnOriginIsNotMeasured) {
  StateArchive archive = StateArchive::Measuring();
  archive.Origin({"0123", "f32"});
  EXPECT_EQ(archive.measured(), 0);
}

TEST(StateArchive, KeepsTheFirstError) {
  StateArchive archive = StateArchive::Measuring();
  archive.Fail(absl::InvalidArgumentError("first"));
  archive.Fail(absl::InvalidArgumentError("second"));
  EXPECT_EQ(archive.Finish().message(), "first");
}

}  // namespace
}  // namespace heed
