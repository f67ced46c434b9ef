#include "server/jobs/generate.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "server/error.h"

namespace heed {
namespace {

using Reason = Finished::Reason;

// Why a sampler has chosen none.
absl::Status NoChoice(const absl::Status& why, bool too_short) {
  if (absl::IsInternal(why)) return Error(ErrorReason::kOutputNotFinite, why.message());
  const absl::Status none_left = Error(ErrorReason::kNoTokenLeft, why.message());
  return too_short ? AtField(none_left, "stopping.min_tokens") : none_left;
}

// One of the texts that continue the prompt.
class Sample {
 public:
  Sample(const GenerateInput& input, const GenerateOptions& options, int index)
      : ends_(EndTokens(input.input.model->info(), options.stopping)),
        most_tokens_(MostTokens(input.input, options.stopping)),
        least_tokens_(options.sampling.min_tokens),
        include_stop_(options.stopping.include_stop),
        sampler_(options.sampling, ends_, std::span(input.input.ids).subspan(input.input.start_put ? 1 : 0),
                 index, RulingOf(input, options.stopping)),
        stops_(options.stopping.stop_strings, include_stop_) {
    if (input.tokenizer) pieces_.emplace(*input.tokenizer, input.input.ids, /*skip_special_tokens=*/true);
  }

  // The next token, on some engine thread.
  void Choose(std::span<const float> logits) {
    absl::StatusOr<TokenChoice> choice = sampler_.Next(logits);
    if (!choice.ok()) {
      error_ = NoChoice(choice.status(), tokens() < least_tokens_);
      return;
    }
    latest_ = choice->token;
    const bool end = std::ranges::find(ends_, latest_) != ends_.end();
    if (pieces_ && (!end || include_stop_)) piece_.text += stops_.Add(pieces_->Add(latest_));
    piece_.tokens.push_back(*std::move(choice));
    if (end) {
      reason_ = Reason::kEndToken;
    } else if (tokens() == most_tokens_) {
      reason_ = Reason::kMaxTokens;
    }
    if (reason_) FinishText();
    if (stops_.matched()) reason_ = Reason::kStopString;
  }

  bool over() const { return reason_ || !error_.ok(); }
  const absl::Status& error() const { return error_; }
  Reason reason() const { return *reason_; }
  const std::string& stop_string() const { return stops_.match(); }
  std::optional<int32_t> stop_token() const {
    return reason_ == Reason::kEndToken ? std::optional(latest_) : std::nullopt;
  }
  int32_t latest() const { return latest_; }
  int64_t tokens() const { return std::ssize(sampler_.generated()); }
  Piece TakePiece() { return std::exchange(piece_, {}); }

  std::unique_ptr<Sequence> sequence;  // its own, while it decodes
  bool told = false;                   // its end has been told

 private:
  void FinishText() {
    if (!pieces_) return;
    piece_.text += stops_.Add(pieces_->Finish());
    piece_.text += stops_.Finish();
  }

  const std::vector<int32_t> ends_;
  const int64_t most_tokens_, least_tokens_;
  const bool include_stop_;
  Sampler sampler_;
  StopStrings stops_;
  std::optional<PieceDecoder> pieces_;
  int32_t latest_ = -1;
  Piece piece_;  // since it was last taken
  std::optional<Reason> reason_;
  absl::Status error_;
};

class GenerateJob : public Job {
 public:
  GenerateJob(GenerateInput input, const GenerateOptions& options,
              std::function<void(const absl::Status&)> done)
      : Job(TermsOf(input.input, Longest(input.input, options.stopping), options.samples)),
        seed_(options.sampling.seed),
        input_(std::move(input)),
        done_(std::move(done)),
        prompt_(input_.input) {
    for (int i = 0; i < options.samples; ++i)
      samples_.push_back(std::make_unique<Sample>(input_, options, i));
  }

  int64_t Rows() const override {
    if (!prompt_.read()) return prompt_.left();
    if (input_.events->full()) return 0;
    return std::ranges::count_if(samples_, [](const auto& sample) { return !sample->over(); });
  }

  void Next(int64_t rows, std::vector<Work>* batch) override {
    if (!prompt_.read()) return NextOfPrompt(rows, batch);
    for (const auto& sample : samples_) {
      if (!sample->over()) batch->push_back(NextOf(*sample));
    }
  }

  absl::StatusOr<bool> Take() override {
    if (!prompt_.read()) return false;
    bool over = true;
    for (size_t i = 0; i < samples_.size(); ++i) {
      Tell(static_cast<int>(i));
      over = over && samples_[i]->over();
    }
    if (auto sequence = prompt_.Take()) Share(std::move(sequence));
    return over;
  }

  void End(const absl::Status& status) override {
    for (size_t i = 0; i < samples_.size(); ++i) {
      samples_[i]->sequence.reset();
      if (!samples_[i]->told) Add(static_cast<int>(i), status);
    }
    prompt_.Take();
    done_(status);
  }

 private:
  void NextOfPrompt(int64_t rows, std::vector<Work>* batch) {
    if (!prompt_.begun()) {
      for (size_t i = 0; i < samples_.size(); ++i) Add(static_cast<int>(i), Started{given(), seed_});
    }
    batch->push_back(prompt_.Next(rows, [this](std::span<const float> logits) {
      for (const auto& sample : samples_) sample->Choose(logits);
    }));
  }

  int64_t given() const { return input_.input.given(); }

  static Work NextOf(Sample& sample) {
    return {.sequence = sample.sequence.get(),
            .tokens = {sample.latest()},
            .wanted = {0},
            .read = [&sample](int32_t, std::span<const float> logits) { sample.Choose(logits); }};
  }

  // Each sample that goes on gets the prompt's sequence: the last of them itself, the others a fork.
  void Share(std::unique_ptr<Sequence> sequence) {
    Sample* last = nullptr;
    for (const auto& sample : samples_) {
      if (sample->over()) continue;
      if (last) last->sequence = sequence->Clone();
      last = sample.get();
    }
    if (last) last->sequence = std::move(sequence);
  }

  // What the latest step has made of a sample.
  void Tell(int i) {
    Sample& sample = *samples_[i];
    if (sample.told) return;
    if (Piece piece = sample.TakePiece(); !piece.tokens.empty()) {
      CountMade(std::ssize(piece.tokens));
      Add(i, std::move(piece));
    }
    if (!sample.over()) return;
    sample.told = true;
    sample.sequence.reset();
    if (!sample.error().ok()) return Add(i, sample.error());
    Add(i, Finished{.reason = sample.reason(),
                    .stop_string = sample.stop_string(),
                    .stop_token = sample.stop_token(),
                    .usage = Spent(given(), sample.tokens())});
  }

  void Add(int sample, decltype(StreamEvent::what) what) {
    input_.events->Add({.input = input_.index, .sample = sample, .what = std::move(what)});
  }

  const uint64_t seed_;
  const GenerateInput input_;
  const std::function<void(const absl::Status&)> done_;
  std::vector<std::unique_ptr<Sample>> samples_;
  Prompt prompt_;
};

absl::Status Validate(const GenerateInput& input, const GenerateOptions& options) {
  RETURN_IF_ERROR(Validate(input, options.stopping));
  RETURN_IF_ERROR(Validate(options.sampling, input.input.model->info().vocab_size));
  if (options.samples < 1 || options.samples > 16)
    return Invalid("samples is ", options.samples, ", possible are 1 to 16");
  if (options.sampling.min_tokens > options.stopping.max_tokens) {
    return Invalid("min_tokens is ", options.sampling.min_tokens, ", max_tokens only ",
                   options.stopping.max_tokens);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Job>> NewGenerateJob(GenerateInput input, const GenerateOptions& options,
                                                    std::function<void(const absl::Status&)> done) {
  RETURN_IF_ERROR(Validate(input, options));
  const std::shared_ptr<StreamBuffer> events = input.events;
  auto job = std::make_shared<GenerateJob>(std::move(input), options, std::move(done));
  events->AddProducer(job);
  return job;
}

}  // namespace heed
