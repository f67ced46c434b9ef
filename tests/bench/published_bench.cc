// What papers have published of their attentions and what we measure in the same shapes: ratios to full
// attention, in turns with it, of attention alone and of whole models. Where a paper's machine is an
// accelerator whose memory binds its softmax, its ratios may exceed what multiply-adds allow (of attention
// alone; of models, the ceiling); and full attention here keeps no weights of all rows with all, which is
// what others save memory from.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tests/bench/lone_attention.h"
#include "tests/bench/published.h"
#include "tests/bench/published_decoding.h"
#include "tests/bench/published_table.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/turns.h"
#include "tests/bench/variants.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

class Studies {
 public:
  Studies(Threads& threads, Precision precision, PublishedTable& table)
      : threads_(threads), precision_(precision), limits_(threads, precision), table_(table) {}

  void Run(const PublishedStudy& study, int64_t longest) {
    std::vector<PublishedLine> lines;
    for (const PublishedLine& line : study.lines) {
      const auto model = TryRandomModel(Stack(study.shape, line.options), precision_);
      if (model.ok()) {
        lines.push_back(line);
      } else {
        left_out_.push_back(Cat(line.id, " ", line.variant, ": ", model.status().message()));
      }
    }
    for (size_t i = 0; i < study.lengths.size(); ++i) {
      if (study.lengths[i] <= longest) Length(study, lines, i);
    }
  }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  // Attention alone.
  struct Alone {
    double seconds = 0, of_limit = 0, cost = 0;
  };
  static std::string Reason(double theirs, const Alone& full, const Alone& attention);
  void Length(const PublishedStudy& study, const std::vector<PublishedLine>& lines, size_t at);
  std::vector<Alone> Attentions(const PublishedStudy& study, const std::vector<Json>& options, int64_t n);
  std::vector<Turn> Models(const PublishedStudy& study, const std::vector<Json>& options, int64_t n);

  Threads& threads_;
  const Precision precision_;
  LimitsNow limits_;
  PublishedTable& table_;
  std::vector<std::string> left_out_;
};

// Those of the lines that have a figure there, beside full attention.
void Studies::Length(const PublishedStudy& study, const std::vector<PublishedLine>& lines, size_t at) {
  const int64_t n = study.lengths[at];
  std::vector<const PublishedLine*> shown;
  std::vector<Json> options{Json{{"type", "full"}}};
  for (const PublishedLine& line : lines) {
    if (line.times[at] == 0) continue;
    shown.push_back(&line);
    options.push_back(line.options);
  }
  const std::vector<Alone> alone = Attentions(study, options, n);
  const std::vector<Turn> whole = Models(study, options, n);
  for (size_t i = 0; i < shown.size(); ++i) {
    const PublishedLine& line = *shown[i];
    const Alone& attention = alone[i + 1];
    const Turn& model = whole[i + 1];
    PublishedRatio row{line.id, line.variant, n, "time of full"};
    row.theirs = line.times[at];
    row.attention = alone[0].seconds / attention.seconds;
    row.allowed = alone[0].cost / attention.cost;
    row.model = whole[0].seconds / model.seconds;
    row.ceiling = 1 + static_cast<double>(n) / static_cast<double>(6 * study.shape.width);
    row.ours = Cat(Milliseconds(attention.seconds), " (", Percent(attention.of_limit), " of limit), ",
                   Milliseconds(model.seconds));
    row.reason = Reason(row.theirs, alone[0], attention);
    table_.Row(row);
    if (line.memories.empty()) continue;
    row.against = "memory of full";
    row.theirs = line.memories[at];
    row.attention = row.allowed = row.ceiling = 0;
    row.model = whole[0].peak_mib / std::max(model.peak_mib, 1.0);
    row.ours = Cat(static_cast<int64_t>(model.peak_mib), " MiB above weights");
    row.reason = "full keeps no weights of all rows with all here";
    table_.Row(row);
  }
}

std::string Studies::Reason(double theirs, const Alone& full, const Alone& attention) {
  const double allowed = full.cost / attention.cost;
  if (allowed < theirs) return Cat("its multiply-adds allow ", Times(allowed));
  return Cat("it runs at ", Percent(attention.of_limit), " of the limit, full at ", Percent(full.of_limit));
}

std::vector<Studies::Alone> Studies::Attentions(const PublishedStudy& study, const std::vector<Json>& options,
                                                int64_t n) {
  std::vector<std::unique_ptr<LoneAttention>> attentions;
  std::vector<Turn> turns;
  for (const Json& option : options) {
    LoneAttention* attention =
        attentions.emplace_back(std::make_unique<LoneAttention>(study.shape, option, precision_, n, threads_))
            .get();
    turns.push_back({[=, this, &study] { attention->Run(study.batch, threads_); }});
  }
  TakeTurns(turns, limits_);
  std::vector<Alone> measured;
  for (size_t i = 0; i < turns.size(); ++i) {
    const double least = study.batch * limits_.LeastTime(2 * attentions[i]->Cost(), attentions[i]->Bytes());
    measured.push_back({turns[i].seconds, least / turns[i].seconds, attentions[i]->Cost()});
  }
  return measured;
}

std::vector<Turn> Studies::Models(const PublishedStudy& study, const std::vector<Json>& options, int64_t n) {
  std::vector<RandomModel> models;
  for (const Json& option : options)
    models.push_back(MakeRandomModel(Stack(study.shape, option), precision_));
  std::vector<Turn> turns;
  for (const RandomModel& model : models) {
    turns.push_back({[this, &model, &study, n] { Read(*model, n, study.batch, threads_); }});
  }
  TakeTurns(turns, limits_);
  return turns;
}

}  // namespace

void PublishedSection(Threads& threads) {
  const Precision precision = Supported(Precision::kBf16);
  std::printf("%s; attention alone, whole models\n", std::string(Name(precision)).c_str());
  const int64_t longest = LongestText();
  PublishedTable table;
  Studies studies(threads, precision, table);
  for (const PublishedStudy& study : PublishedStudies()) studies.Run(study, longest);
  SampleImages(threads, precision, longest, table);
  EvaluateWithMemory(threads, precision, longest, table);
  for (const std::string& line : studies.left_out()) std::printf("left out: %s\n", line.c_str());
}

}  // namespace heed
