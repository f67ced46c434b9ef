#include "server/turns.h"

#include <atomic>
#include <functional>
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

// The rare seat and the busy one; the rare has used less, so the next turn is due to it.
struct RestTest : testing::Test {
  // The busy seat's layer runs when `then` has been called, at the latest; says whether before.
  bool BusyGoesOnBefore(Duration keep, const std::function<void(Turns&, Turns::Seat& rare)>& then) {
    Threads threads{1};
    FakeClock clock;
    Turns turns(&threads, &clock, keep);
    Turns::Seat busy, rare;
    turns.Enter(rare);
    turns.Enter(busy);
    turns.Rest(rare);
    std::atomic<bool> ran{false};
    std::jthread other([&] {
      LayersOf pass(1, [&] { ran = true; });
      turns.Advance(pass, busy);
      turns.Leave(busy);
    });
    while (turns.waiting() == 0 && !ran) std::this_thread::yield();
    if (keep == Duration::zero()) {
      while (!ran) std::this_thread::yield();
    }
    const bool before = ran;
    then(turns, rare);
    return before;
  }
};

TEST_F(RestTest, ADueTurnIsKeptForASeatThatComesBackSoon) {
  EXPECT_FALSE(BusyGoesOnBefore(std::chrono::hours(1), [](Turns& turns, Turns::Seat& rare) {
    turns.Enter(rare);
    LayersOf pass(1, [] {});
    turns.Advance(pass, rare);
    turns.Leave(rare);
  }));
}

TEST_F(RestTest, OthersGoOnWhereASeatStaysAway) {
  EXPECT_TRUE(BusyGoesOnBefore(Duration::zero(), [](Turns& turns, Turns::Seat& rare) { turns.Leave(rare); }));
}

// By the clock that it was given: the hour passes at once.
TEST_F(RestTest, ADueTurnIsKeptForSoLongAndNoLonger) {
  Threads threads{1};
  FakeClock clock;
  Turns turns(&threads, &clock, std::chrono::hours(1));
  Turns::Seat busy, rare, passing;
  turns.Enter(rare);
  turns.Enter(busy);
  turns.Rest(rare);
  std::atomic<bool> ran{false};
  std::jthread other([&] {
    LayersOf pass(1, [&] { ran = true; });
    turns.Advance(pass, busy);
    turns.Leave(busy);
  });
  while (turns.waiting() == 0) std::this_thread::yield();
  EXPECT_FALSE(ran);
  clock.Move(std::chrono::hours(1));
  turns.Leave(passing);  // who waits looks again
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (!ran && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(ran);
  turns.Leave(rare);
}

}  // namespace
}  // namespace heed
