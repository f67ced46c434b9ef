// What a pass holds is known before it runs.
#include "engine/models/workspace.h"

#include <vector>

#include "engine/models/transformer.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// What the model keeps of a pass's workspaces: all of them, where they are small.
int64_t KeptBytes(const Model& model) {
  return static_cast<const Transformer&>(model).workspaces().kept_bytes();
}

// One pass with two works, each of so many rows.
void Run(const Model& model, int64_t rows, int64_t source, int threads_count) {
  Threads threads(threads_count);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  for (int i = 0; i < 2; ++i) {
    sequences.push_back(model.Start());
    Work work{.sequence = sequences.back().get(), .tokens = std::vector<int32_t>(rows, 3)};
    work.source.assign(source, 4);
    if (model.info().max_global_tokens > 0) work.labels.assign(source > 0 ? source : rows, 1);
    for (int32_t r = 0; r < rows; ++r) work.wanted.push_back(r);
    work.read = [](int32_t, std::span<const float>) {};
    batch.push_back(std::move(work));
  }
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

void ExpectAsDeclared(const Json& config, Precision precision) {
  const bool sourced = config["architecture"] == "encoder-decoder";
  for (int64_t rows : {1, 70, 300}) {
    for (int threads : {1, 3}) {
      RandomModel model = MakeRandomModel(config, precision);
      const int64_t source = sourced ? 2 * rows : 0;
      Run(*model, rows, source, threads);
      const int64_t declared = model->WorkspaceBytes(
          {.rows = 2 * rows, .source_rows = 2 * source, .answers = 2 * rows, .threads = threads});
      EXPECT_LE(KeptBytes(*model), declared) << config.dump() << rows << " rows, " << threads << " threads";
      EXPECT_GE(KeptBytes(*model), declared * 0.95) << config.dump() << rows << " rows, " << threads;
    }
  }
}

TEST(Workspace, IsWhatIsDeclared) {
  const Json attentions[] = {
      {{"type", "full"}},
      {{"type", "softmax"}, {"shaw", {{"max_distance", 100}}}},
      {{"type", "linear"}},
      {{"type", "sliding_window"}, {"window", 16}},
      {{"type", "sliding_window"}, {"window", 16}, {"global_tokens", {0}}},
      {{"type", "lsh"}, {"chunk_length", 16}, {"num_hashes", 2}, {"num_buckets", 8}},
      {{"type", "nystrom"}, {"num_landmarks", 20}, {"conv_kernel", 9}},
      {{"type", "fourier"}},
      {{"type", "routing"}, {"clusters", 4}, {"window", 16}, {"local_heads", 1}, {"local_window", 8}},
      {{"type", "sinkhorn"}, {"block", 8}, {"max_blocks", 300}},
      {{"type", "bigbird"}, {"block_size", 8}, {"num_blocks", 300}, {"num_random_blocks", 2}},
  };
  for (const Json& attention : attentions) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      ExpectAsDeclared(SmallConfig("encoder", "lm", attention), precision);
    }
  }
  const Json feed_forwards[] = {
      {{"type", "moe"}, {"experts", 9}, {"top_k", 2}},
      {{"type", "pkm"}, {"n_keys", 300}, {"d_k", 40}, {"top_k", 30}},
      {{"type", "none"}},
  };
  for (const Json& feed_forward : feed_forwards) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      Json config = SmallConfig("decoder", "lm");
      config["layers"][1]["ffn"] = feed_forward;
      ExpectAsDeclared(config, precision);
    }
  }
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    ExpectAsDeclared(SmallConfig("decoder", "lm",
                                 {{"type", "compressive"},
                                  {"segment", 16},
                                  {"memory", 32},
                                  {"compressed_memory", 20},
                                  {"rate", 2},
                                  {"clamp_length", 30}}),
                     precision);
  }
  ExpectAsDeclared(SmallConfig("decoder", "lm"), Precision::kF32);
  ExpectAsDeclared(SmallConfig("decoder", "lm", {{"type", "sparse_strided"}, {"stride", 20}}),
                   Precision::kF32);
  ExpectAsDeclared(SmallConfig("decoder", "lm",
                               {{"type", "image_local_2d"},
                                {"height", 30},
                                {"width", 11},
                                {"query_block", {4, 6}},
                                {"memory", {2, 3}}}),
                   Precision::kBf16);
  ExpectAsDeclared(SmallConfig("encoder-decoder", "lm"), Precision::kF32);
  ExpectAsDeclared(SmallConfig("encoder-decoder", "lm", {{"type", "linear"}}), Precision::kBf16);
}

TEST(Workspace, GrowsWithTheRowsOfAWholeInput) {
  RandomModel model = MakeRandomModel(SmallConfig("encoder", "classification"));
  const int64_t row = (model->WorkspaceBytes({.rows = 65536}) - model->WorkspaceBytes({.rows = 0})) / 65536;
  EXPECT_GE(row, (32 + 3 * 32 + 32) * 4) << "the residual stream, q, k and v, and what attention gives";
  EXPECT_LE(row, (32 + 3 * 32 + 32) * 4 + 300);
}

TEST(Workspace, WhatIsKeptIsBounded) {
  RandomModel model = MakeRandomModel(SmallConfig("encoder", "classification"));
  const Stack& stack = static_cast<const Transformer&>(*model).stack();
  Workspaces workspaces;
  const auto take = [&](int64_t rows) { return workspaces.Take(stack, Precision::kF32, {.rows = {rows}}); };
  auto first = take(80'000), second = take(80'000), small = take(10);
  EXPECT_GT(first->bytes() + second->bytes(), Workspaces::kKeepBytes);
  const int64_t large = first->bytes(), little = small->bytes();
  EXPECT_LT(large, Workspaces::kKeepBytes);
  workspaces.Return(std::move(first));
  workspaces.Return(std::move(second));
  EXPECT_EQ(workspaces.kept_bytes(), large) << "one of them is freed";
  workspaces.Return(std::move(small));
  EXPECT_EQ(workspaces.kept_bytes(), large + little);
  EXPECT_EQ(take(1)->bytes(), little);
  EXPECT_EQ(workspaces.kept_bytes(), large);
}

}  // namespace
}  // namespace heed
