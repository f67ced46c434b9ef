#include "server/jobs/beam.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/error.h"

namespace heed {
namespace {

class BeamJob : public Job {
 public:
  BeamJob(GenerateInput input, const StopOptions& stopping, const BeamOptions& beam,
          std::function<void(const absl::Status&)> done)
      : Job(TermsOf(input.input, Longest(input.input, stopping), beam.width)),
        results_(beam.results),
        ends_(EndTokens(input.input.model->info(), stopping)),
        include_stop_(stopping.include_stop),
        input_(std::move(input)),
        done_(std::move(done)),
        prompt_(input_.input),
        search_(beam, ends_, MostTokens(input_.input, stopping), RulingOf(input_, stopping)) {}

  int64_t Rows() const override { return prompt_.read() ? search_.live() : prompt_.left(); }

  void Next(int64_t rows, std::vector<Work>* batch) override {
    if (!prompt_.begun()) TellAll(Started{input_.input.given(), /*seed=*/0});
    if (!prompt_.read()) {
      batch->push_back(
          prompt_.Next(rows, [this](std::span<const float> logits) { search_.Read(0, logits); }));
      return;
    }
    for (size_t i = 0; i < beams_.size(); ++i) batch->push_back(NextOf(static_cast<int>(i)));
  }

  absl::StatusOr<bool> Take() override {
    if (!prompt_.read()) return false;
    if (auto sequence = prompt_.Take()) beams_.push_back({std::move(sequence), -1});
    ASSIGN_OR_RETURN(const std::vector<BeamSearch::Extension> extensions, search_.Advance());
    Follow(extensions);
    if (!extensions.empty()) return false;
    Tell();
    return true;
  }

  void End(const absl::Status& status) override {
    beams_.clear();
    prompt_.Take();
    if (!told_) TellAll(status);
    done_(status);
  }

 private:
  // A live hypothesis's.
  struct Beam {
    std::unique_ptr<Sequence> sequence;
    int32_t token;  // that it reads next
  };

  Work NextOf(int i) {
    return {.sequence = beams_[i].sequence.get(),
            .tokens = {beams_[i].token},
            .wanted = {0},
            .read = [this, i](int32_t, std::span<const float> logits) { search_.Read(i, logits); }};
  }

  // The last child of a hypothesis gets its sequence, the others a fork; one without children is dropped
  // before anything is forked.
  void Follow(const std::vector<BeamSearch::Extension>& extensions) {
    std::vector<int> children(beams_.size());
    for (const auto& extension : extensions) ++children[extension.parent];
    for (size_t i = 0; i < beams_.size(); ++i) {
      if (children[i] == 0) beams_[i].sequence.reset();
    }
    std::vector<Beam> next;
    for (const auto& [parent, token] : extensions) {
      std::unique_ptr<Sequence>& sequence = beams_[parent].sequence;
      next.push_back({--children[parent] > 0 ? sequence->Clone() : std::move(sequence), token});
    }
    beams_ = std::move(next);
  }

  void Tell() {
    told_ = true;
    const std::vector<BeamSearch::Hypothesis> found = search_.Results();
    for (int i = 0; i < results_; ++i) {
      if (i < std::ssize(found)) CountMade(std::ssize(found[i].tokens));
      if (i >= std::ssize(found)) {
        Add(i, Error(ErrorReason::kTooFewResults, "the search has found ", found.size(), " texts only"));
        continue;
      }
      Add(i, PieceOf(found[i]));
      Add(i, Finished{.reason = found[i].ended ? Finished::Reason::kEndToken : Finished::Reason::kMaxTokens,
                      .stop_token = found[i].ended ? std::optional(found[i].tokens.back()) : std::nullopt,
                      .usage = Spent(input_.input.given(), std::ssize(found[i].tokens)),
                      .score = found[i].score});
    }
  }

  Piece PieceOf(const BeamSearch::Hypothesis& found) const {
    Piece piece;
    for (size_t i = 0; i < found.tokens.size(); ++i) {
      piece.tokens.push_back({.token = found.tokens[i], .logprob = found.logprobs[i], .top = {}});
    }
    if (!input_.tokenizer) return piece;
    PieceDecoder text(*input_.tokenizer, input_.input.ids, /*skip_special_tokens=*/true);
    const size_t shown = found.tokens.size() - (found.ended && !include_stop_ ? 1 : 0);
    for (size_t i = 0; i < shown; ++i) piece.text += text.Add(found.tokens[i]);
    piece.text += text.Finish();
    return piece;
  }

  void TellAll(const decltype(StreamEvent::what)& what) {
    for (int i = 0; i < results_; ++i) Add(i, what);
  }

  void Add(int sample, decltype(StreamEvent::what) what) {
    input_.events->Add({.input = input_.index, .sample = sample, .what = std::move(what)});
  }

  const int results_;
  const std::vector<int32_t> ends_;
  const bool include_stop_;
  const GenerateInput input_;
  const std::function<void(const absl::Status&)> done_;
  Prompt prompt_;
  BeamSearch search_;
  std::vector<Beam> beams_;  // as many as search_.live(), in its order, once the prompt is read
  bool told_ = false;        // the results
};

}  // namespace

absl::StatusOr<std::shared_ptr<Job>> NewBeamJob(GenerateInput input, const StopOptions& stopping,
                                                const BeamOptions& beam,
                                                std::function<void(const absl::Status&)> done) {
  RETURN_IF_ERROR(Validate(input, stopping));
  RETURN_IF_ERROR(Validate(beam));
  if (beam.width == 0) return Invalid("beam.width is 0");
  if (!stopping.stop_strings.empty()) return Invalid("a beam search has no stop strings");
  const std::shared_ptr<StreamBuffer> events = input.events;
  auto job = std::make_shared<BeamJob>(std::move(input), stopping, beam, std::move(done));
  events->AddProducer(job);
  return job;
}

}  // namespace heed
