// The text proto: its defaults, and what is said of its mistakes.
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/config.h"

namespace heed {
namespace {

using testing::HasSubstr;

absl::Status Check(const std::string& text) {
  auto config = ParseConfig(text, "heed.textproto");
  return config.ok() ? CheckConfig(*config) : config.status();
}

std::string Message(const std::string& text) { return std::string(Check(text).message()); }

TEST(Config, HasADefaultForEverything) {
  EXPECT_EQ(Check(""), absl::OkStatus());
  EXPECT_EQ(ParseConfig("", "")->limits().text_bytes(), 1 << 20);
}

TEST(Config, NamesTheLineOfWhatItDoesNotKnow) {
  EXPECT_THAT(Message("threads: 2\nthreds: 3\n"), HasSubstr("heed.textproto:2:"));
  EXPECT_THAT(Message("threads: 2\nthreds: 3\n"), HasSubstr("threds"));
  EXPECT_THAT(Message("precision: FP8"), HasSubstr("FP8"));
  EXPECT_THAT(Message("threads: \"many\""), HasSubstr("heed.textproto:1:"));
}

TEST(Config, NamesTheFieldTheValueAndTheLimit) {
  EXPECT_EQ(Message("threads: 2000"), "threads is 2000, it must be 0 to 1024");
  EXPECT_EQ(Message("limits { deadline_seconds: 0 }"), "limits.deadline_seconds is 0, it must be 1 to 86400");
  EXPECT_EQ(Message("limits { stall_seconds: nan }"), "limits.stall_seconds is nan, it must be 0.1 to 3600");
  EXPECT_EQ(Message("models { name: \"a\" folder: \"f\" scheduling { max_queued: 0 } }"),
            "models[0].scheduling.max_queued is 0, it must be 1 to 65536");
}

TEST(Config, ChecksNamesAndAddresses) {
  EXPECT_THAT(Message("models { name: \"../etc\" folder: \"f\" }"), HasSubstr("models[0].name is '../etc'"));
  EXPECT_THAT(Message("models { name: \"a\" }"), HasSubstr("models[0].folder is empty"));
  EXPECT_THAT(Message("models { name: \"a\" folder: \"f\" } models { name: \"a\" folder: \"g\" }"),
              HasSubstr("models[1].name is 'a', which another model has"));
  for (const char* address :
       {"localhost", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1"}) {
    EXPECT_THAT(Message(Cat("address: \"", address, "\"")), HasSubstr("it must be HOST:PORT")) << address;
  }
  EXPECT_EQ(Check("address: \"unix:/run/heed.sock\""), absl::OkStatus());
  EXPECT_EQ(Check("metrics_address: \"\""), absl::OkStatus());
}

TEST(Config, ChecksWhereTracesGoAndHowManyThereAre) {
  for (const char* fine : {"http://127.0.0.1:4317", "https://collector.example.org:4317", ""})
    EXPECT_EQ(Check(Cat("traces { endpoint: \"", fine, "\" sampling_ratio: 0.25 }")), absl::OkStatus())
        << fine;
  for (const char* wrong :
       {"127.0.0.1:4317", "http://127.0.0.1", "http://:4317", "http://127.0.0.1:0", "http://127.0.0.1:65536",
        "http://127.0.0.1:4317/v1/traces", "http://you@127.0.0.1:4317", "http://[::1]:4317",
        "ftp://host:4317", "http://", "http://a b:1"}) {
    EXPECT_THAT(Message(Cat("traces { endpoint: \"", wrong, "\" }")),
                HasSubstr(Cat("traces.endpoint is '", wrong, "', it must be http://HOST:PORT")))
        << wrong;
  }
  EXPECT_EQ(Message("traces { sampling_ratio: 1.5 }"), "traces.sampling_ratio is 1.5, it must be 0 to 1");
  EXPECT_EQ(Message("traces { sampling_ratio: nan }"), "traces.sampling_ratio is nan, it must be 0 to 1");
}

class ModelsFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ + "/polarity");
    std::filesystem::create_directories(folder_ + "/no-model");
    std::ofstream(folder_ + "/polarity/config.json") << "{}";
    std::ofstream(folder_ + "/README.md") << "models";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = testing::TempDir() + "heed-models";
};

TEST_F(ModelsFolder, IsServedByTheNamesOfItsFolders) {
  config::v1::ServerConfig config;
  config.set_models_folder(folder_);
  config.set_precision(config::v1::PRECISION_F32);
  auto complete = WithModels(config);
  ASSERT_TRUE(complete.ok()) << complete.status();
  ASSERT_EQ(complete->models_size(), 1);
  EXPECT_EQ(complete->models(0).name(), "polarity");
  EXPECT_EQ(complete->models(0).version(), "1");
  EXPECT_EQ(complete->models(0).folder(), folder_ + "/polarity");
  EXPECT_EQ(ToSpec(complete->models(0)).load.precision, Precision::kF32);
}

TEST_F(ModelsFolder, GivesWayToAModelOfTheSameName) {
  config::v1::ServerConfig config;
  config.set_models_folder(folder_);
  auto* model = config.add_models();
  model->set_name("polarity");
  model->set_folder("/elsewhere");
  auto complete = WithModels(config);
  ASSERT_TRUE(complete.ok());
  ASSERT_EQ(complete->models_size(), 1);
  EXPECT_EQ(complete->models(0).folder(), "/elsewhere");
}

TEST(Config, AModelsOwnSchedulingStandsAgainstTheServers) {
  auto config =
      WithModels(*ParseConfig("scheduling { max_queued: 7 } models { name: \"a\" folder: \"f\" } "
                              "models { name: \"b\" folder: \"g\" scheduling { max_queued: 9 } }",
                              ""));
  EXPECT_EQ(ToSpec(config->models(0)).scheduling.max_queued_jobs, 7);
  EXPECT_EQ(ToSpec(config->models(1)).scheduling.max_queued_jobs, 9);
}

TEST(Config, AFolderThatIsNotThereIsNamed) {
  config::v1::ServerConfig config;
  config.set_models_folder("/nowhere");
  EXPECT_THAT(std::string(WithModels(config).status().message()),
              HasSubstr("models_folder is '/nowhere', it cannot be read"));
}

TEST(Config, TlsIsACertificateAndItsKey) {
  EXPECT_EQ(Check("tls { certificate: \"a\" key: \"b\" }"), absl::OkStatus());
  EXPECT_EQ(Message("tls { certificate: \"a\" }"), "tls.key is empty, TLS needs a certificate and its key");
  EXPECT_EQ(Message("tls { client_authority: \"a\" key: \"b\" }"),
            "tls.certificate is empty, TLS needs a certificate and its key");
}

TEST(Config, WritesNumbersThatAreRead) {
  EXPECT_EQ(Message("scheduling { state_bytes: 17592186044417 }"),
            "scheduling.state_bytes is 17592186044417, it must be 0 to 17592186044416");
}

TEST(Config, ChecksTheBucketsOfDurations) {
  EXPECT_EQ(Check("metrics { duration_buckets: [0.001, 0.5, 10] }"), absl::OkStatus());
  EXPECT_EQ(Message("metrics { duration_buckets: [0.5, 0.5] }"),
            "metrics.duration_buckets has 0.5 after 0.5, bounds must be finite, ascending and above 0");
  for (const char* bad : {"0", "-1", "nan", "inf"})
    EXPECT_THAT(Message(Cat("metrics { duration_buckets: ", bad, " }")), HasSubstr("above 0")) << bad;
  std::string many;
  for (int i = 1; i <= 65; ++i) many += Cat("duration_buckets: ", i, " ");
  EXPECT_EQ(Message(Cat("metrics { ", many, " }")),
            "metrics.duration_buckets has 65 bounds, at most 64 are possible");
}

TEST_F(ModelsFolder, AModelsSchedulingGoesBeforeTheServersFieldByField) {
  auto config = ParseConfig(Cat("scheduling { max_queued: 7 max_running: 8 } models { name: \"a\" folder: \"",
                                folder_, "/polarity\" scheduling { max_running: 9 } }"),
                            "");
  ASSERT_TRUE(config.ok()) << config.status();
  auto complete = WithModels(*config);
  ASSERT_TRUE(complete.ok()) << complete.status();
  EXPECT_EQ(complete->models(0).scheduling().max_queued(), 7);
  EXPECT_EQ(complete->models(0).scheduling().max_running(), 9);
  EXPECT_EQ(complete->models(0).scheduling().max_batch_tokens(), 4096);
}

TEST_F(ModelsFolder, ModelsShareHalfOfTheMemoryThatIsFreeBesideTheirWeights) {
  constexpr int64_t kMiB = 1 << 20;
  std::ofstream(folder_ + "/polarity/model.safetensors") << std::string(3 * kMiB, 'w');
  auto shares = [&](int64_t free) {
    auto config = ParseConfig(
        Cat("models { name: \"a\" folder: \"", folder_, "/polarity\" } ", "models { name: \"b\" folder: \"",
            folder_, "/none\" } ", "models { name: \"c\" folder: \"", folder_,
            "/none\" scheduling { state_bytes: 12345 } }"),
        "");
    EXPECT_TRUE(config.ok()) << config.status();
    const auto complete = WithModels(*config, free);
    std::vector<int64_t> bytes;
    for (const auto& model : complete->models()) bytes.push_back(model.scheduling().state_bytes());
    return bytes;
  };
  EXPECT_EQ(shares(1003 * kMiB), (std::vector<int64_t>{250 * kMiB, 250 * kMiB, 12345}));
  EXPECT_EQ(shares(kMiB), (std::vector<int64_t>{64 * kMiB, 64 * kMiB, 12345}));
  EXPECT_EQ(shares(std::numeric_limits<int64_t>::max())[0], kMiB << 20);
}

}  // namespace
}  // namespace heed
