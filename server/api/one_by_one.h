// A unary call of many inputs none of which needs a model's turn: they are answered one after another, each
// in a task of its own on the edge's intake, so that a request of many keeps nobody else's from being read.
//
// The call is held by this, and this by its next task.
#ifndef HEED_SERVER_API_ONE_BY_ONE_H_
#define HEED_SERVER_API_ONE_BY_ONE_H_

#include <atomic>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/api/context.h"
#include "server/api/many_inputs.h"
#include "server/error.h"
#include "server/jobs/answer_memory.h"
#include "server/registry.h"
#include "server/transport/unary_call.h"

namespace heed {

template <typename Request, typename Response>
class OneByOne : public std::enable_shared_from_this<OneByOne<Request, Response>> {
 public:
  using Call = UnaryCall<Request, Response>;
  using Value = std::decay_t<decltype(std::declval<Response>().results(0).value())>;

  OneByOne(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model)
      : edge_(api.edge),
        model_(model),
        send_bytes_(api.config->transport().send_bytes()),
        reserved_(std::make_shared<ReservedAnswer>(api.answer_memory)),
        call_(std::move(call)) {}
  virtual ~OneByOne() = default;

  // On the edge's intake. From here on it lives by itself.
  void Begin() {
    call_->WhenCancelled([gone = gone_, reserved = reserved_] { *gone = true; });
    Next();
  }

 protected:
  // The i-th input's. In order, once for each, one at a time; what it throws is that input's error.
  virtual absl::StatusOr<Value> Answer(int i) = 0;

  // For Answer(): the memory of an answer, until the call has ended. An error is the whole request's.
  absl::Status Reserve(int64_t bytes) { return refusal_ = reserved_->Add(bytes); }

  const Request& request() const { return call_->request(); }
  const ServedModel& model() const { return *model_; }
  Call& call() { return *call_; }
  Edge& edge() const { return *edge_; }

 private:
  void Next() {
    if (absl::Status status = MayGoOn(); !status.ok()) return Fail(status);
    Take(static_cast<int>(results_.size()));
    if (!refusal_.ok()) return Fail(refusal_);
    if (static_cast<int>(results_.size()) == request().inputs_size()) return Respond();
    edge_->intake().Run([self = this->shared_from_this()] { self->Next(); });
  }

  absl::Status MayGoOn() const {
    if (*gone_) return Error(ErrorReason::kClientCancelled, "the client has gone");
    if (edge_->clock().Now() >= call_->deadline())
      return Error(ErrorReason::kDeadlineExceeded, "the deadline has passed");
    return absl::OkStatus();
  }

  void Take(int i) {
    absl::StatusOr<Value> value = absl::UnknownError("");
    const absl::Status thrown = edge_->Try([&] { value = Answer(i); }, call_->request_id());
    results_.push_back(thrown.ok() ? std::move(value) : thrown);
  }

  void Respond() {
    const absl::StatusOr<Response> response = ToResponse<Response>(*model_, std::move(results_));
    if (!response.ok()) return Fail(response.status());
    const absl::Status sent = CheckSent(*response, send_bytes_);
    sent.ok() ? call_->Answer(*response) : Fail(sent);
  }

  void Fail(const absl::Status& status) { call_->Fail(About(status, "model", model_->spec.name)); }

  Edge* const edge_;
  const ServedModel* const model_;
  const int64_t send_bytes_;
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<ReservedAnswer> reserved_;
  const std::shared_ptr<Call> call_;
  absl::Status refusal_;
  std::vector<absl::StatusOr<Value>> results_;
};

}  // namespace heed

#endif  // HEED_SERVER_API_ONE_BY_ONE_H_
