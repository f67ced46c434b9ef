// A unary call of many inputs: each is read, becomes a job, and its answer a message, on the edge's answer
// threads; when the last has its own, the response is written. A method says how an input is read and what
// its job gives.
//
// The call is held by this, this by its jobs; the call itself holds the memory that was reserved.
#ifndef HEED_SERVER_API_ANSWERING_H_
#define HEED_SERVER_API_ANSWERING_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status.h"
#include "server/api/answer_bytes.h"
#include "server/api/answers.h"
#include "server/api/attention.h"
#include "server/api/context.h"
#include "server/api/inputs.h"
#include "server/api/many_inputs.h"
#include "server/error.h"
#include "server/jobs/input_jobs.h"
#include "server/jobs/reading.h"
#include "server/transport/unary_call.h"

namespace heed {

template <typename Request, typename Response>
class Answering : public InputJobs {
 public:
  using Call = UnaryCall<Request, Response>;
  using Value = std::decay_t<decltype(std::declval<Response>().results(0).value())>;

  // `weights` of attention that the request asks for.
  Answering(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model,
            std::optional<WeightsChoice> weights)
      : InputJobs({.edge = api.edge,
                   .model = model,
                   .memory = api.answer_memory,
                   .inputs = InputsOf(call->request()),
                   .urgency = {.priority = call->request().target().priority(), .deadline = call->deadline()},
                   .request_id = call->request_id(),
                   .trace = call->trace()}),
        metrics_(api.metrics->Of(*model)),
        reader_(model, api, call->request().text(), MaxInputTokens(model->info(), api.limits())),
        weights_(std::move(weights)),
        attention_bytes_(api.limits().attention_bytes()),
        send_bytes_(api.config->transport().send_bytes()),
        call_(std::move(call)),
        results_(InputsOf(call_->request()), absl::UnknownError("")) {}

  // From here on it lives by itself.
  void Begin() {
    call_->WhenCancelled([weak = weak_from_this(), reserved = reserved_] {
      if (auto jobs = weak.lock()) jobs->Stop(Error(ErrorReason::kClientCancelled, "the client has gone"));
    });
    Start();
  }

 protected:
  const Request& request() const { return call_->request(); }
  const InputReader& reader() const { return reader_; }
  ModelMetrics* metrics() const { return metrics_; }
  const ModelInfo& info() const { return model().info(); }
  // The longest that a token's bytes are.
  int64_t token_bytes() const { return model().tokenizer() ? model().tokenizer()->max_token_bytes() : 0; }

  JobInput ToJob(ReadInput input) const {
    return {.model = &model().model(),
            .ids = std::move(input.ids),
            .urgency = urgency(),
            .source = std::move(input.global_ids),
            .labels = std::move(input.labels),
            .types = std::move(input.types),
            .numbers = std::move(input.numbers),
            .columns = input.columns,
            .image = std::move(input.image)};
  }
  // The memory of the i-th input's answer: `bytes`, and what the request's details add, for which the job is
  // asked. The job will read so many rows; there is none that reads no row.
  absl::Status ReserveAnswer(int i, int64_t bytes, int64_t rows, JobInput* input) {
    if (weights_ && rows > 0) {
      const int64_t source = std::ssize(input->source);
      RETURN_IF_ERROR(CheckChoice(*weights_, info(), rows, source, attention_bytes_, Where(i)));
      bytes += AttentionWeightsBytes(*weights_, info(), rows, source);
      input->weights = weights_;
    }
    return Reserve(bytes);
  }
  static std::string Where(int i) { return Cat("inputs[", i, "]"); }
  // What a factory of jobs refuses is the input's fault.
  static absl::StatusOr<std::shared_ptr<Job>> AtInput(absl::StatusOr<std::shared_ptr<Job>> job, int i) {
    return job.ok() ? std::move(job) : AtField(job.status(), Where(i));
  }

  // Takes what the i-th job gives, of which `convert` makes the message.
  template <typename Result, typename Convert>
  typename AnsweringJob<Result>::Done Into(int i, Convert convert) {
    return [self = Self(), i, convert](absl::StatusOr<std::shared_ptr<AnsweringJob<Result>>> job) {
      if (!job.ok()) return self->Put(i, job.status());
      self->edge().answers().Run([self, i, convert, job = *std::move(job)] {
        absl::StatusOr<Value> value = absl::UnknownError("");
        const auto answer = [&] {
          const Result result = job->Answer();
          self->Spent(result.usage);
          value = convert(result);
          if constexpr (requires { value->mutable_attention(); }) {
            if (job->choice())
              *value->mutable_attention() = ToMessage(*job->choice(), job->weights(), self->info());
          }
        };
        const absl::Status status = self->edge().Try(answer, self->call_->request_id());
        self->Put(i, status.ok() ? std::move(value) : status);
      });
    };
  }
  template <typename Result>
  typename AnsweringJob<Result>::Done Into(int i) {
    return Into<Result>(i, [](const Result& result) { return ToMessage(result); });
  }

 private:
  // Of a response in whose order the inputs need not be.
  virtual void Arrange(Response* /*response*/) const {}

  std::shared_ptr<Answering> Self() { return std::static_pointer_cast<Answering>(shared_from_this()); }

  void Spent(const Usage& usage) {
    metrics_->Spent(usage);
    call_->record().Add({.tokens_read = usage.input_tokens, .queued = usage.queued});
  }

  void Put(int i, absl::StatusOr<Value> result) {
    Keep(i, std::move(result));
    Ended(i);
  }

  void Refused(int i, const absl::Status& status) override {
    metrics_->Refused(status);
    Keep(i, status);
  }

  void Keep(int i, absl::StatusOr<Value> result) {
    const Duration since_arrival = edge().clock().Now() - call_->arrival();
    if (result.ok()) {
      metrics_->Succeeded(FinishedBy::kComplete, since_arrival);
    } else {
      metrics_->Failed(result.status(), since_arrival);
    }
    results_[i] = std::move(result);
  }

  void Complete() override {
    edge().answers().Run([self = Self()] { self->Respond(); });
  }

  void Respond() {
    if (absl::Status refused = refusal(); !refused.ok()) return Fail(refused);
    absl::StatusOr<Response> response = ToResponse<Response>(model(), std::move(results_));
    if (!response.ok()) return Fail(response.status());
    Arrange(&*response);
    const absl::Status sent = CheckSent(*response, send_bytes_);
    sent.ok() ? call_->Answer(*response) : Fail(sent);
  }

  void Fail(const absl::Status& status) { call_->Fail(About(status, "model", model().spec.name)); }

  ModelMetrics* const metrics_;
  const InputReader reader_;
  const std::optional<WeightsChoice> weights_;
  const int64_t attention_bytes_, send_bytes_;
  const std::shared_ptr<Call> call_;
  std::vector<absl::StatusOr<Value>> results_;  // [i]: written once, by whoever ends the i-th
};

}  // namespace heed

#endif  // HEED_SERVER_API_ANSWERING_H_
