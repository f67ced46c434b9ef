// The options of "softmax" that change scores: norms, caps, sinks, rotation; beyond what all examples are
// tried for.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/attention/softmax_core.h"
#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

std::vector<AttentionExample> With(const std::string& option) {
  std::vector<AttentionExample> examples = ExamplesOf("softmax");
  std::erase_if(examples, [&](const AttentionExample& example) {
    return example.options.find(option) == std::string::npos;
  });
  return examples;
}

// The rounding of bf16 is up to so many times that of f32.
TEST(SoftmaxOptions, AreTheDefinitionInBf16) {
  for (const char* option : {"qk_norm", "scaling", "soft_cap", "learned_sink", "clip_qkv"}) {
    ASSERT_FALSE(With(option).empty()) << option;
    for (const AttentionExample& example : With(option)) {
      const Layer layer(example, Supported(Precision::kBf16));
      ExpectDefinition(Whole(layer, 300), {0, 1, 127, 128, 299}, {.bounds = 8000});
    }
  }
}

// Few rows of many keys attend part by part: a sink counts once.
TEST(SoftmaxOptions, StepsThatReadManyKeysAreTheWhole) {
  for (const char* options : {R"({"learned_sink": true})", R"({"soft_cap": 2})",
                              R"({"qk_norm": {"after_rope": true}, "rope": {}})"}) {
    const Layer layer({"softmax", options, Place::kDecoder}, Precision::kF32);
    EXPECT_LE(DifferenceOfSteps(layer, 9000, 8980, 4), 1e-5) << options;
    ExpectDefinition(Whole(layer, 4500), {4499});
  }
}

// exp(score) over the sum of all, the sink's among them.
TEST(SoftmaxOptions, WeightsKnowOfCapsAndSinks) {
  for (const char* option : {"soft_cap", "learned_sink"}) {
    for (const AttentionExample& example : With(option)) {
      const Layer layer(example, Precision::kF32);
      Passage passage(layer, 200);
      passage.AskForWeights();
      passage.Extend(*layer.attention().Start(), 0, 200);
      const Sees sees = SeesOf("softmax");
      for (int head = 0; head < example.num_heads; ++head) {
        const int64_t i = 199, keys = layer.causal() ? 200 : passage.source();
        const bool sink = layer.options().value("learned_sink", false);
        double sum = sink ? std::exp(layer.tensor("sink.weight")[head]) : 0;
        std::vector<double> weights(passage.source());
        for (int64_t j = 0; j < keys; ++j) {
          const Pair at{&passage, i, j, head};
          if (sees(at)) sum += weights[j] = std::exp(SoftmaxScore(at).value);
        }
        for (int64_t j = 0; j < passage.source(); ++j)
          ASSERT_NEAR(passage.weights(head, i)[j], weights[j] / sum, 1e-5) << example.options << " key " << j;
      }
    }
  }
}

// A sink far above all scores takes everything, one far below changes nothing.
TEST(SoftmaxOptions, SinksMayBeOfAnySize) {
  for (DType type : {DType::kF32, ActivationType(Supported(Precision::kBf16))}) {
    const OwnedRows q = OwnedRows::Random(type, 40, 16, 1), kv = OwnedRows::Random(type, 40, 16, 2);
    KeyValuePages pages(type, 16);
    pages.Append(kv.rows(), kv.rows());
    const SoftmaxCore core(type, 16, 0.25);
    const auto attend = [&](const float* sinks) {
      OwnedRows out(type, 40, 16);
      Scratch scratch;
      SoftmaxQueries queries{.q = q.rows(), .out = out.rows(), .sinks = sinks};
      const KeySource source{&pages, Band{kUnlimited, -1}};  // the first row sees nothing
      core.Attend(queries, {&source, 1}, scratch);
      return out;
    };
    const float low = -1e4f, high = 1e4f;
    EXPECT_EQ(FirstDifference(attend(&low), attend(nullptr)), -1);
    EXPECT_EQ(FirstDifference(attend(&high), OwnedRows(type, 40, 16)), -1);
  }
}

TEST(SoftmaxOptions, RefuseWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, R"({"qk_norm": 3})", {"layers[0].attention.qk_norm"}},
      {Place::kDecoder, R"({"qk_norm": {"type": "batch"}})", {"qk_norm.type", "batch", "layer"}},
      {Place::kDecoder, R"({"qk_norm": {"over": "none"}})", {"qk_norm.over", "none", "all"}},
      {Place::kDecoder, R"({"qk_norm": {"eps": 2}})", {"qk_norm.eps", "2", "above 1"}},
      {Place::kDecoder, R"({"qk_norm": {"bias": true}})", {"qk_norm: bias", "layer"}},
      {Place::kDecoder, R"({"qk_norm": {"after_rope": true}})", {"qk_norm: after_rope", "no rope"}},
      {Place::kDecoder,
       R"({"qk_norm": {"after_rope": true, "over": "all"}, "rope": {}})",
       {"after_rope", "head"}},
      {Place::kDecoder, R"({"qk_norm": {"per_head": true, "over": "all"}})", {"per_head", "all"}},
      {Place::kDecoder, R"({"qk_norm": {"weights": true}})", {"qk_norm", "weights"}},
      {Place::kDecoder, R"({"soft_cap": 0})", {"attention.soft_cap", "0", "below"}},
      {Place::kDecoder, R"({"soft_cap": 3, "shaw": {"max_distance": 4}})", {"shaw", "not with soft_cap"}},
      {Place::kDecoder, R"({"clip_qkv": -2})", {"attention.clip_qkv", "-2", "below"}},
      {Place::kDecoder, R"({"clip_normed": 2})", {"attention.clip_normed", "2"}},
      {Place::kDecoder, R"({"alibi": true, "alibi_scale": 0})", {"attention.alibi_scale", "0", "below"}},
      {Place::kDecoder, R"({"position_scale": {"length": 4}})", {"position_scale", "beta is missing"}},
      {Place::kDecoder, R"({"position_scale": {"beta": 0.1, "length": 0}})", {"position_scale.length", "0"}},
      {Place::kDecoder,
       R"({"position_scale": {"beta": 0.1, "length": 4}, "shaw": {"max_distance": 4}})",
       {"shaw", "not with position_scale"}},
      {Place::kDecoder, R"({"value_dim": 40})", {"attention.value_dim", "40", "above"}},
      {Place::kDecoder, R"({"value_dim": 4, "v_norm": true})", {"value_dim", "4", "not normed"}},
      {Place::kCross, R"({"value_dim": 4})", {"value_dim", "4", "own values"}},
      {Place::kDecoder, R"({"value_dim": 4, "output_gate": true})", {"value_dim", "4", "output_gate"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "proportional"}}})",
       {"rope.scaling", "share is missing"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "longrope", "factors": [1, 2]}}})",
       {"rope.scaling", "factors: no list of 4 numbers"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "longrope", "factors": [1, 2, 0, 4]}}})",
       {"factors[2]: 0"}},
      {Place::kDecoder, R"({"output_gate": "heads"})", {"output_gate", "heads", "none of false"}},
      {Place::kDecoder, R"({"learned_sink": 1})", {"attention.learned_sink", "1"}},
      {Place::kDecoder, R"({"rope": {"scaling": {}}})", {"rope.scaling", "type is missing"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "dynamic"}}})",
       {"rope.scaling.type", "dynamic", "yarn"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "linear"}}})",
       {"rope.scaling", "factor is missing"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "linear", "factor": 0.5}}})",
       {"scaling.factor", "0.5", "below 1"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "linear", "factor": 2, "beta_fast": 3}}})",
       {"rope.scaling", "beta_fast"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "yarn", "factor": 2}}})",
       {"rope.scaling", "original_max_position_embeddings is missing"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 64, "beta_fast": 1, "beta_slow": 2}}})",
       {"beta_slow", "2", "beta_fast 1"}},
      {Place::kDecoder,
       R"({"rope": {"theta": 1, "scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 64}}})",
       {"theta is 1"}},
      {Place::kDecoder,
       R"({"rope": {"scaling": {"type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 64}}})",
       {"high_freq_factor", "4", "low_freq_factor"}},
  };
  const Layer layer({"softmax", "{}", Place::kDecoder}, Precision::kF32);
  ExpectRefused(layer, layer.scope(), refusals);
}

}  // namespace
}  // namespace heed
