// What is predicted of a model, from limits that the test makes up.
#include "client/cli/prediction.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed::cli {
namespace {

using testing::HasSubstr;

// A dense decoder of 1000 weights in products; a token looks at those before it for nothing.
class Dense : public Model {
 public:
  explicit Dense(double experts = 1) : active_(1000 / experts) {
    info_.architecture = Architecture::kDecoder;
    info_.head = Head::kLanguageModel;
    info_.decode = DecodeClass::kExact;
    info_.precision = Precision::kBf16;
    info_.weight_bytes = 2000;
    info_.embedding_bytes = 50;
  }
  void become_encoder() { info_.architecture = Architecture::kEncoder; }
  std::unique_ptr<Sequence> Start() const override { return nullptr; }
  std::unique_ptr<Pass> Begin(std::vector<Work>*) const override { return nullptr; }
  int64_t StateBytes(int64_t tokens, int64_t, int64_t) const override { return 10 * tokens; }
  int64_t WorkspaceBytes(const PassSize&) const override { return 0; }
  double Cost(int64_t n, int64_t, int64_t) const override { return active_ * static_cast<double>(n); }

 private:
  const double active_;
};

MachineLimits Machine() { return {.operations = {4e3, 8e3, 0}, .read_bytes = 1e3}; }

TEST(Prediction, IsWhatMemoryOrArithmeticAllows) {
  const auto predictions = Predict(Dense(), Machine(), /*length=*/100);
  ASSERT_EQ(predictions.size(), 2u) << "there are no int8 kernels";
  const Prediction &f32 = predictions[0], &bf16 = predictions[1];
  EXPECT_TRUE(f32.estimated);
  EXPECT_EQ(f32.weight_bytes, 4050);
  EXPECT_FALSE(bf16.estimated);
  EXPECT_EQ(bf16.weight_bytes, 2050);
  EXPECT_DOUBLE_EQ(f32.read_rows, 100 / (2 * 100e3 / 4e3)) << "arithmetic takes longer than 4 s of reading";
  EXPECT_DOUBLE_EQ(bf16.read_rows, 100 / (2 * 100e3 / 8e3));
  EXPECT_DOUBLE_EQ(f32.made_tokens, 1 / (4000 + 1000.0) * 1e3) << "weights and state are read for each token";
  EXPECT_DOUBLE_EQ(bf16.made_tokens, 1 / (2000 + 1000.0) * 1e3);
}

TEST(Prediction, OfExpertsOnlyThoseThatATokenChoosesAreRead) {
  const auto predictions = Predict(Dense(/*experts=*/4), Machine(), /*length=*/1);
  EXPECT_DOUBLE_EQ(predictions[1].made_tokens, 1 / (500 + 10.0) * 1e3);
}

TEST(Prediction, SaysWhatWasMeasuredAndWhatIsAnEstimate) {
  Dense model;
  Forecast forecast{.threads = 2, .machine = Machine(), .length = 100};
  forecast.predictions = Predict(model, forecast.machine, forecast.length);
  const std::string text = ForecastText(forecast, model.info());
  EXPECT_THAT(text, HasSubstr("about 4.05kB"));
  EXPECT_THAT(text, HasSubstr("makes, after 100"));
  EXPECT_THAT(text, HasSubstr("0.33 tokens/s"));
  EXPECT_EQ(ForecastJson(forecast)["predictions"][1]["weight_bytes"], 2050);
  model.become_encoder();
  forecast.predictions = Predict(model, forecast.machine, forecast.length);
  EXPECT_EQ(forecast.predictions[0].made_tokens, 0);
  EXPECT_THAT(ForecastText(forecast, model.info()), testing::Not(HasSubstr("makes")));
}

}  // namespace
}  // namespace heed::cli
