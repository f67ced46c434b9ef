// What every attention variant promises (attention.h), tried on all that variants.def lists, none named here.
// A suite is tried on the examples that make its promise, and on no others.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/examples.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

// An example's number, and a precision.
class Contract : public testing::TestWithParam<std::pair<size_t, Precision>> {
 protected:
  Contract() : layer_(AttentionExamples()[GetParam().first], GetParam().second) {}

  std::unique_ptr<AttentionRun> Start() const { return layer_.attention().Start(); }
  static std::string Save(AttentionRun& run) {
    std::string bytes;
    StateArchive archive = StateArchive::Saving(&bytes);
    run.Archive(archive);
    EXPECT_TRUE(archive.Finish().ok());
    return bytes;
  }
  static absl::Status Restore(AttentionRun& run, std::string_view bytes) {
    StateArchive archive = StateArchive::Restoring(bytes);
    run.Archive(archive);
    return archive.Finish();
  }
  // Rows differ from t on. Those that see nothing of the sequence may be alike.
  void ExpectFirstAt(int64_t t, int64_t difference) const {
    EXPECT_GE(difference, t);
    EXPECT_LE(difference, std::max(t, layer_.example().blind));
  }

  Layer layer_;
};

// Rows come one after another: a decoder, or the queries of cross-attention.
class ContractInParts : public Contract {};
class ContractOfExact : public Contract {};
class ContractOfExactDecoders : public Contract {};
class ContractOfApproximate : public Contract {};
class ContractOfEncoders : public Contract {};
class ContractOfLabels : public Contract {};
class ContractOfWork : public Contract {};
class ContractOfProducts : public Contract {};

TEST_P(Contract, ReadsTheLabelsThatTheExampleSays) {
  const RowLabels& labels = layer_.attention().labels();
  EXPECT_EQ(labels.kind, layer_.example().labels);
  EXPECT_EQ(labels.most > 0, labels.kind != RowLabel::kNone);
}

TEST_P(Contract, DecodesAsTheExampleSays) {
  EXPECT_EQ(Name(layer_.attention().decode()), Name(layer_.example().decode()));
}

TEST_P(ContractOfExact, ChunksAreTheWholeBitForBit) {
  for (int64_t n : {100, 128, 300, 700}) {
    const Passage whole = Whole(layer_, n);
    for (int64_t chunk : {kGrid, 2 * kGrid, 3 * kGrid}) {
      Passage chunks(layer_, n);
      chunks.ExtendBy(*Start(), 0, n, chunk);
      EXPECT_EQ(FirstDifference(whole.out(), chunks.out()), -1) << n << " rows, " << chunk << " at a time";
    }
  }
}

TEST_P(ContractOfExact, StepsAreTheWhole) {
  const Passage whole = Whole(layer_, 300);
  Passage steps(layer_, 300);
  steps.ExtendBy(*Start(), 0, 300, 1);
  EXPECT_LE(LargestDifference(whole.out(), steps.out()), layer_.type() == DType::kF32 ? 1e-5 : 2e-2);
}

// Seven rows cross every edge at which taking rows in is cut; pieces that are no multiples of anything begin
// and end anywhere.
TEST_P(ContractOfExact, AnyPiecesAreTheWhole) {
  const Passage whole = Whole(layer_, 1100);
  for (int64_t rows : {7, 29, 256, 1000}) {
    Passage pieces(layer_, 1100);
    pieces.ExtendBy(*Start(), 0, 1100, rows);
    EXPECT_LE(LargestDifference(whole.out(), pieces.out()), layer_.type() == DType::kF32 ? 1e-5 : 2e-2)
        << "by " << rows;
  }
}

TEST_P(ContractOfApproximate, AfterAPromptThatComesWholeRowsAreSteps) {
  for (int64_t prompt : {1, 10, 100, 129}) {
    Passage steps(layer_, 300), pieces(layer_, 300);
    const auto run = Start(), other = Start();
    steps.Extend(*run, 0, prompt);
    steps.ExtendBy(*run, prompt, 300, 1);
    pieces.Extend(*other, 0, prompt);
    pieces.ExtendBy(*other, prompt, 300, 37);
    EXPECT_EQ(FirstDifference(steps.out(), pieces.out()), -1) << "after " << prompt;
  }
}

TEST_P(ContractOfExactDecoders, NeverSeesTheFuture) {
  for (int64_t t : {1, 60, 128, 259}) {
    const Passage whole = Whole(layer_, 260);
    Passage other(layer_, 260);
    const auto change = [&](OwnedRows& rows) {
      for (int64_t r = t; r < 260; ++r) {
        for (int64_t c = 0; c < rows.rows().cols; ++c)
          rows.Set(r, c, static_cast<float>(-3 * rows.At(r, c) + 1));
      }
    };
    change(other.input());
    for (size_t p = 0; p < layer_.attention().products().size(); ++p) change(other.product(p));
    other.Extend(*Start(), 0, 260);
    ExpectFirstAt(t, FirstDifference(whole.out(), other.out()));
  }
}

TEST_P(ContractOfExactDecoders, WhatComesAfterDoesNotChangeARow) {
  const Passage all = Whole(layer_, 700);
  for (int64_t n : {1, 5, 127, 129, 400}) {
    Passage front(layer_, 700);
    front.Extend(*Start(), 0, n);
    for (int64_t r = 0; r < n; ++r) {
      ASSERT_EQ(std::memcmp(front.out().rows().at(r), all.out().rows().at(r),
                            all.out().rows().cols * SizeOf(layer_.type())),
                0)
          << r << " of " << n;
    }
  }
}

TEST_P(Contract, TasksRunInAnyOrder) {
  const Passage forwards = Whole(layer_, 200);
  Passage backwards(layer_, 200);
  backwards.Extend(*Start(), 0, 200, true);
  EXPECT_EQ(FirstDifference(forwards.out(), backwards.out()), -1);
}

TEST_P(Contract, AFreshRunOwesNothingToAnother) {
  const Passage first = Whole(layer_, 150);
  Whole(layer_, 333, 900);
  EXPECT_EQ(FirstDifference(first.out(), Whole(layer_, 150).out()), -1);
}

TEST_P(ContractInParts, ACloneGoesItsOwnWay) {
  for (int64_t t : {1, 128, 200}) {
    Passage original(layer_, 500), fork(layer_, 500), another(layer_, 500, 900);
    const auto run = Start();
    original.Extend(*run, 0, t);
    const auto clone = run->Clone(), other = run->Clone();
    another.ExtendBy(*other, t, 500, 50);  // what one clone takes in
    original.ExtendBy(*run, t, 500, 50);
    fork.ExtendBy(*clone, t, 500, 50);
    EXPECT_EQ(FirstDifference(original.out(), fork.out(), t), -1) << "forked at " << t;
    ExpectFirstAt(t, FirstDifference(original.out(), another.out(), t));
  }
}

TEST_P(ContractInParts, SavedAndRestoredMidwayNothingChanges) {
  for (int64_t t : {1, 31, 128, 257, 384}) {
    Passage straight(layer_, 500), resumed(layer_, 500);
    const auto run = Start();
    straight.Extend(*run, 0, t);
    const std::string bytes = Save(*run);
    const auto again = Start();
    ASSERT_TRUE(Restore(*again, bytes).ok());
    EXPECT_EQ(Save(*again), bytes);
    EXPECT_EQ(again->tokens(), run->tokens());
    straight.ExtendBy(*run, t, 500, 37);
    resumed.Extend(*Start(), 0, t);
    resumed.ExtendBy(*again, t, 500, 37);
    EXPECT_EQ(FirstDifference(straight.out(), resumed.out()), -1) << "saved at " << t;
    EXPECT_EQ(Save(*again), Save(*run));
  }
}

TEST_P(Contract, RestoringGarbageIsAnErrorOrAState) {
  const bool goes_on = layer_.example().decode() != DecodeClass::kNone;
  Passage passage(layer_, 150);
  const auto run = Start();
  passage.Extend(*run, 0, goes_on ? 140 : 150);
  const std::string bytes = Save(*run);
  for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 50) {
    EXPECT_FALSE(Restore(*Start(), bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(Restore(*Start(), bytes + "x").ok());
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string garbage = bytes;
    for (int flips = 0; flips < 8; ++flips)
      garbage[random() % (i % 2 == 0 ? 8 : garbage.size())] = static_cast<char>(random());
    const auto victim = Start();
    if (!Restore(*victim, garbage).ok() || !goes_on || victim->tokens() != run->tokens()) continue;
    Passage on(layer_, 150);
    on.ExtendBy(*victim, 140, 150, 3);
  }
}

TEST_P(ContractInParts, StateIsAtMostWhatIsDeclared) {
  for (int64_t rows : {1, 100, 128, 512}) {
    const auto run = Start();
    Passage passage(layer_, 700);
    for (int64_t begin = 0; begin < 700; begin += rows) {
      passage.Extend(*run, begin, std::min<int64_t>(700, begin + rows));
      ASSERT_LE(Measured(*run), layer_.attention().StateBytes(run->tokens()))
          << run->tokens() << " tokens, by " << rows;
    }
  }
}

TEST_P(ContractInParts, StateIsAtLeastHalfOfWhatIsDeclared) {
  const auto run = Start();
  Passage passage(layer_, 700);
  int64_t most = 0;
  for (int64_t begin = 0; begin < 700; ++begin) {
    passage.Extend(*run, begin, begin + 1);
    most = std::max(most, Measured(*run));
    ASSERT_GE(2 * most, layer_.attention().StateBytes(run->tokens())) << run->tokens() << " tokens";
  }
}

// What an encoder's run holds it may let go of before its last task ends: then what was taken counts.
TEST_P(ContractOfEncoders, StateIsWhatIsDeclaredOrUpToHalfOfIt) {
  for (int64_t n : {1, 64, 128, 129, 700, 1500}) {
    const auto run = Start();
    Passage passage(layer_, n);
    const int64_t taken = MostWhileAttending(passage, *run), left = Measured(*run);
    const int64_t declared = layer_.attention().StateBytes(n);
    EXPECT_LE(left, declared) << n << " tokens";
    EXPECT_GE(2 * std::max(taken, left), declared) << n << " tokens";
  }
}

TEST_P(ContractOfLabels, MakeADifferenceWhicheverRowHasOne) {
  const Passage none = Labelled(layer_, Labels(300, 0));
  for (int64_t row : {0, 1, 128, 299}) {
    std::vector<int32_t> labels(300);
    labels[row] = 1;
    EXPECT_GE(FirstDifference(none.out(), Labelled(layer_, labels).out()), 0) << row;
  }
}

TEST_P(ContractOfLabels, OfASequenceOweNothingToAnothers) {
  const Passage unlabelled = Whole(layer_, 200), first = Labelled(layer_, Labels(200, 20));
  Labelled(layer_, Labels(400, 400));
  EXPECT_EQ(FirstDifference(first.out(), Labelled(layer_, Labels(200, 20)).out()), -1);
  EXPECT_EQ(FirstDifference(unlabelled.out(), Whole(layer_, 200).out()), -1);
}

TEST_P(ContractOfLabels, TasksRunInAnyOrder) {
  for (int64_t labelled : {0, 1, 70, 200}) {
    Passage backwards(layer_, 200);
    backwards.Label(Labels(200, labelled));
    backwards.Extend(*Start(), 0, 200, true);
    EXPECT_EQ(FirstDifference(Labelled(layer_, Labels(200, labelled)).out(), backwards.out()), -1)
        << labelled;
  }
}

TEST_P(ContractOfLabels, StateAndScratchAreAtMostWhatIsDeclaredAndNotMuchLess) {
  for (int64_t n : {1, 20, 128, 700, 1500}) {
    for (int64_t labelled : {int64_t{0}, int64_t{1}, n / 3, n}) {
      const auto run = Start();
      Passage passage(layer_, n);
      passage.Label(Labels(n, labelled));
      const int64_t taken = MostWhileAttending(passage, *run), left = Measured(*run);
      const int64_t declared = layer_.attention().LabelledStateBytes(n, labelled);
      EXPECT_LE(taken, declared) << labelled << " of " << n;
      EXPECT_LE(left, declared) << labelled << " of " << n;
      EXPECT_GE(2 * std::max(taken, left), declared) << labelled << " of " << n;
      EXPECT_FALSE(passage.scratch_grew()) << labelled << " of " << n;
    }
  }
}

TEST_P(ContractOfLabels, DeclaredStateGrowsWithThem) {
  for (int64_t n : {1, 100, 1000}) {
    for (int64_t labelled = 1; labelled <= n; ++labelled) {
      ASSERT_LE(layer_.attention().LabelledStateBytes(n, labelled - 1),
                layer_.attention().LabelledStateBytes(n, labelled))
          << labelled << " of " << n;
    }
    ASSERT_LE(layer_.attention().LabelledStateBytes(n - 1, 0), layer_.attention().LabelledStateBytes(n, 0));
  }
}

TEST_P(ContractOfLabels, AreSavedWithTheState) {
  for (int64_t labelled : {0, 9, 150}) {
    const auto run = Start(), again = Start();
    Passage passage(layer_, 150);
    passage.Label(Labels(150, labelled));
    passage.Extend(*run, 0, 150);
    const std::string bytes = Save(*run);
    ASSERT_TRUE(Restore(*again, bytes).ok());
    EXPECT_EQ(Save(*again), bytes);
    EXPECT_EQ(Save(*run->Clone()), bytes);
    std::mt19937 random(3);
    for (int i = 0; i < 300; ++i) {
      std::string garbage = bytes;
      for (int flips = 0; flips < 4; ++flips) garbage[random() % 100] = static_cast<char>(random());
      (void)Restore(*Start(), garbage);
    }
  }
}

// As many as may be, of the longest input that a service takes.
TEST_P(ContractOfLabels, NoTaskIsLong) {
  for (int64_t n : {int64_t{2000}, int64_t{65536}}) {
    const int64_t labelled = std::min(n, layer_.attention().labels().most);
    Passage passage(layer_, n);
    passage.Label(Labels(n, labelled));
    const auto run = Start();
    double sum = 0;
    for (const AttentionStage& stage : passage.Plan(*run)) {
      EXPECT_LE(stage.cost, kTaskCost);
      sum += static_cast<double>(stage.tasks) * stage.cost;
    }
    EXPECT_GE(sum, 0.5 * layer_.attention().LabelledCost(n, labelled));
  }
}

// Kernels compute some columns more than there are: shares are compared, not numbers.
TEST_P(ContractOfLabels, CostGrowsAsDeclared) {
  constexpr int64_t kTokens = 3000;
  const auto work = [&](int64_t labelled) {
    const int64_t before = MicroKernel::MultiplyAdds();
    Labelled(layer_, Labels(kTokens, labelled));
    return static_cast<double>(MicroKernel::MultiplyAdds() - before);
  };
  const auto declared = [&](int64_t labelled) {
    return layer_.attention().LabelledCost(kTokens, labelled) - layer_.attention().LabelledCost(kTokens, 0);
  };
  const double none = work(0), all = work(kTokens) - none;
  EXPECT_GT(all, declared(kTokens) * 0.75);
  for (int64_t labelled : {500, 1500}) {
    const double share = (work(labelled) - none) / all, wanted = declared(labelled) / declared(kTokens);
    EXPECT_GT(share, wanted * 0.75) << labelled;
    EXPECT_LT(share, wanted * 1.25) << labelled;
  }
}

TEST_P(Contract, DeclaredStateGrowsWithTheTokens) {
  for (int64_t n = 1; n < 3000; ++n) {
    ASSERT_LE(layer_.attention().StateBytes(n - 1), layer_.attention().StateBytes(n))
        << "a reservation grows with " << n;
  }
}

TEST_P(Contract, ScratchIsAtMostWhatIsDeclared) {
  const int64_t longest = layer_.attention().max_tokens();
  for (int64_t n : {1, 3, 20, 130, 700}) {
    if (longest > 0 && n > longest) continue;
    Passage passage(layer_, n);
    passage.Extend(*Start(), 0, n);
    EXPECT_FALSE(passage.scratch_grew()) << n << " rows";
  }
}

TEST_P(ContractInParts, ScratchIsAtMostWhatIsDeclared) {
  Passage passage(layer_, 700);
  const auto run = Start();
  passage.ExtendBy(*run, 0, 700, 37);
  EXPECT_FALSE(passage.scratch_grew());
}

// The longest input that a service takes as one piece; a whole document of an encoder.
TEST_P(ContractOfWork, NoTaskIsLong) {
  const int64_t most = layer_.attention().max_tokens(),
                n = most == 0 ? 65536 : std::min<int64_t>(most, 65536);
  Passage passage(layer_, n);
  const auto run = Start();
  double sum = 0;
  for (const AttentionStage& stage : passage.Plan(*run)) {
    EXPECT_GE(stage.tasks, 1);
    EXPECT_LE(stage.cost, kTaskCost);
    sum += static_cast<double>(stage.tasks) * stage.cost;
  }
  EXPECT_GE(sum, 0.5 * layer_.attention().Cost(n, layer_.cross() ? passage.source() : n));
}

TEST_P(ContractOfWork, TheCostOfPartsIsThatOfTheWhole) {
  const Attention& attention = layer_.attention();
  const int64_t most = attention.max_tokens(), n = most == 0 ? 4096 : std::min<int64_t>(most, 4096);
  if (layer_.cross()) {
    EXPECT_NEAR(attention.Cost(n, n), 4 * attention.Cost(n / 4, n), 1e-6 * attention.Cost(n, n));
  } else if (layer_.causal()) {
    double sum = 0;
    for (int64_t end = n / 4; end <= n; end += n / 4) sum += attention.Cost(n / 4, end);
    EXPECT_NEAR(sum, attention.Cost(n / 4 * 4, n / 4 * 4), 1e-6 * sum);
  } else {
    EXPECT_GT(attention.Cost(n, n), attention.Cost(n / 4, n / 4));
  }
}

TEST_P(ContractOfProducts, GrowAsTheCost) {
  const auto work = [&](int64_t n) { return static_cast<double>(MultiplyAddsOf(layer_, n)); };
  const int64_t most = layer_.attention().max_tokens(), n = most == 0 ? 4096 : std::min<int64_t>(most, 4096);
  const double grown = work(n) / work(n / 4);
  const double declared = layer_.attention().Cost(n, n) / layer_.attention().Cost(n / 4, n / 4);
  EXPECT_GT(grown, declared * 0.75);
  EXPECT_LT(grown, declared * 1.25);
}

TEST(Contracts, EveryTypeHasAnExample) {
  std::set<std::string> tried;
  for (const AttentionExample& example : AttentionExamples()) tried.insert(example.type);
  EXPECT_EQ(tried.size(), AttentionTypes().size());
  for (std::string_view type : AttentionTypes()) EXPECT_TRUE(tried.contains(std::string(type))) << type;
}

TEST(Contracts, EveryTypeRefusesWhatItDoesNotKnow) {
  for (const AttentionExample& example : AttentionExamples()) {
    const Layer layer(example, Precision::kF32);
    Json options = layer.options();
    options["windwo"] = 3;
    const auto weights = Weights::Of({});
    const auto refused = layer.New(options, WeightScope(*weights));
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("windwo"));
    options.erase("windwo");
    EXPECT_EQ(layer.New(options, WeightScope(*weights)).ok(), layer.tensors().empty()) << "without tensors";
  }
}

TEST(Contracts, AnUnknownTypeIsNamedWithTheKnown) {
  const Layer layer(AttentionExamples()[0], Precision::kF32);
  const auto weights = Weights::Of({});
  const auto refused = layer.New(*ParseJson(R"({"type": "sofmax"})", "options"), WeightScope(*weights));
  ASSERT_FALSE(refused.ok());
  for (const char* part : {"layers[0].attention", "sofmax", "full"}) {
    EXPECT_THAT(refused.status().message(), testing::HasSubstr(part));
  }
}

std::vector<Precision> Precisions() {
  std::vector<Precision> all = {Precision::kF32};
  if (Supported(Precision::kBf16) == Precision::kBf16) all.push_back(Precision::kBf16);
  return all;
}

std::string CaseName(const testing::TestParamInfo<Contract::ParamType>& info) {
  const auto [i, precision] = info.param;
  return Cat(AttentionExamples()[i].type, "_", i, "_", Name(precision));
}

// The examples of which the promise is true, in these precisions. Its suite fails where there are none.
auto Of(bool (*promised)(const AttentionExample&), const std::vector<Precision>& precisions = Precisions()) {
  std::vector<Contract::ParamType> cases;
  const std::vector<AttentionExample> examples = AttentionExamples();
  for (size_t i = 0; i < examples.size(); ++i) {
    for (Precision precision : precisions) {
      if (promised(examples[i])) cases.emplace_back(i, precision);
    }
  }
  return testing::ValuesIn(cases);
}

using Example = const AttentionExample&;
INSTANTIATE_TEST_SUITE_P(Variants, Contract, Of([](Example) { return true; }), CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, ContractInParts,
                         Of([](Example e) { return e.decode() != DecodeClass::kNone; }), CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, ContractOfExact,
                         Of([](Example e) { return e.decode() == DecodeClass::kExact; }), CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, ContractOfExactDecoders,
                         Of([](Example e) { return e.causal() && e.decode() == DecodeClass::kExact; }),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, ContractOfApproximate,
                         Of([](Example e) { return e.decode() == DecodeClass::kApproximate; }), CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, ContractOfEncoders,
                         Of([](Example e) { return e.decode() == DecodeClass::kNone; }), CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, ContractOfLabels,
                         Of([](Example e) { return e.labels != RowLabel::kNone; }), CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, ContractOfWork, Of([](Example) { return true; }, {Precision::kF32}),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Variants, ContractOfProducts,
                         Of([](Example e) { return !e.without_products; }, {Precision::kF32}), CaseName);

}  // namespace
}  // namespace heed
