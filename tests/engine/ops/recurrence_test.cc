// Each kernel against its recurrence in double, for widths of whole vectors and others; and rows in pieces.
#include "engine/ops/recurrence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

constexpr int64_t kRows = 40;

// Numbers between 0 and 1.
std::vector<float> Shares(int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> numbers(n);
  for (float& x : numbers) x = random.Uniform();
  return numbers;
}

struct World {
  World(int64_t features, int64_t columns)
      : features(features),
        columns(columns),
        keys(Random(1).Normals(kRows * features)),
        queries(Random(2).Normals(kRows * features)),
        x(Random(3).Normals(kRows * columns)),
        fadings(Shares(kRows, 4)),
        shares(Shares(kRows, 5)),
        state(Random(6).Normals(features * columns)) {
    for (float& key : keys) key /= std::sqrt(static_cast<float>(features));
  }
  static Matrix<float> Of(std::vector<float>& numbers, int64_t rows, int64_t columns) {
    return {numbers.data(), rows, columns, columns};
  }

  int64_t features, columns;
  std::vector<float> keys, queries, x, fadings, shares, state;
};

TEST(FadingScan, IsItsRecurrence) {
  for (int64_t columns : {1, 7, 16, 64, 100}) {
    World world(5, columns);
    std::vector<double> state(world.state.begin(), world.state.end()), y(kRows * columns);
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t c = 0; c < columns; ++c) {
        const double x = world.x[t * columns + c];
        double& to = y[t * columns + c];
        to = 0.5 * x;
        for (int64_t f = 0; f < 5; ++f) {
          double& s = state[f * columns + c];
          s = world.fadings[t] * s + world.keys[t * 5 + f] * world.shares[t] * x;
          to += world.queries[t * 5 + f] * s;
        }
      }
    }
    const FadingRows rows{World::Of(world.keys, kRows, 5), World::Of(world.queries, kRows, 5),
                          World::Of(world.fadings, kRows, 1), World::Of(world.shares, kRows, 1), 0.5f};
    FadingScan(rows, World::Of(world.state, 5, columns), World::Of(world.x, kRows, columns));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(world.x[i], y[i], 1e-5) << columns << " columns";
    for (size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(world.state[i], state[i], 1e-5);
  }
}

TEST(DeltaScan, IsItsRecurrence) {
  for (int64_t columns : {1, 7, 16, 64, 100}) {
    World world(6, columns);
    std::vector<double> state(world.state.begin(), world.state.end()), y(kRows * columns);
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t c = 0; c < columns; ++c) {
        double held = 0;
        for (int64_t f = 0; f < 6; ++f)
          held += world.keys[t * 6 + f] * (state[f * columns + c] *= world.fadings[t]);
        const double change = 1.5 * world.shares[t] * (world.x[t * columns + c] - held);
        for (int64_t f = 0; f < 6; ++f) {
          state[f * columns + c] += world.keys[t * 6 + f] * change;
          y[t * columns + c] += world.queries[t * 6 + f] * state[f * columns + c];
        }
      }
    }
    const DeltaRows rows{World::Of(world.keys, kRows, 6), World::Of(world.queries, kRows, 6),
                         World::Of(world.fadings, kRows, 1), World::Of(world.shares, kRows, 1), 1.5f};
    DeltaScan(rows, World::Of(world.state, 6, columns), World::Of(world.x, kRows, columns));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(world.x[i], y[i], 1e-5) << columns << " columns";
    for (size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(world.state[i], state[i], 1e-5);
  }
}

TEST(DeltaScan, OfRowsThatFadeEachByItselfIsItsRecurrence) {
  for (int64_t columns : {1, 16, 70}) {
    World world(6, columns);
    std::vector<float> fadings = Shares(kRows * 6, 9);
    std::vector<double> state(world.state.begin(), world.state.end()), y(kRows * columns);
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t c = 0; c < columns; ++c) {
        double held = 0;
        for (int64_t f = 0; f < 6; ++f)
          held += world.keys[t * 6 + f] * (state[f * columns + c] *= fadings[t * 6 + f]);
        const double change = world.shares[t] * (world.x[t * columns + c] - held);
        for (int64_t f = 0; f < 6; ++f) {
          state[f * columns + c] += world.keys[t * 6 + f] * change;
          y[t * columns + c] += world.queries[t * 6 + f] * state[f * columns + c];
        }
      }
    }
    const DeltaRows rows{World::Of(world.keys, kRows, 6), World::Of(world.queries, kRows, 6),
                         World::Of(fadings, kRows, 6), World::Of(world.shares, kRows, 1)};
    DeltaScan(rows, World::Of(world.state, 6, columns), World::Of(world.x, kRows, columns));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(world.x[i], y[i], 1e-5) << columns << " columns";
    for (size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(world.state[i], state[i], 1e-5);
  }
}

TEST(ChannelScan, IsItsRecurrence) {
  for (int64_t channels : {1, 16, 37}) {
    World world(3, channels);
    std::vector<float> steps = Shares(kRows * channels, 7), rates = Shares(3 * channels, 8), skips = rates;
    for (float& rate : rates) rate = -4 * rate;
    std::vector<double> state(world.state.begin(), world.state.end()), y(kRows * channels);
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t c = 0; c < channels; ++c) {
        const double x = world.x[t * channels + c], step = steps[t * channels + c];
        double& to = y[t * channels + c];
        to = skips[c] * x;
        for (int64_t n = 0; n < 3; ++n) {
          double& s = state[n * channels + c];
          s = std::exp(rates[n * channels + c] * step) * s + world.keys[t * 3 + n] * step * x;
          to += world.queries[t * 3 + n] * s;
        }
      }
    }
    const ChannelRows rows{World::Of(steps, kRows, channels), World::Of(world.keys, kRows, 3),
                           World::Of(world.queries, kRows, 3), World::Of(rates, 3, channels), skips.data()};
    ChannelScan(rows, World::Of(world.state, 3, channels), World::Of(world.x, kRows, channels));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(world.x[i], y[i], 1e-5) << channels << " channels";
    for (size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(world.state[i], state[i], 1e-5);
  }
}

TEST(WkvScan, IsAMeanWeightedByKeysThatFade) {
  for (int64_t columns : {1, 16, 37}) {
    const int64_t n = kRows * columns;
    std::vector<std::vector<float>> products;
    for (uint64_t seed = 1; seed <= 6; ++seed) products.push_back(Random(seed).Normals(n, 2));
    std::vector<float> decays = Shares(columns, 7), bonus = Random(8).Normals(columns), y(n),
                       state(kWkvState * columns);
    for (float& decay : decays) decay = -decay;
    std::fill(state.end() - columns, state.end(), -1e30f);
    const auto rows = [&](int p) { return Rows{DType::kF32, products[p].data(), kRows, columns, columns}; };
    WkvScan({rows(0), rows(1), rows(2), rows(3), rows(4), rows(5), decays.data(), bonus.data()},
            World::Of(state, kWkvState, columns), {DType::kF32, y.data(), kRows, columns, columns});
    for (int64_t c = 0; c < columns; ++c) {
      double a = 0, b = 0;
      for (int64_t t = 0; t < kRows; ++t) {
        const auto mixed = [&](int p) {
          return products[p][t * columns + c] + (t > 0 ? double{products[p + 1][(t - 1) * columns + c]} : 0);
        };
        const double k = mixed(0), v = mixed(2), own = std::exp(bonus[c] + k), stays = std::exp(decays[c]);
        EXPECT_NEAR(y[t * columns + c], (a + own * v) / (b + own) / (1 + std::exp(-mixed(4))), 2e-5);
        a = stays * a + std::exp(k) * v;
        b = stays * b + std::exp(k);
      }
      EXPECT_EQ(state[c], products[1][n - columns + c]);
    }
  }
}

TEST(AddRowBefore, AddsWhatTheRowBeforeBrings) {
  std::vector<float> x = Random(1).Normals(4 * 19), before = Random(2).Normals(4 * 19),
                     state = Random(3).Normals(19), first = state, y(4 * 19);
  const auto rows = [](std::vector<float>& numbers) { return Rows{DType::kF32, numbers.data(), 4, 19, 19}; };
  AddRowBefore(rows(x), rows(before), state.data(), Activation::kRelu2, rows(y));
  for (int64_t i = 0; i < 4 * 19; ++i) {
    const double sum = std::max(0.0, double{x[i]} + (i < 19 ? first[i] : before[i - 19]));
    EXPECT_NEAR(y[i], sum * sum, 1e-5);
  }
  EXPECT_EQ(state, std::vector<float>(before.end() - 19, before.end()));
}

TEST(FadingScan, OfRowsInPiecesIsThatOfAllBitForBit) {
  World world(9, 70), pieces = world;
  const auto scan = [](World& of, int64_t begin, int64_t count) {
    const auto part = [&](std::vector<float>& numbers, int64_t columns) {
      return World::Of(numbers, kRows, columns).Rows(begin, count);
    };
    FadingScan({part(of.keys, 9), part(of.queries, 9), part(of.fadings, 1), part(of.shares, 1), 0.5f},
               World::Of(of.state, 9, 70), part(of.x, 70));
  };
  scan(world, 0, kRows);
  for (int64_t begin = 0; begin < kRows; begin += 8) scan(pieces, begin, 8);
  EXPECT_EQ(world.x, pieces.x);
  EXPECT_EQ(world.state, pieces.state);
}

}  // namespace
}  // namespace heed
