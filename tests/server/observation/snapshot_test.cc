#include "server/observation/snapshot.h"

#include <cmath>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "server/observation/families.h"

namespace heed {
namespace {

using Labels = std::map<std::string, std::string>;

TEST(Snapshot, HoldsWhatEachTypeSays) {
  auto registry = std::make_shared<prometheus::Registry>();
  Counter(*registry, "tokens_total", "Tokens.", {{"model", "m"}}).Increment(3);
  Gauge(*registry, "threads", "Threads.", {}).Set(-1.5);
  prometheus::Histogram& took = Histogram(*registry, "took_seconds", "Time.", {}, {1, 2});
  for (const double seconds : {0.5, 2.0, 7.0}) took.Observe(seconds);
  const std::vector<FamilySnapshot> families = Snapshot({registry});

  ASSERT_EQ(families.size(), 3u);
  EXPECT_EQ(families[0].name, "tokens_total");
  EXPECT_EQ(families[0].help, "Tokens.");
  EXPECT_EQ(families[0].type, FamilySnapshot::Type::kCounter);
  EXPECT_EQ(families[0].metrics.at(0).labels, (Labels{{"model", "m"}}));
  EXPECT_EQ(std::get<double>(families[0].metrics[0].value), 3);
  EXPECT_EQ(families[1].type, FamilySnapshot::Type::kGauge);
  EXPECT_EQ(std::get<double>(families[1].metrics.at(0).value), -1.5);
  EXPECT_EQ(families[2].type, FamilySnapshot::Type::kHistogram);
  const auto& histogram = std::get<HistogramSnapshot>(families[2].metrics.at(0).value);
  EXPECT_EQ(histogram.count, 3);
  EXPECT_EQ(histogram.sum, 9.5);
  ASSERT_EQ(histogram.buckets.size(), 3u);
  EXPECT_EQ(histogram.buckets[0].cumulative_count, 1);
  EXPECT_EQ(histogram.buckets[1].upper_bound, 2);
  EXPECT_EQ(histogram.buckets[1].cumulative_count, 2);
  EXPECT_TRUE(std::isinf(histogram.buckets[2].upper_bound));
  EXPECT_EQ(histogram.buckets[2].cumulative_count, 3);
}

TEST(Snapshot, PrefixesChooseFamiliesOfAllCollectables) {
  auto one = std::make_shared<prometheus::Registry>(), other = std::make_shared<prometheus::Registry>();
  for (const char* name : {"heed_a", "heed_b", "process_c"}) Gauge(*one, name, "A gauge.", {});
  Gauge(*other, "heed_d", "A gauge.", {});
  auto names = [&](const std::vector<std::string>& prefixes) {
    std::vector<std::string> found;
    for (const FamilySnapshot& family : Snapshot({one, other}, prefixes)) found.push_back(family.name);
    return found;
  };
  EXPECT_EQ(names({"heed_b", "heed_d"}), (std::vector<std::string>{"heed_b", "heed_d"}));
  EXPECT_EQ(names({"heed_", "heed_a"}), (std::vector<std::string>{"heed_a", "heed_b", "heed_d"}));
  EXPECT_EQ(names({}).size(), 4u);
  EXPECT_EQ(names({"seed_"}).size(), 0u);
}

}  // namespace
}  // namespace heed
