// One Generate: a stream of what happens to each sample of each input.
#ifndef HEED_SERVER_API_GENERATE_CALL_H_
#define HEED_SERVER_API_GENERATE_CALL_H_

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "heed/v1/inference.pb.h"
#include "server/api/context.h"
#include "server/stream_buffer.h"
#include "server/transport/stream_call.h"

namespace heed {

class GenerateCall final : public StreamCall {
 public:
  GenerateCall(const ApiContext& api, const Method& method, grpc::CallbackServerContext* context,
               const grpc::ByteBuffer* request);

 private:
  class Jobs;

  absl::Status Open(const grpc::ByteBuffer& bytes) override;
  Next Take() override;
  void Abandon(bool at_deadline) override;

  void Completed();  // all jobs have ended
  std::optional<StreamEvent> TakeEvent();
  void Measure(const StreamEvent& event);
  void MeasureRest();

  const ApiContext api_;
  v1::GenerateRequest request_;  // this and the next three: from Open() on
  const ServedModel* model_ = nullptr;
  ModelMetrics* metrics_ = nullptr;
  std::shared_ptr<StreamBuffer> events_;

  // Errors are held back until something has started: if nothing does, the first is the call's own, and the
  // only one told.
  std::deque<StreamEvent> held_;
  bool started_ = false;
  absl::Status first_error_;
  bool any_finished_ = false;

  std::mutex mutex_;  // guards the rest
  std::shared_ptr<Jobs> jobs_;
  bool abandoned_ = false;
  bool complete_ = false;
  std::map<std::pair<int, int>, Time> last_token_;  // of each input's sample that has one
};

}  // namespace heed

#endif  // HEED_SERVER_API_GENERATE_CALL_H_
