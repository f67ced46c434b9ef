// One Generate: a stream of what happens to each sample of each input. It holds its inputs, which know
// nothing of it: events wake it, and it goes and fetches them.
#ifndef HEED_SERVER_API_GENERATE_CALL_H_
#define HEED_SERVER_API_GENERATE_CALL_H_

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "heed/v1/inference.pb.h"
#include "server/api/context.h"
#include "server/api/generate_events.h"
#include "server/api/generate_inputs.h"
#include "server/transport/stream_call.h"

namespace heed {

class GenerateCall final : public StreamCall {
 public:
  GenerateCall(const ApiContext& api, const Method& method, grpc::CallbackServerContext* context,
               const grpc::ByteBuffer* request);

 private:
  absl::Status Open(const grpc::ByteBuffer& bytes) override;
  Next Take() override;
  void Abandon(bool at_deadline) override;

  Next Tell(const StreamEvent& event);
  void MeasureTaken(const StreamEvent& event);
  void Record(const StreamEvent& event);

  const ApiContext api_;
  std::stop_source client_gone_;

  // From Open() on; then whoever takes.
  std::shared_ptr<const v1::GenerateRequest> request_;
  const ServedModel* model_ = nullptr;
  std::shared_ptr<GenerateInputs> inputs_;
  std::optional<GenerateEvents> events_;
  struct Taken {
    Time last{};  // token
    int64_t tokens = 0;
  };
  std::map<std::pair<int, int>, Taken> taken_;  // of each input's sample that has one
};

}  // namespace heed

#endif  // HEED_SERVER_API_GENERATE_CALL_H_
