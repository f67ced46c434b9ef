#include "engine/attention/cluster_members.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::ElementsAreArray;

// The definition: a stable sort.
std::vector<int32_t> Best(std::vector<float> scores, int64_t tokens, int64_t window) {
  std::vector<int32_t> order(tokens);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](int32_t i) { return scores[i]; });
  order.resize(std::min(window, tokens));
  std::ranges::sort(order);
  return order;
}

// Few different ones, so that many are equal.
std::vector<float> Scores(int64_t tokens, int different, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> scores(tokens);
  for (float& x : scores) x = static_cast<float>(static_cast<int>(random() % different)) - 3;
  if (tokens > 2) scores[2] = -std::numeric_limits<float>::infinity();
  return scores;
}

std::string Saved(ClusterMembers& members, int64_t tokens) {
  std::string bytes;
  StateArchive archive = StateArchive::Saving(&bytes);
  members.Archive(archive, tokens);
  return bytes;
}

TEST(ClusterMembers, OneByOneOrAtOnceAreTheBestOfEqualOnesTheEarlier) {
  for (int64_t window : {1, 7, 130, 300}) {
    for (int different : {1, 4, 1000}) {
      const std::vector<float> first = Scores(400, different, 1), second = Scores(400, different, 2);
      ClusterMembers steps(2, window), whole(2, window);
      Scratch scratch;
      for (int64_t token = 0; token < 400; ++token) {
        steps.Grow(token + 1);
        for (int64_t cluster : {0, 1}) {
          const std::vector<float>& scores = cluster == 0 ? first : second;
          const std::vector<int32_t> best = Best(scores, token + 1, window);
          EXPECT_EQ(steps.Add(cluster, token, scores[token]), best.back() == token);
          ASSERT_THAT(steps.Of(cluster, token + 1), ElementsAreArray(best)) << "window " << window;
          if (token % 50 != 0) continue;
          whole.Grow(token + 1);
          whole.Choose(cluster, scores.data(), token + 1, scratch);
          ASSERT_THAT(whole.Of(cluster, token + 1), ElementsAreArray(best)) << "window " << window;
        }
      }
    }
  }
}

TEST(ClusterMembers, GoOnAfterTheyWereChosenAtOnceOrRestored) {
  const std::vector<float> scores = Scores(200, 50, 3);
  for (int64_t from : {1, 30, 31, 140}) {
    ClusterMembers chosen(1, 30), restored(1, 30);
    Scratch scratch;
    chosen.Grow(from);
    chosen.Choose(0, scores.data(), from, scratch);
    const std::string bytes = Saved(chosen, from);
    StateArchive archive = StateArchive::Restoring(bytes);
    restored.Archive(archive, from);
    ASSERT_TRUE(archive.Finish().ok());
    for (int64_t token = from; token < 200; ++token) {
      chosen.Grow(token + 1);
      restored.Grow(token + 1);
      chosen.Add(0, token, scores[token]);
      restored.Add(0, token, scores[token]);
    }
    EXPECT_THAT(chosen.Of(0, 200), ElementsAreArray(Best(scores, 200, 30)));
    EXPECT_THAT(restored.Of(0, 200), ElementsAreArray(Best(scores, 200, 30)));
  }
}

TEST(ClusterMembers, ThatDoNotAscendOrAreNoTokensAreRefused) {
  const std::vector<float> scores = Scores(40, 50, 4);
  ClusterMembers members(1, 8);
  Scratch scratch;
  members.Grow(40);
  members.Choose(0, scores.data(), 40, scratch);
  const std::string bytes = Saved(members, 40);
  for (int32_t token : {-1, 40, 1 << 30}) {
    for (int64_t place : {0, 3, 7}) {
      std::string broken = bytes;
      std::memcpy(broken.data() + broken.size() - (8 - place) * sizeof token, &token, sizeof token);
      ClusterMembers victim(1, 8);
      StateArchive archive = StateArchive::Restoring(broken);
      victim.Archive(archive, 40);
      EXPECT_FALSE(archive.Finish().ok()) << token << " at " << place;
    }
  }
}

TEST(ClusterMembers, HoldWhatTheyDeclare) {
  ClusterMembers members(5, 300);
  for (int64_t tokens : {1, 128, 129, 300, 1000}) {
    members.Grow(tokens);
    StateArchive archive = StateArchive::Measuring();
    members.Archive(archive, tokens);
    EXPECT_EQ(archive.measured(), ClusterMembers::Bytes(5, 300, tokens));
    EXPECT_LE(archive.measured(), 5 * (8 + 8 * std::min<int64_t>(300, tokens + 127)));
  }
}

}  // namespace
}  // namespace heed
