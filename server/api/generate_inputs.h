// The inputs of a Generate as jobs, whose samples all tell into one buffer. It knows no call: whoever reads
// the events tells the client, and those that nobody reads any more still count.
#ifndef HEED_SERVER_API_GENERATE_INPUTS_H_
#define HEED_SERVER_API_GENERATE_INPUTS_H_

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/generation/beam_search.h"
#include "heed/v1/inference.pb.h"
#include "server/api/context.h"
#include "server/api/inputs.h"
#include "server/call_record.h"
#include "server/jobs/generate.h"
#include "server/jobs/input_jobs.h"
#include "server/stream_buffer.h"
#include "server/tokens.h"

namespace heed {

struct GeneratePlan {
  const ServedModel* model = nullptr;
  GenerateOptions options;  // these two: without an input's own limits
  BeamOptions beam;         // width 0: samples are drawn
  std::shared_ptr<const TokenRules> rules;
  Time arrival{}, deadline{};
  std::string request_id;
  std::shared_ptr<Trace> trace;  // the call's; null: none

  int samples() const { return beam.width > 0 ? beam.results : options.samples; }
};
// INVALID_ARGUMENT, with the field, for what no input could make right. `rights`: FindFor()'s. The record is
// told of the model.
absl::StatusOr<GeneratePlan> PlanOf(const v1::GenerateRequest& request, const ApiContext& api,
                                    const Rights* rights, CallRecord* record);

class GenerateInputs final : public InputJobs {
 public:
  // `ready`: StreamBuffer's. Stops when `client_gone` says so.
  GenerateInputs(const ApiContext& api, std::shared_ptr<const v1::GenerateRequest> request,
                 const GeneratePlan& plan, std::function<void()> ready, std::stop_token client_gone);
  ~GenerateInputs() override;

  // The next event, if there is one: each sample of each input starts, unless it fails before, and finishes
  // or fails once. One thread at a time.
  std::optional<StreamEvent> Next();
  // Why the whole request is refused; OK while it is not.
  using InputJobs::refusal;

 private:
  absl::StatusOr<std::shared_ptr<Job>> Make(int i) override;
  void Refused(int i, const absl::Status& status) override;
  void Complete() override {}  // the events have told it

  absl::StatusOr<std::shared_ptr<Job>> NewJob(int i, ReadInput read);
  JobInput Prompt(ReadInput read) const;
  absl::Status ReserveFor(int64_t max_tokens);
  void CountEnd(const StreamEvent& event) const;

  const std::shared_ptr<const v1::GenerateRequest> request_;
  const GeneratePlan plan_;
  const int64_t longest_;
  ModelMetrics* const metrics_;
  const InputReader reader_;
  const std::shared_ptr<StreamBuffer> events_;
  int64_t streamed_ = 0;  // tokens of the events that were reserved for; Make()'s
  const std::stop_callback<std::function<void()>> when_gone_;
};

}  // namespace heed

#endif  // HEED_SERVER_API_GENERATE_INPUTS_H_
