#include "server/turns.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

class LayersOf : public Pass {
 public:
  LayersOf(int layers, std::function<void()> layer) : left_(layers), layer_(std::move(layer)) {}
  bool Advance(Threads&) override {
    layer_();
    return --left_ > 0;
  }
  void Drop(int) override {}

 private:
  int left_;
  std::function<void()> layer_;
};

struct TurnsTest : testing::Test {
  void Run(Pass& pass, Turns::Seat& seat) {
    while (turns.Advance(pass, seat)) {
    }
  }
  FakeClock clock;
  Threads threads{1};
  Turns turns{&threads, &clock};
};

TEST_F(TurnsTest, AloneNobodyWaits) {
  Turns::Seat seat;
  turns.Enter(seat);
  int layers = 0;
  LayersOf pass(5, [&] { ++layers; });
  Run(pass, seat);
  EXPECT_EQ(layers, 5);
  turns.Leave(seat);
}

// An encoder reads 16k rows, 50 layers of 100 ms. A decoder, whose pass is 30 layers of 1 ms, comes in its
// tenth layer.
TEST_F(TurnsTest, APassDelaysAnothersNextTokenByAtMostOneLayer) {
  Turns::Seat encoder, decoder;
  std::atomic<int> encoder_layers{0};
  int most = 0, tokens = 0;
  auto decode = [&] {
    turns.Enter(decoder);
    while (encoder_layers < 40) {
      const int before = encoder_layers;
      LayersOf token(30, [&] { clock.Move(milliseconds(1)); });
      Run(token, decoder);
      most = std::max(most, encoder_layers - before);
      ++tokens;
    }
    turns.Leave(decoder);
  };
  std::jthread stream;
  LayersOf document(50, [&] {
    if (encoder_layers == 10) {
      stream = std::jthread(decode);
      while (turns.waiting() == 0) std::this_thread::yield();
    }
    clock.Move(milliseconds(100));
    ++encoder_layers;
  });
  turns.Enter(encoder);
  Run(document, encoder);
  turns.Leave(encoder);
  stream.join();
  EXPECT_EQ(most, 1);
  EXPECT_GE(tokens, 29 * 100 / 30) << "both have the same share of the time";
}

TEST_F(TurnsTest, EqualsAlternate) {
  Turns::Seat seats[2];
  std::string order;
  for (auto& seat : seats) turns.Enter(seat);
  auto run = [&](char name, Turns::Seat& seat) {
    LayersOf pass(10, [&, name] {
      order += name;
      clock.Move(milliseconds(1));
    });
    Run(pass, seat);
    turns.Leave(seat);
  };
  {
    std::jthread other([&] { run('b', seats[1]); });
    run('a', seats[0]);
  }
  EXPECT_EQ(order, "abababababababababab");
}

TEST_F(TurnsTest, WhoHasBeenAwayHasSavedNothing) {
  Turns::Seat busy, rested;
  turns.Enter(busy);
  LayersOf pass(10, [&] { clock.Move(milliseconds(1)); });
  Run(pass, busy);
  turns.Enter(rested);
  LayersOf layer(1, [&] { clock.Move(milliseconds(2)); });
  EXPECT_FALSE(turns.Advance(layer, rested));
  // Now `rested` has used more, so `busy` is next and does not wait.
  LayersOf another(1, [] {});
  EXPECT_FALSE(turns.Advance(another, busy));
  turns.Leave(busy);
  turns.Leave(rested);
}

TEST_F(TurnsTest, WhatALayerThrowsPassesThroughAndTheTurnIsOver) {
  Turns::Seat seat;
  turns.Enter(seat);
  LayersOf bad(2, [] { throw std::runtime_error("no"); });
  EXPECT_THROW(turns.Advance(bad, seat), std::runtime_error);
  LayersOf good(1, [] {});
  EXPECT_FALSE(turns.Advance(good, seat));
  turns.Leave(seat);
}

// The rare seat rests, and the busy one asks for a turn. The rare has used less, so the next is due to it.
struct RestTest : testing::Test {
  void AskWhileTheOtherRests(Duration keep) {
    turns = std::make_unique<Turns>(&threads, &clock, keep);
    turns->Enter(rare);
    turns->Enter(busy);
    turns->Rest(rare);
    asking = std::jthread([this] {
      LayersOf pass(1, [this] { ran = true; });
      turns->Advance(pass, busy);
      turns->Leave(busy);
    });
    while (turns->waiting() == 0 && !ran) std::this_thread::yield();
  }
  bool RunsAtLast() {
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (!ran && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return ran;
  }

  FakeClock clock;
  Threads threads{1};
  std::unique_ptr<Turns> turns;
  Turns::Seat busy, rare;
  std::atomic<bool> ran{false};
  std::jthread asking;  // last: it uses the rest
};

TEST_F(RestTest, ADueTurnIsKeptForASeatThatComesBackSoon) {
  AskWhileTheOtherRests(std::chrono::hours(1));
  EXPECT_FALSE(ran);
  turns->Enter(rare);
  LayersOf pass(1, [] {});
  turns->Advance(pass, rare);
  turns->Leave(rare);
  EXPECT_TRUE(RunsAtLast());
}

TEST_F(RestTest, OthersGoOnWhereASeatStaysAway) {
  AskWhileTheOtherRests(Duration::zero());
  EXPECT_TRUE(RunsAtLast());
  turns->Leave(rare);
}

// By the clock that it was given: the hour passes at once.
TEST_F(RestTest, ADueTurnIsKeptForSoLongAndNoLonger) {
  AskWhileTheOtherRests(std::chrono::hours(1));
  EXPECT_FALSE(ran);
  clock.Move(std::chrono::hours(1));
  Turns::Seat passing;
  turns->Leave(passing);  // who waits looks again
  EXPECT_TRUE(RunsAtLast());
  turns->Leave(rare);
}

}  // namespace
}  // namespace heed
