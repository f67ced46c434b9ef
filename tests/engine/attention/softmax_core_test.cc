// The blockwise core against the definition, written out in double.
#include "engine/attention/softmax_core.h"

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "engine/attention/distance_bias.h"
#include "engine/ops/gemm.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/random_rows.h"

namespace heed {
namespace {

std::vector<DType> Types() {
  return HasMicroKernel(DType::kBf16) ? std::vector{DType::kF32, DType::kBf16} : std::vector{DType::kF32};
}
// Of results that are averages of normal numbers.
double Tolerance(DType type) { return type == DType::kF32 ? 1e-5 : 2e-2; }

using Bias = std::function<double(int head, int64_t distance)>;

// One sequence: n positions, query heads that share one key-value head.
struct World {
  World(DType type, int64_t n, int64_t head_dim, int heads = 1)
      : type(type),
        n(n),
        head_dim(head_dim),
        heads(heads),
        q(OwnedRows::Random(type, n, heads * head_dim, 1)),
        k(OwnedRows::Random(type, n, head_dim, 2)),
        v(OwnedRows::Random(type, n, head_dim, 3)),
        core(type, head_dim, 1 / std::sqrt(static_cast<double>(head_dim))),
        pages(Pages(0, n)) {}
  double scale() const { return 1 / std::sqrt(static_cast<double>(head_dim)); }

  KeyValuePages Pages(int64_t begin, int64_t end) const {
    KeyValuePages result(type, head_dim);
    result.Append(k.rows().Slice(begin, end - begin), v.rows().Slice(begin, end - begin));
    return result;
  }

  // Rows [begin, end) attend.
  void Attend(std::vector<KeySource> sources, int64_t begin, int64_t end, OwnedRows& out,
              float* lse = nullptr) const {
    Scratch scratch;
    SoftmaxQueries queries;
    queries.q = q.rows().Slice(begin, end - begin);
    queries.out = out.rows().Slice(begin, end - begin);
    queries.heads = heads;
    queries.first = begin;
    queries.lse = lse;
    core.Attend(queries, sources, scratch);
  }
  OwnedRows Whole(const KeySource& source) const {
    OwnedRows out(type, n, heads * head_dim);
    Attend({source}, 0, n, out);
    return out;
  }
  KeySource Source(int64_t left, int64_t right) const { return {&pages, Band{left, right}}; }

  // The definition for one row and head: the result, then log(sum(exp(scores))).
  std::vector<double> Dense(int64_t i, int head, int64_t first_key, int64_t last_key,
                            const Bias& bias = nullptr) const {
    std::vector<double> result(head_dim + 1);
    double sum = 0;
    for (int64_t j = std::max<int64_t>(0, first_key); j <= std::min(n - 1, last_key); ++j) {
      double score = 0;
      for (int64_t t = 0; t < head_dim; ++t) score += q.At(i, head * head_dim + t) * k.At(j, t);
      const double p = std::exp(score * scale() + (bias ? bias(head, j - i) : 0));
      sum += p;
      for (int64_t t = 0; t < head_dim; ++t) result[t] += p * v.At(j, t);
    }
    for (double& x : result) x = sum == 0 ? 0 : x / sum;
    result[head_dim] = std::log(sum);
    return result;
  }

  // Some 40 rows of `out`, the first and the last among them, against the definition.
  void ExpectDense(const OwnedRows& out, int64_t left, int64_t right, const Bias& bias = nullptr) const {
    double largest = 0;
    for (int64_t s = 0; s <= 40; ++s) {
      const int64_t i = s * (n - 1) / 40;
      for (int head = 0; head < heads; ++head) {
        const auto dense = Dense(i, head, i - left, i + right, bias);
        for (int64_t t = 0; t < head_dim; ++t) {
          const double difference = std::abs(out.At(i, head * head_dim + t) - dense[t]);
          if (!(difference <= largest)) largest = difference;
        }
      }
    }
    EXPECT_LE(largest, Tolerance(type))
        << Name(type) << " n " << n << " head_dim " << head_dim << " heads " << heads;
  }

  DType type;
  int64_t n, head_dim;
  int heads;
  OwnedRows q, k, v;
  SoftmaxCore core;
  KeyValuePages pages;
};

TEST(SoftmaxCore, IsTheDefinitionAtEveryLengthAndHeadSize) {
  for (DType type : Types()) {
    for (int64_t n : {1, 63, 64, 65, 255, 257, 700, 1000}) {
      for (int64_t head_dim : {8, 40, 64, 80, 128}) {
        const World world(type, n, head_dim);
        world.ExpectDense(world.Whole(world.Source(kUnlimited, 0)), kUnlimited, 0);
        world.ExpectDense(world.Whole(world.Source(kUnlimited, kUnlimited)), kUnlimited, kUnlimited);
      }
    }
  }
}

TEST(SoftmaxCore, TakesOddHeadSizes) {
  for (DType type : Types()) {
    for (int64_t head_dim : {1, 3, 17, 33}) {
      const World world(type, 150, head_dim, 2);
      world.ExpectDense(world.Whole(world.Source(kUnlimited, 0)), kUnlimited, 0);
    }
  }
}

TEST(SoftmaxCore, SeesABandOfKeys) {
  for (DType type : Types()) {
    for (const auto& [left, right] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 0}, {1, 0}, {127, 0}, {200, 0}, {0, 5}, {32, 32}, {300, 10}, {5, 600}}) {
      const World world(type, 700, 40);
      world.ExpectDense(world.Whole(world.Source(left, right)), left, right);
    }
  }
}

TEST(SoftmaxCore, HeadsThatShareKeysAreMoreRowsOfOneTile) {
  for (DType type : Types()) {
    for (int heads : {2, 3, 8, 130}) {
      const World world(type, 257, 16, heads);
      world.ExpectDense(world.Whole(world.Source(kUnlimited, 0)), kUnlimited, 0);
    }
  }
}

TEST(SoftmaxCore, AddsABiasByDistance) {
  const auto hill = [](int head, int64_t d) {
    return std::cos(static_cast<double>(d)) * (head + 1) + (d > 0 ? 0.5 : 0);
  };
  const auto clipped = [&](int head, int64_t d) { return hill(head, std::clamp<int64_t>(d, -30, 30)); };
  const auto slope = [](int head) { return -0.01 * (head + 1); };
  const auto straight = [&](int head, int64_t d) { return slope(head) * static_cast<double>(std::abs(d)); };
  const DistanceBias table(3, 30, hill, [](int) { return 0; }), line(3, 0, straight, slope);
  for (DType type : Types()) {
    const World world(type, 1000, 40, 3);
    for (int64_t right : {int64_t{0}, kUnlimited}) {
      KeySource source = world.Source(kUnlimited, right);
      source.bias = &table;
      world.ExpectDense(world.Whole(source), kUnlimited, right, clipped);
      source.bias = &line;
      world.ExpectDense(world.Whole(source), kUnlimited, right, straight);
    }
  }
}

TEST(SoftmaxCore, ReadsSeveralSourcesAsOne) {
  for (DType type : Types()) {
    const World world(type, 700, 64, 2);
    const KeyValuePages sinks = world.Pages(0, 4);
    OwnedRows out(type, world.n, 128);
    world.Attend({{&world.pages, Band{99, 0}}, {&sinks, Band{kUnlimited, -100}}}, 0, world.n, out);
    for (int64_t i : {0, 3, 99, 100, 103, 104, 500, 699}) {
      const auto window = world.Dense(i, 1, i - 99, i),
                 old = world.Dense(i, 1, 0, std::min<int64_t>(3, i - 100));
      const double a = std::exp(window[64]), b = std::exp(old[64]);
      for (int t = 0; t < 64; ++t) {
        EXPECT_NEAR(out.At(i, 64 + t), (a * window[t] + b * old[t]) / (a + b), Tolerance(type)) << i;
      }
    }
  }
}

// Runs of keys one after another, within a part and across the ends of some.
TEST(SoftmaxCore, SourcesThatContinueAreAsSeveral) {
  for (DType type : Types()) {
    const World world(type, 2 * kKeyPart + 300, 40, 2);
    const auto run = [&](int64_t begin, int64_t end, bool continues) {
      return KeySource{
          .pages = &world.pages, .sees = [=](int64_t) { return Range{begin, end}; }, .continues = continues};
    };
    OwnedRows one(type, world.n, 80), several = one;
    for (const bool continues : {true, false}) {
      world.Attend({run(0, 40, continues), run(64, 100, continues), run(50, 50, continues),
                    run(200, kKeyPart + 70, continues), run(kKeyPart + 90, world.n, continues)},
                   100, 300, continues ? one : several);
    }
    EXPECT_LE(LargestDifference(one, several), type == DType::kF32 ? 1e-5 : 1e-2);
    EXPECT_GE(FirstDifference(one, OwnedRows(type, world.n, 80)), 100);
  }
}

TEST(SoftmaxCore, PartialResultsMergeByTheirLogSumExp) {
  const World world(DType::kF32, 500, 64, 2);
  const KeyValuePages front = world.Pages(0, 200), back = world.Pages(200, 500);
  OwnedRows a(DType::kF32, 500, 128), b = a, together = a;
  std::vector<float> lse_a(1000), lse_b(1000), lse(1000);
  world.Attend({{&front}}, 0, 500, a, lse_a.data());
  world.Attend({{&back}}, 0, 500, b, lse_b.data());
  world.Attend({world.Source(kUnlimited, kUnlimited)}, 0, 500, together, lse.data());
  for (int64_t row = 0; row < 1000; ++row) {
    EXPECT_NEAR(lse[row], world.Dense(row / 2, row % 2, 0, 499)[64], 1e-5);
    EXPECT_NEAR(lse[row], std::log(std::exp(lse_a[row]) + std::exp(lse_b[row])), 1e-5);
    for (int64_t c = row % 2 * 64; c < row % 2 * 64 + 64; ++c) {
      const double merged = std::exp(lse_a[row] - lse[row]) * a.At(row / 2, c) +
                            std::exp(lse_b[row] - lse[row]) * b.At(row / 2, c);
      EXPECT_NEAR(together.At(row / 2, c), merged, 1e-5);
    }
  }
}

TEST(SoftmaxCore, ARowThatSeesNothingIsZero) {
  for (DType type : Types()) {
    const World world(type, 300, 40);
    OwnedRows out = OwnedRows::Random(type, 300, 40, 9);
    std::vector<float> lse(300);
    world.Attend({world.Source(kUnlimited, -100)}, 0, 300, out, lse.data());
    for (int64_t c = 0; c < 40; ++c) EXPECT_EQ(out.At(99, c), 0);
    EXPECT_EQ(lse[99], -std::numeric_limits<float>::infinity());
    world.ExpectDense(out, kUnlimited, -100);
  }
}

// As one thread attends them, or each part by another, last part first.
TEST(SoftmaxCore, PartsMergeToTheSameBits) {
  for (DType type : Types()) {
    const World world(type, 3 * kKeyPart - 100, 40, 3);
    const KeyValuePages sinks = world.Pages(0, 40);
    for (const std::vector<KeySource>& sources :
         {std::vector<KeySource>{world.Source(kUnlimited, 0)},
          std::vector<KeySource>{{&world.pages, Band{6000, 0}}, {&sinks, Band{kUnlimited, -6001}}}}) {
      const int64_t first = world.n - 7;
      OwnedRows whole(type, world.n, 120), merged = whole;
      world.Attend(sources, first, first + 5, whole);
      SoftmaxQueries queries;
      queries.q = world.q.rows().Slice(first, 5);
      queries.out = merged.rows().Slice(first, 5);
      queries.heads = 3;
      queries.first = first;
      int64_t parts = 0;
      for (const KeySource& source : sources) parts += SoftmaxCore::Parts(*source.pages);
      ASSERT_GE(parts, 3);
      std::vector<char> results(parts * world.core.PartBytes(15));
      Scratch scratch;
      for (int64_t part = parts - 1; part >= 0; --part)
        world.core.AttendPart(queries, sources, part, results.data() + part * world.core.PartBytes(15),
                              scratch);
      world.core.MergeParts(queries, parts, results.data(), scratch);
      EXPECT_EQ(FirstDifference(whole, merged), -1);
      EXPECT_GE(FirstDifference(whole, OwnedRows(type, world.n, 120)), first);
    }
  }
}

TEST(SoftmaxCore, APartOfAWholeTileTakesTheScratchThatIsDeclared) {
  const World world(DType::kF32, 2 * kKeyPart, 40);
  constexpr int64_t kRows = SoftmaxCore::kTile;
  const KeySource source = world.Source(kUnlimited, kUnlimited);
  OwnedRows out(DType::kF32, kRows, 40);
  SoftmaxQueries queries;
  queries.q = world.q.rows().Slice(0, kRows);
  queries.out = out.rows();
  std::vector<char> results(2 * world.core.PartBytes(kRows));
  Scratch scratch;
  scratch.Reserve(world.core.ScratchBytes());
  const size_t reserved = scratch.bytes();
  for (int64_t part : {0, 1}) {
    world.core.AttendPart(queries, {&source, 1}, part, results.data() + part * world.core.PartBytes(kRows),
                          scratch);
    EXPECT_EQ(scratch.bytes(), reserved);
    scratch.Reset();
  }
  world.core.MergeParts(queries, 2, results.data(), scratch);
  EXPECT_EQ(scratch.bytes(), reserved);
}

// Rounded, they are what results of the core's type are.
TEST(SoftmaxCore, ResultsMayBeFloats) {
  for (DType type : Types()) {
    const World world(type, 300, 40);
    OwnedRows floats(DType::kF32, 300, 40), rounded(type, 300, 40);
    world.Attend({world.Source(kUnlimited, 0)}, 0, 300, floats);
    for (int64_t r = 0; r < 300; ++r) {
      for (int64_t c = 0; c < 40; ++c) rounded.Set(r, c, static_cast<float>(floats.At(r, c)));
    }
    EXPECT_EQ(FirstDifference(world.Whole(world.Source(kUnlimited, 0)), rounded), -1);
  }
}

TEST(SoftmaxCore, ManyPartsAreTheDefinition) {
  const World world(DType::kF32, 2 * kKeyPart + 300, 16);
  OwnedRows out(DType::kF32, world.n, 16);
  const int64_t first = world.n - 130;
  world.Attend({world.Source(kUnlimited, 0)}, first, world.n, out);
  for (int64_t i : {first, first + 1, world.n - 1}) {
    const auto expected = world.Dense(i, 0, 0, i);
    for (int64_t c = 0; c < 16; ++c) EXPECT_NEAR(out.At(i, c), expected[c], 1e-5);
  }
}

// Whatever rows come along, wherever chunks end, whatever keys come later: the same bits.
TEST(SoftmaxCore, ARowsBitsAreItsOwn) {
  const DistanceBias bias(
      3, 20, [](int h, int64_t d) { return std::sin(static_cast<double>(d)) + h; },
      [](int) { return -0.002; });
  for (DType type : Types()) {
    for (int64_t left : {int64_t{40}, int64_t{300}, kUnlimited}) {
      const World world(type, 900, 40, 3);
      KeySource source = world.Source(left, 0);
      source.bias = &bias;
      const OwnedRows whole = world.Whole(source);
      OwnedRows chunked(type, 900, 120), alone(type, 900, 120);
      KeyValuePages pages(type, 40);
      source.pages = &pages;
      for (int64_t begin = 0, end; begin < 900; begin = end) {
        end = std::min<int64_t>(900, begin + 128 * (1 + begin % 3));
        pages.Append(world.k.rows().Slice(begin, end - begin), world.v.rows().Slice(begin, end - begin));
        world.Attend({source}, begin, end, chunked);
        for (int64_t row = begin; row < end; row += 1 + row % 7) {
          const int64_t rows = std::min(end - row, 1 + row % 5);
          world.Attend({source}, row, row + rows, alone);
          EXPECT_EQ(std::memcmp(alone.rows().at(row), chunked.rows().at(row), 120 * SizeOf(type)), 0) << row;
        }
        pages.DropBefore(end - left);
      }
      EXPECT_EQ(FirstDifference(whole, chunked), -1) << Name(type) << " left " << left;
    }
  }
}

TEST(SoftmaxCore, AStepGivesTheRowOfTheWhole) {
  for (DType type : Types()) {
    const World world(type, 300, 64, 2);
    KeyValuePages pages(type, 64);
    OwnedRows steps(type, 300, 128);
    for (int64_t i = 0; i < 300; ++i) {
      pages.Append(world.k.rows().Slice(i, 1), world.v.rows().Slice(i, 1));
      world.Attend({{&pages, Band{kUnlimited, 0}}}, i, i + 1, steps);
    }
    EXPECT_LE(LargestDifference(world.Whole(world.Source(kUnlimited, 0)), steps),
              type == DType::kF32 ? 1e-5 : 1e-2);
  }
}

TEST(SoftmaxCore, HugeScoresNeitherOverflowNorHideTheLargest) {
  World world(DType::kF32, 400, 8);
  for (int64_t i = 0; i < 400; ++i) {
    for (int64_t t = 0; t < 8; ++t) {
      world.q.Set(i, t, 100);
      world.k.Set(i, t, static_cast<float>(i == 200 ? 100 : -100));
    }
  }
  world.pages = world.Pages(0, 400);
  const OwnedRows out = world.Whole(world.Source(kUnlimited, kUnlimited));
  for (int64_t t = 0; t < 8; ++t) EXPECT_FLOAT_EQ(out.At(399, t), world.v.At(200, t));
}

TEST(SoftmaxCore, ANotANumberReachesJustTheRowsThatSeeIt) {
  for (DType type : Types()) {
    World world(type, 300, 40);
    world.k.Set(200, 5, std::numeric_limits<float>::quiet_NaN());
    world.pages = world.Pages(0, 300);
    const OwnedRows out = world.Whole(world.Source(kUnlimited, 0));
    for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(std::isnan(out.At(i, 7)), i >= 200) << i;
  }
}

TEST(SoftmaxCore, ComputesOnlyBlocksThatSomeRowSees) {
  const auto blocks = [](const World& world, int64_t left, int64_t right) {
    const int64_t before = MicroKernel::Calls();
    world.Whole(world.Source(left, right));
    return MicroKernel::Calls() - before;
  };
  // A tile is 128 rows; 32 keys cost a call for the scores, a block of 256 another for the one panel of
  // values.
  const World world(DType::kF32, 2048, 8);
  EXPECT_EQ(blocks(world, kUnlimited, kUnlimited), 16 * (64 + 8));
  EXPECT_EQ(blocks(world, kUnlimited, 0), 4 * (16 * 17 / 2) + 2 * (8 * 9 / 2));
  // Of a narrow band 64 rows: they see 64 + 127 keys, in one or two blocks.
  EXPECT_LE(blocks(world, 127, 0), 32 * (6 + 2));
  EXPECT_LE(blocks(world, 64, 64), 32 * (6 + 2));
}

TEST(KeyValuePages, ArriveInAnyPiecesAndAreTheSame) {
  for (DType type : Types()) {
    const World world(type, 389, 17);
    KeyValuePages pages(type, 17);
    for (int64_t begin = 0, size = 1; begin < 389; begin += size, size = begin * 7 % 13 + 1) {
      size = std::min<int64_t>(size, 389 - begin);
      pages.Append(world.k.rows().Slice(begin, size), world.v.rows().Slice(begin, size));
    }
    std::string one, many;
    StateArchive a = StateArchive::Saving(&one), b = StateArchive::Saving(&many);
    KeyValuePages(world.pages).Archive(a, 0, 389);
    pages.Archive(b, 0, 389);
    EXPECT_EQ(one, many);
    EXPECT_EQ(FirstDifference(world.Whole({&world.pages}), world.Whole({&pages})), -1);
  }
}

// Every other row, of two heads. Some see nothing of the first keys, some nothing of the second.
TEST(SoftmaxCore, MergesWithWhatOtherKeysGave) {
  for (DType type : Types()) {
    const World world(type, 400, 40, 2);
    const Range first{0, 100}, second{100, 300};
    const auto among = [](Range keys) {
      return [keys](int64_t i) { return Range{std::max(keys.begin, i - 150), std::min(keys.end, i + 1)}; };
    };
    OwnedRows out(type, 400, 80);
    std::vector<float> lse(400 * 2);
    Scratch scratch;
    SoftmaxQueries queries;
    const auto odd = [](const Rows& all) {
      return Rows{all.dtype, all.at(1), 200, all.cols, 2 * all.stride};
    };
    queries.q = odd(world.q.rows());
    queries.out = odd(out.rows());
    queries.heads = 2;
    queries.first = 1;
    queries.step = queries.lse_step = 2;
    queries.lse = lse.data() + 2;
    for (const Range& keys : {first, second}) {
      const KeySource source{.pages = &world.pages, .sees = among(keys)};
      world.core.Attend(queries, {&source, 1}, scratch);
      queries.merges = true;
    }
    for (int64_t row : {1, 99, 101, 199, 251, 299, 301, 399}) {
      for (int head : {0, 1}) {
        const auto dense = world.Dense(row, head, row - 150, std::min<int64_t>(row, 299));
        EXPECT_NEAR(lse[2 * row + head], dense[40], type == DType::kF32 ? 1e-5 : 1e-2) << row;
        for (int64_t c = 0; c < 40; ++c)
          ASSERT_NEAR(out.At(row, head * 40 + c), dense[c], Tolerance(type)) << row << " " << c;
      }
    }
  }
}

// By many rows and by few.
TEST(KeyValuePages, SmallOnesAreReadAsLargeOnes) {
  for (DType type : Types()) {
    World world(type, 1000, 40);
    KeyValuePages small(type, 40, true, KeyValuePages::kSmallPage);
    for (int64_t begin = 0; begin < 1000; begin += 250)
      small.Append(world.k.rows().Slice(begin, 250), world.v.rows().Slice(begin, 250));
    EXPECT_EQ(FirstDifference(world.Whole({&world.pages}), world.Whole({&small})), -1);
    OwnedRows large_pages(type, 1000, 40), small_pages = large_pages;
    world.Attend({{&world.pages, Band{700, 0}}}, 990, 993, large_pages);
    world.Attend({{&small, Band{700, 0}}}, 990, 993, small_pages);
    EXPECT_EQ(FirstDifference(large_pages, small_pages), -1);
    StateArchive archive = StateArchive::Measuring();
    small.DropBefore(100);
    small.Archive(archive, small.begin(), 1000);
    EXPECT_EQ(small.begin(), 96);
    EXPECT_EQ(archive.measured(), KeyValuePages::Bytes(type, 40, 96, 1000, true, 32));
    const int64_t full = KeyValuePages::Bytes(type, 40, 0, 32, true, 32), loose = 2 * 40 * SizeOf(type);
    EXPECT_EQ(archive.measured(), 28 * full + 8 * loose);
  }
}

TEST(KeyValuePages, HoldWhatTheClosedFormSays) {
  for (DType type : Types()) {
    for (int64_t n : {0, 1, 127, 128, 129, 1000}) {
      World world(type, n, 40);
      StateArchive archive = StateArchive::Measuring();
      world.pages.Archive(archive, 0, n);
      EXPECT_EQ(archive.measured(), KeyValuePages::Bytes(type, 40, 0, n)) << n;
    }
  }
}

}  // namespace
}  // namespace heed
