// The survey "Efficient Transformers" (Tay et al. 2022), running: every attention and stack at one shape for
// each kind of input, what reading it takes in time and memory, how that grows, and what a token more costs
// where a model writes; beside what is claimed. tests/bench/survey.py makes docs/survey.md of the output.
// HEED_SURVEY=images,sets measures these kinds alone.
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tests/bench/growth.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/bench/survey.h"
#include "tests/bench/turns.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr int64_t kNear = 1000;  // the position that a far one is compared with

class Survey {
 public:
  Survey(Threads& threads, Precision precision)
      : threads_(threads), precision_(precision), limits_(threads, precision) {}

  void Run() {
    for (const SurveyModality& modality : SurveyModalities()) {
      if (Wanted("HEED_SURVEY", modality.name)) Modality(modality);
    }
    for (const std::string& line : left_out_) std::printf("left out: %s\n", line.c_str());
  }

 private:
  // One line, at one length after the other.
  struct Entry {
    SurveyLine line;
    RandomModel model;
    SurveyModel input;
    Turn turn;
    double of_limit = 0;
    Growth measured{1}, claimed{1};
  };
  struct Step {
    double seconds = 0, near = 0;  // of a token at the length, and at kNear
  };

  void Modality(const SurveyModality& modality);
  std::vector<Entry> Entries(const SurveyModality& modality);
  void Length(std::vector<Entry>& entries, int64_t n);
  double Cost(const Entry& entry) const;
  Step MeasureStep(const Entry& entry, int64_t n);
  std::vector<std::string> Row(const SurveyModality& modality, const Entry& entry, const Entry& first);

  Threads& threads_;
  const Precision precision_;
  LimitsNow limits_;
  std::vector<std::string> left_out_;
};

void Survey::Modality(const SurveyModality& modality) {
  std::vector<Entry> entries = Entries(modality);
  for (int64_t n : modality.lengths) Length(entries, n);
  std::printf("%s: %s; figures at %lld %s, growth from %lld\n", modality.name.c_str(), modality.shape.c_str(),
              static_cast<long long>(modality.lengths.back()), modality.counted.c_str(),
              static_cast<long long>(modality.lengths.front()));
  Table table({"kind of input", "model", "paper", "classes", "claimed", "time", "x first", "of limit",
               "MiB above weights", "exponent", "of multiply-adds", "writes", "a token", "near",
               "state KiB"});
  for (const Entry& entry : entries) table.Row(Row(modality, entry, entries[0]));
}

std::vector<Survey::Entry> Survey::Entries(const SurveyModality& modality) {
  std::vector<Entry> entries;
  for (const SurveyLine& line : modality.lines) {
    const absl::StatusOr<RandomModel> model =
        TryRandomModel(line.at(modality.lengths.back()).config, precision_);
    if (model.ok()) {
      entries.push_back({.line = line});
    } else {
      left_out_.push_back(Cat(modality.name, ", ", line.name, ": ", model.status().message()));
    }
  }
  return entries;
}

// Multiply-adds of a pass.
double Survey::Cost(const Entry& entry) const {
  return static_cast<double>(entry.input.works) * entry.model->Cost(entry.input.rows);
}

void Survey::Length(std::vector<Entry>& entries, int64_t n) {
  std::vector<Turn> turns;
  for (Entry& entry : entries) {
    entry.input = entry.line.at(n);
    entry.model = MakeRandomModel(entry.input.config, precision_);
    turns.push_back(
        {[&] { Read(*entry.model, entry.input.rows, static_cast<int>(entry.input.works), threads_); }});
  }
  TakeTurns(turns, limits_);
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    entry.turn = turns[i];
    const auto weights = static_cast<double>(entry.model->info().weight_bytes);
    entry.of_limit = limits_.LeastTime(2 * Cost(entry), weights) / turns[i].seconds;
    entry.measured.Add(n, turns[i].seconds);
    entry.claimed.Add(n, Cost(entry));
  }
}

Survey::Step Survey::MeasureStep(const Entry& entry, int64_t n) {
  const std::unique_ptr<Sequence> near = AfterPrompt(*entry.model, kNear, threads_);
  const std::unique_ptr<Sequence> far = AfterPrompt(*entry.model, n, threads_);
  const auto step = [&](Sequence& sequence) { return [&] { heed::Step(*entry.model, sequence, threads_); }; };
  const std::vector<double> seconds = LeastSeconds({step(*near), step(*far)}, 0.5);
  return {seconds[1], seconds[0]};
}

std::vector<std::string> Survey::Row(const SurveyModality& modality, const Entry& entry, const Entry& first) {
  const Model& model = *entry.model;
  const int64_t n = modality.lengths.back();
  std::vector<std::string> row = {modality.name,
                                  entry.line.name,
                                  entry.line.paper,
                                  entry.line.classes,
                                  entry.line.claimed,
                                  Milliseconds(entry.turn.seconds),
                                  Times(first.turn.seconds / entry.turn.seconds),
                                  Percent(entry.of_limit),
                                  Cat(static_cast<int64_t>(entry.turn.peak_mib)),
                                  entry.measured.Exponent(),
                                  entry.claimed.Exponent()};
  if (model.info().decode == DecodeClass::kNone) {
    for (const char* none : {"no", "-", "-", "-"}) row.emplace_back(none);
    return row;
  }
  const Step step = MeasureStep(entry, n);
  row.emplace_back(model.info().decode == DecodeClass::kExact ? "exactly" : "nearly");
  row.push_back(Milliseconds(step.seconds));
  row.push_back(Milliseconds(step.near));
  row.push_back(Cat(model.StateBytes(n) >> 10));
  return row;
}

}  // namespace

void SurveySection(Threads& threads) {
  const Precision precision = Supported(Precision::kBf16);
  std::printf("%s\n", std::string(Name(precision)).c_str());
  Survey(threads, precision).Run();
}

}  // namespace heed
