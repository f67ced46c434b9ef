#include "server/stream_buffer.h"

#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

using testing::ElementsAre;

StreamEvent Text(std::string text, int sample = 0, int tokens = 1) {
  return {.sample = sample, .what = Piece{std::move(text), std::vector<TokenChoice>(tokens)}};
}

// The event as one word: "s" started, "+TEXT", "." finished, "!" error.
std::string Word(const std::optional<StreamEvent>& event) {
  if (!event) return "";
  if (auto* piece = std::get_if<Piece>(&event->what)) return "+" + piece->text;
  constexpr const char* kWords[] = {"s", "", ".", "!"};
  return kWords[event->what.index()];
}

std::vector<std::string> ReadAll(StreamBuffer& buffer) {
  std::vector<std::string> words;
  while (auto event = buffer.Next()) words.push_back(Word(event));
  return words;
}

TEST(StreamBuffer, APieceComesOutWhenItWentIn) {
  int ready = 0;
  StreamBuffer buffer([&] { ++ready; });
  EXPECT_EQ(Word(buffer.Next()), "");
  buffer.Add({.what = Started{}});
  EXPECT_EQ(ready, 1);
  EXPECT_EQ(Word(buffer.Next()), "s");
  buffer.Add(Text("a"));
  EXPECT_EQ(Word(buffer.Next()), "+a");
  EXPECT_EQ(buffer.tokens() + buffer.bytes(), 0);
}

TEST(StreamBuffer, WhatASlowReaderMissedIsOnePiece) {
  StreamBuffer buffer([] {});
  buffer.Add({.what = Started{}});
  for (const char* text : {"to ", "be ", "or "}) buffer.Add(Text(text));
  buffer.Add({.what = Finished{}});
  EXPECT_THAT(ReadAll(buffer), ElementsAre("s", "+to be or ", "."));
}

TEST(StreamBuffer, SamplesAndInputsStayApartAndInOrder) {
  StreamBuffer buffer([] {});
  for (int sample : {0, 1}) buffer.Add({.sample = sample, .what = Started{}});
  for (const char* text : {"a", "b"}) {
    for (int sample : {0, 1}) buffer.Add(Text(text + std::to_string(sample), sample));
  }
  buffer.Add({.sample = 0, .what = absl::InternalError("")});
  StreamEvent other = Text("x");
  other.input = 1;
  buffer.Add(other);
  EXPECT_THAT(ReadAll(buffer), ElementsAre("s", "s", "+a0b0", "+a1b1", "!", "+x"));
}

TEST(StreamBuffer, ItIsFullAt256TokensOr64KiB) {
  StreamBuffer buffer([] {});
  buffer.Add(Text("a", 0, 255));
  EXPECT_FALSE(buffer.full());
  buffer.Add(Text("b", 1));
  EXPECT_TRUE(buffer.full());
  buffer.Next();
  EXPECT_FALSE(buffer.full());
  buffer.Add(Text(std::string((64 << 10) - 2, 'x')));
  EXPECT_FALSE(buffer.full());
  buffer.Add(Text("y"));
  EXPECT_TRUE(buffer.full());
}

// Has nothing to do but to be woken.
class Sleeper : public Job {
 public:
  Sleeper() : Job({}) {}
  int64_t Rows() const override { return 0; }
  void Next(int64_t, std::vector<Work>*) override {}
  absl::StatusOr<bool> Take() override { return true; }
  void End(const absl::Status&) override {}
};

TEST(StreamBuffer, OneProducerAndOneReaderLoseNothing) {
  StreamBuffer buffer([] {}, {.tokens = 4});
  auto job = std::make_shared<Sleeper>();
  buffer.AddProducer(job);
  std::string read;
  {
    std::jthread producer([&] {
      for (int i = 0; i < 300; ++i) {
        while (buffer.full()) std::this_thread::yield();
        buffer.Add(Text(std::to_string(i % 10)));
      }
      buffer.Add({.what = Finished{}});
    });
    for (bool finished = false; !finished;) {
      EXPECT_LE(buffer.tokens(), 4);
      auto event = buffer.Next();
      if (!event) continue;
      if (auto* piece = std::get_if<Piece>(&event->what)) read += piece->text;
      finished = std::holds_alternative<Finished>(event->what);
    }
  }
  ASSERT_EQ(read.size(), 300);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(read[i], '0' + i % 10);
}

}  // namespace
}  // namespace heed
