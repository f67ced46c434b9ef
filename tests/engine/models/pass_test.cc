// Passes and sequences of real models with random weights.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/status.h"
#include "engine/models/native.h"
#include "engine/models/stack_pass.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/engine/models/state.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;
using Output = std::vector<float>;

Work Last(Sequence* sequence, std::vector<int32_t> tokens, Output* out) {
  Work work{.sequence = sequence, .tokens = std::move(tokens)};
  work.wanted = {static_cast<int32_t>(work.tokens.size()) - 1};
  work.read = [out](int32_t, std::span<const float> row) { out->assign(row.begin(), row.end()); };
  return work;
}

void RunPass(const Model& model, std::vector<Work>& batch, Threads& threads) {
  auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

// The model of a golden case, in a folder of the test's own.
void CopyModel(const TempFolder& to) {
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy(Cat(HEED_SOURCE_DIR, "/tests/golden/native/linear-decoder/", file), to / file);
}

// Micro-kernel calls of one decode step of n sequences.
int64_t CallsOfStep(const Model& model, int n) {
  Threads threads(1);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  Output out;
  for (int i = 0; i < n; ++i) {
    sequences.push_back(model.Start());
    batch.push_back(Last(sequences.back().get(), {i}, &out));
  }
  int64_t before = MicroKernel::Calls();
  RunPass(model, batch, threads);
  return MicroKernel::Calls() - before;
}

TEST(Pass, ThirtyTwoSequencesMakeAsManyGemmCallsALayerAsOne) {
  RandomModel model = MakeRandomModel(SmallConfig("decoder", "lm"));
  // Attention's calls grow with the sequences, one sequence's share each; those of the products must not.
  int64_t one = CallsOfStep(*model, 1), two = CallsOfStep(*model, 2);
  int64_t attention = two - one, products = one - attention;
  EXPECT_GT(products, 0);
  EXPECT_GT(attention, 0);
  EXPECT_EQ(CallsOfStep(*model, 32), products + 32 * attention);
}

// Micro-kernel calls of a pass of n sequences of one row, of which nothing is asked.
int64_t CallsOfRows(const Model& model, int n, Threads& threads) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  for (int i = 0; i < n; ++i) {
    sequences.push_back(model.Start());
    batch.push_back({.sequence = sequences.back().get(), .tokens = {i % 50}});
  }
  const int64_t before = MicroKernel::Calls();
  RunPass(model, batch, threads);
  return MicroKernel::Calls() - before;
}

TEST(Pass, OnAnyNumberOfThreadsEveryWeightPanelIsReadOnceForSixtyFourRowsOrMore) {
  const RandomModel model = MakeRandomModel(SmallConfig("encoder", "none"));
  Threads one(1);
  const int64_t alone = CallsOfRows(*model, 1, one), attention = CallsOfRows(*model, 2, one) - alone;
  const int64_t panels = alone - attention;
  ASSERT_GT(panels, 0);
  for (int count : {1, 2, 3, 16}) {
    Threads threads(count);
    for (int rows : {1, 63, 64, 127, 128, 200, 400, 1000, 3000}) {
      const int64_t products = CallsOfRows(*model, rows, threads) - rows * attention;
      ASSERT_EQ(products % panels, 0);
      EXPECT_LE(products / panels, std::max(1, rows / 64)) << rows << " rows on " << count << " threads";
    }
  }
}

// In blocks of 192 rows there were eight times as many.
TEST(Pass, ExpertsAreAProductEachOverTheRowsOfTheBatch) {
  Json config = SmallConfig("encoder", "none");
  const RandomModel dense = MakeRandomModel(config);
  for (Json& layer : config["layers"]) layer["ffn"] = {{"type", "moe"}, {"experts", 64}};
  const RandomModel model = MakeRandomModel(config);
  for (int count : {1, 2, 16}) {
    Threads threads(count);
    const int64_t attention = CallsOfRows(*dense, 2, threads) - CallsOfRows(*dense, 1, threads);
    const int64_t block = CallsOfRows(*model, kMaxBlockRows, threads) - kMaxBlockRows * attention;
    const int64_t batch = CallsOfRows(*model, kMaxGroupedRows, threads) - kMaxGroupedRows * attention;
    EXPECT_GT(block, 0);
    EXPECT_LE(batch, 2 * block) << count << " threads";
  }
}

TEST(StackPass, FewRowsAreSharedOutAmongTeamsWithWorkForAllThreads) {
  const RandomModel model = MakeRandomModel(SmallConfig("encoder", "none"));
  const auto& transformer = static_cast<const Transformer&>(*model);
  for (int count : {1, 2, 3, 7, 16}) {
    Threads threads(count);
    int held = 0;
    for (int64_t rows : {1, 8, 100, 191, 200, 250, 400, 1023}) {
      if (rows >= 64 * std::max(count, 2)) continue;
      ++held;
      StackPass pass(transformer.stack(), Precision::kF32, transformer.workspaces());
      const std::vector<int32_t> ids(rows, 3);
      pass.Add({.size = {.rows = rows}, .ids = ids});
      pass.Begin(0, 0, 0);
      std::mutex mutex;
      std::map<int64_t, int64_t> blocks;  // their ends by where they begin
      std::set<const Scratch*> workers;
      Turn turn{.room = kTurn};
      EXPECT_TRUE(pass.ForBlocks(threads, turn, 0, 1e7, [&](RowBlock& block, int64_t first) {
        block.team.Barrier();
        const std::lock_guard lock(mutex);
        blocks[first] = first + block.rows();
        EXPECT_TRUE(workers.insert(&block.scratch).second);
        EXPECT_LE(block.rows(), rows * block.team.size() / count + 16) << "each thread has as much to do";
      }));
      EXPECT_EQ(std::ssize(workers), count);
      EXPECT_EQ(std::ssize(blocks), std::max<int64_t>(1, rows / 64));
      int64_t filled = 0;
      for (auto [begin, end] : blocks) {
        EXPECT_EQ(begin, std::exchange(filled, end));
        EXPECT_LE(end - begin, kMaxBlockRows);
      }
      EXPECT_EQ(filled, rows);
    }
    EXPECT_GT(held, 0) << count << " threads";
  }
}

TEST(Pass, GivesALayerBetweenTwoTurns) {
  RandomModel model = MakeRandomModel(SmallConfig("decoder", "lm"));
  Threads threads(2);
  auto sequence = model->Start();
  Output out;
  std::vector<Work> batch;
  batch.push_back(Last(sequence.get(), {1, 2, 3}, &out));
  auto pass = model->Begin(&batch);
  EXPECT_TRUE(pass->Advance(threads));
  EXPECT_TRUE(pass->Advance(threads));
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(pass->Advance(threads));
  EXPECT_EQ(out.size(), 50u);
  EXPECT_EQ(sequence->tokens(), 3);
}

TEST(Pass, ADroppedWorkIsNotReadAndTheOthersAreUnchanged) {
  RandomModel model = MakeRandomModel(SmallConfig("decoder", "lm"));
  Threads threads(2);
  Output alone, kept, dropped;
  auto lone = model->Start();
  std::vector<Work> single;
  single.push_back(Last(lone.get(), {1, 2, 3}, &alone));
  RunPass(*model, single, threads);
  auto a = model->Start(), b = model->Start();
  std::vector<Work> batch;
  batch.push_back(Last(a.get(), {9, 8, 7, 6}, &dropped));
  batch.push_back(Last(b.get(), {1, 2, 3}, &kept));
  auto pass = model->Begin(&batch);
  ASSERT_TRUE(pass->Advance(threads));
  pass->Drop(0);
  while (pass->Advance(threads)) {
  }
  EXPECT_TRUE(dropped.empty());
  EXPECT_EQ(kept, alone);
}

TEST(Pass, GivesTurnsWithinALongLayerWhereWorkMayBeDroppedToo) {
  Json config = SmallConfig("encoder", "classification");
  config["hidden_size"] = 512;
  config["intermediate_size"] = 2048;
  RandomModel model = MakeRandomModel(config, Precision::kF32);
  Threads threads(2);
  Output alone, kept, dropped;
  auto lone = model->Start(), a = model->Start(), b = model->Start();
  const auto classify = [](Sequence* sequence, std::vector<int32_t> tokens, Output* out) {
    Work work = Last(sequence, std::move(tokens), out);
    work.wanted = {0};
    return work;
  };
  std::vector<Work> single, batch;
  single.push_back(classify(lone.get(), {1, 2, 3}, &alone));
  RunPass(*model, single, threads);
  batch.push_back(classify(a.get(), std::vector<int32_t>(4096, 7), &dropped));
  batch.push_back(classify(b.get(), {1, 2, 3}, &kept));
  auto pass = model->Begin(&batch);
  int turns = 1;
  for (; pass->Advance(threads); ++turns) {
    if (turns == 5) pass->Drop(0);  // in the midst of the first layer
  }
  EXPECT_GT(turns, 8);  // 2 layers of 1.3e10 multiply-adds in rows alone
  EXPECT_TRUE(dropped.empty());
  EXPECT_EQ(kept, alone);
}

// 8.6e9 multiply-adds in the head alone, where a turn is of 4e9.
TEST(Pass, GivesTurnsWithinAnswersToManyRowsWhereWorkMayBeDroppedToo) {
  Json config = SmallConfig("decoder", "lm");
  config["hidden_size"] = 512;
  config["vocab_size"] = 8192;
  RandomModel model = MakeRandomModel(config, Precision::kF32);
  Threads threads(2);
  constexpr int kRows = 2048;
  const std::vector<int32_t> tokens(kRows, 7);
  std::vector<Output> answers, wanted;
  auto first = model->Start(), second = model->Start();
  std::vector<Work> all(1), last(1);
  all[0] = {.sequence = first.get(), .tokens = tokens};
  for (int i = 0; i < kRows; ++i) all[0].wanted.push_back(i);
  all[0].read = [&](int32_t, std::span<const float> row) { answers.emplace_back(row.begin(), row.end()); };
  last[0] = {.sequence = second.get(), .tokens = tokens, .wanted = {kRows - 2, kRows - 1}};
  last[0].read = [&](int32_t, std::span<const float> row) { wanted.emplace_back(row.begin(), row.end()); };
  RunPass(*model, last, threads);
  auto pass = model->Begin(&all);
  size_t most = 0, before = 0;
  for (bool more = true; more; before = answers.size()) {
    more = pass->Advance(threads);
    most = std::max(most, answers.size() - before);
  }
  EXPECT_EQ(answers.size(), kRows);
  EXPECT_LE(most, kRows / 2) << "in one turn";
  EXPECT_EQ(answers[kRows - 2], wanted[0]);
  EXPECT_EQ(answers[kRows - 1], wanted[1]);

  std::vector<Work> dropped = all;
  auto third = model->Start();
  dropped[0].sequence = third.get();
  answers.clear();
  pass = model->Begin(&dropped);
  while (answers.empty() && pass->Advance(threads)) {
  }
  pass->Drop(0);
  const size_t read = answers.size();
  while (pass->Advance(threads)) {
  }
  EXPECT_EQ(answers.size(), read) << "nothing is read for whom nobody waits";
}

TEST(Sequence, ACloneGoesItsOwnWay) {
  RandomModel model = MakeRandomModel(SmallConfig("decoder", "lm"));
  Threads threads(1);
  auto first = model->Start();
  Output out, of_first, of_clone;
  std::vector<Work> prompt;
  prompt.push_back(Last(first.get(), {1, 2, 3, 4}, &out));
  RunPass(*model, prompt, threads);
  auto clone = first->Clone();
  std::vector<Work> step;
  step.push_back(Last(first.get(), {5}, &of_first));
  RunPass(*model, step, threads);
  std::vector<Work> other;
  other.push_back(Last(clone.get(), {5}, &of_clone));
  RunPass(*model, other, threads);
  EXPECT_EQ(of_first, of_clone);
  EXPECT_EQ(clone->tokens(), 5);
}

TEST(Sequence, SavedAndRestoredItGoesOnTheSameBits) {
  RandomModel model = MakeRandomModel(SmallConfig("decoder", "lm", {{"type", "softmax"}, {"window", 20}}));
  Threads threads(1);
  auto first = model->Start();
  Output out, of_first, of_restored;
  std::vector<Work> prompt;
  prompt.push_back(Last(first.get(), std::vector<int32_t>(150, 3), &out));
  RunPass(*model, prompt, threads);
  std::string bytes = StateOf(*first);
  auto restored = RestoredSequence(*model, bytes);
  for (auto [sequence, output] : {std::pair{first.get(), &of_first}, {restored.get(), &of_restored}}) {
    std::vector<Work> step;
    step.push_back(Last(sequence, {5}, output));
    RunPass(*model, step, threads);
  }
  EXPECT_EQ(of_first, of_restored);
}

TEST(Sequence, BytesThatAreNoStateAreAnErrorNotACrash) {
  RandomModel model = MakeRandomModel(SmallConfig("decoder", "lm"));
  Threads threads(1);
  auto sequence = model->Start();
  Output out;
  std::vector<Work> prompt;
  prompt.push_back(Last(sequence.get(), {1, 2, 3}, &out));
  RunPass(*model, prompt, threads);
  const std::string good = StateOf(*sequence);
  ExpectDamageIsNoCrash(*model, good);
}

TEST(Sequence, AStateOfAnotherModelOrPrecisionIsRefusedWithBothNamed) {
  Json config = SmallConfig("decoder", "lm");
  const RandomModel model = MakeRandomModel(config), int8 = MakeRandomModel(config, Precision::kInt8);
  config["hidden_act"] = "relu";
  const RandomModel other = MakeRandomModel(config);
  const std::string bytes = StateOf(*model->Start()), &own = model->info().origin.model;
  ASSERT_EQ(own.size(), 16u);
  EXPECT_TRUE(Restored(*model, bytes).ok());
  EXPECT_TRUE(Restored(*MakeRandomModel(SmallConfig("decoder", "lm")), bytes).ok());
  EXPECT_EQ(Restored(*other, bytes),
            Invalid("state: is of model ", own, " in f32; this is ", other->info().origin.model, " in f32"));
  EXPECT_EQ(Restored(*int8, bytes), Invalid("state: is of model ", own, " in f32; this is ", own, " in ",
                                            int8->info().origin.precision));
}

TEST(Sequence, AStateOfOtherWeightsIsRefused) {
  const TempFolder copy;
  CopyModel(copy);
  const auto one = LoadModel(copy.path(), {}), same = LoadModel(copy.path(), {});
  std::fstream weights(copy / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(-3, std::ios::end).put('\x11');
  weights.close();
  const auto other = LoadModel(copy.path(), {});
  ASSERT_TRUE(one.ok() && same.ok() && other.ok());
  const std::string bytes = StateOf(*(*one)->Start());
  EXPECT_TRUE(Restored(**same, bytes).ok());
  EXPECT_EQ(Restored(**other, bytes).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Sequence, HoldsNoMoreThanItsClosedForm) {
  for (const Json& attention :
       {Json{{"type", "full"}}, Json{{"type", "softmax"}, {"window", 40}, {"sinks", 2}}}) {
    RandomModel model = MakeRandomModel(SmallConfig("decoder", "lm", attention));
    Threads threads(1);
    auto sequence = model->Start();
    Output out;
    for (int i = 0; i < 300; ++i) {
      std::vector<Work> step;
      step.push_back(Last(sequence.get(), {i % 50}, &out));
      RunPass(*model, step, threads);
      ASSERT_LE(MeasuredBytes(*sequence), model->StateBytes(sequence->tokens()))
          << Shown(attention) << " at " << i;
    }
  }
}

// What linear attention's blocks of a prompt hand on is lasting memory; its state is not.
TEST(Sequence, HoldsOfOneLayerAtATimeWhatAPassHoldsBesideTheState) {
  RandomModel model = MakeRandomModel(SmallConfig("decoder", "lm", {{"type", "linear"}}));
  Threads threads(1);
  auto sequence = model->Start();
  Output out;
  std::vector<Work> prompt;
  prompt.push_back(Last(sequence.get(), std::vector<int32_t>(1000, 7), &out));
  const int64_t before = LastingMemory::Bytes(), declared = model->StateBytes(1000);
  LastingMemory::MeasureAnew();
  RunPass(*model, prompt, threads);
  EXPECT_EQ(LastingMemory::Bytes(), before);
  const int64_t held = LastingMemory::Most() - before + MeasuredBytes(*sequence);
  EXPECT_LE(held, declared);
  EXPECT_GE(1.1 * static_cast<double>(held), static_cast<double>(declared));
}

TEST(Pooling, AnEmbeddingIsGivenAsItIsAndTheModelSaysWhetherItIsMeantToHaveLengthOne) {
  Json config = SmallConfig("encoder", "none");
  config["pooling"] = "mean";
  Threads threads(2);
  Output raw, meant;
  for (Output* out : {&raw, &meant}) {
    config["normalize"] = out == &meant;
    RandomModel model = MakeRandomModel(config);
    EXPECT_EQ(model->info().head, Head::kEmbedding);
    EXPECT_EQ(model->info().normalize, out == &meant);
    auto sequence = model->Start();
    std::vector<Work> batch;
    batch.push_back(Last(sequence.get(), {1, 2, 3}, out));
    RunPass(*model, batch, threads);
  }
  EXPECT_EQ(meant, raw);
  double squares = 0;
  for (float x : raw) squares += x * x;
  EXPECT_GT(std::abs(squares - 1), 0.1);
}

// Bytes of memory that the process has had at most since MeasurePeakAnew().
int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) << 10;
  }
  return 0;
}

bool MeasurePeakAnew() {
  return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5" << std::flush);
}

TEST(LongSequence, SixtyFourThousandTokensNeedNothingQuadratic) {
  if (!std::getenv("HEED_FULL")) GTEST_SKIP() << "runs in ./dev test full";
  Json config = SmallConfig("encoder", "classification");
  config["hidden_size"] = 64;
  RandomModel model = MakeRandomModel(config, Precision::kF32);
  Threads threads(2);
  auto sequence = model->Start();
  Output out;
  constexpr int64_t kTokens = 65536;
  std::vector<Work> batch;
  batch.push_back(Last(sequence.get(), std::vector<int32_t>(kTokens, 7), &out));
  batch[0].wanted = {0};
  ASSERT_TRUE(MeasurePeakAnew());
  const int64_t before = PeakBytes();
  ASSERT_GT(before, 0);
  RunPass(*model, batch, threads);
  ASSERT_EQ(out.size(), 5u);
  EXPECT_TRUE(std::isfinite(out[0]));
  // The keys and values of one layer, and of every row x, its three products and what attention wrote: 112
  // MiB. Beside them threads have blocks of rows and scratch, of the same size for any length, and slabs may
  // be half full.
  const double state = static_cast<double>(model->StateBytes(kTokens)), workspace = kTokens * 5.0 * 64 * 4;
  const double grown = static_cast<double>(PeakBytes() - before), beside = 32 << 20;
  EXPECT_LT(grown, state + workspace + beside);
  EXPECT_GT(grown, (state + workspace) / 2);
}

TEST(LoadNativeModel, AFeedForwardIsRefusedWithItsLayer) {
  const auto refusal = [](const std::string& architecture, const std::string& key, const Json& feed_forward) {
    Json config = SmallConfig(architecture, "lm");
    const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
    config[key][1]["ffn"] = feed_forward;
    return NewNativeModel(config, *Weights::Of(tensors), {}).status();
  };
  const absl::Status unknown = refusal("decoder", "layers", {{"type", "sparse"}});
  for (const char* part : {"config.json: layers[1].ffn.type", "sparse", "dense"})
    EXPECT_THAT(unknown.message(), HasSubstr(part));
  EXPECT_THAT(
      refusal("encoder-decoder", "decoder_layers", {{"type", "moe"}, {"experts", 2}, {"top_k", 3}}).message(),
      HasSubstr("config.json: decoder_layers[1].ffn.top_k: 3 is above 2"));
  EXPECT_THAT(refusal("decoder", "layers", {{"type", "moe"}, {"experts", 2}}).message(),
              HasSubstr("layers.1.ffn.router.weight"));
  EXPECT_THAT(refusal("decoder", "layers", {{"type", "none"}}).message(), HasSubstr("layers.1.ffn"))
      << "tensors that nobody asked for";
}

TEST(LoadNativeModel, SaysThatChoicesOfAFeedForwardDependOnItsInput) {
  EXPECT_FALSE(MakeRandomModel(SmallConfig("decoder", "lm"))->info().data_dependent);
  Json config = SmallConfig("encoder-decoder", "lm");
  config["layers"][0]["ffn"] = {{"type", "moe"}, {"experts", 3}};
  EXPECT_TRUE(MakeRandomModel(config)->info().data_dependent);
}

TEST(LoadModel, AFileThatIsCutOffLaterIsMissedByNobody) {
  const TempFolder folder;
  CopyModel(folder);
  const std::unique_ptr<const Model> model = LoadModel(folder.path(), {}).value();
  Threads threads(1);
  const auto answer = [&] {
    auto sequence = model->Start();
    Output out;
    std::vector<Work> batch;
    batch.push_back(Last(sequence.get(), {1, 2, 3}, &out));
    RunPass(*model, batch, threads);
    return out;
  };
  const Output before = answer();
  std::filesystem::resize_file(folder / "model.safetensors", 0);
  EXPECT_EQ(answer(), before);
}

TEST(LoadModel, AFileThatIsCutOffMeanwhileIsAnError) {
  const TempFolder folder;
  CopyModel(folder);
  const Json config =
      ParseJson(ReadFile(folder.path(), "config.json", 1 << 20).value(), "config.json").value();
  const auto weights = Weights::Load(folder.path()).value();
  std::filesystem::resize_file(folder / "model.safetensors",
                               std::filesystem::file_size(folder / "model.safetensors") - 1);
  const absl::Status status = NewNativeModel(config, *weights, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("model.safetensors: changed while it was read, from 89888 to 89887"));
}

TEST(LoadNativeModel, AMissingAnExtraAndAMisshapenTensorAreNamed) {
  Json config = SmallConfig("decoder", "lm");
  auto message = [&](const std::map<std::string, Tensor>& given) {
    auto model = NewNativeModel(config, *Weights::Of(given), {});
    return model.ok() ? std::string("loaded") : std::string(model.status().message());
  };
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  EXPECT_EQ(message(tensors), "loaded");
  auto missing = tensors;
  missing.erase("layers.1.ffn.up.weight");
  EXPECT_THAT(message(missing), HasSubstr("layers.1.ffn.up.weight"));
  auto extra = tensors;
  extra["layers.2.ffn.up.weight"] = tensors.at("layers.1.ffn.up.weight");
  EXPECT_THAT(message(extra), HasSubstr("layers.2.ffn.up.weight"));
  auto misshapen = tensors;
  misshapen["layers.0.attention.o.weight"] = tensors.at("layers.1.ffn.up.weight");
  EXPECT_THAT(message(misshapen), HasSubstr("[64, 32]"));
}

}  // namespace
}  // namespace heed
