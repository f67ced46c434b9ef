// A call of bytes, one step at a time, to any method: what gRPC's own stubs would not send.
#ifndef HEED_TESTS_SERVER_SERVICE_BYTES_CALL_H_
#define HEED_TESTS_SERVER_SERVICE_BYTES_CALL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/server/service/world.h"

namespace heed {

// Each step says whether it was possible. Finish() is the last.
class BytesCall {
 public:
  BytesCall(World& world, const std::string& method,
            std::unique_ptr<grpc::ClientContext> context = NewContext())
      : context_(std::move(context)),
        stub_(world.channel()),
        call_(stub_.PrepareCall(context_.get(), method, &queue_)) {
    call_->StartCall(nullptr);
    Done();
  }
  ~BytesCall() {
    queue_.Shutdown();
    while (Next()) {
    }
  }

  bool Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    call_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    return Done();
  }
  bool WritesDone() {
    call_->WritesDone(nullptr);
    return Done();
  }
  std::optional<std::string> Read() {
    grpc::ByteBuffer message;
    call_->Read(&message, nullptr);
    std::vector<grpc::Slice> slices;
    if (!Done() || !message.Dump(&slices).ok()) return std::nullopt;
    std::string bytes;
    for (const auto& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    return bytes;
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Done();
    return status;
  }
  const grpc::ClientContext& context() const { return *context_; }

 private:
  bool Next() {
    void* tag;
    return queue_.Next(&tag, &ok_);
  }
  bool Done() { return Next() && ok_; }

  const std::unique_ptr<grpc::ClientContext> context_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool ok_ = false;
};

// A call of these bytes; of no message at all if they are null.
inline grpc::Status CallWith(World& world, const std::string& method, const std::string* bytes,
                             std::unique_ptr<grpc::ClientContext> context = NewContext()) {
  BytesCall call(world, method, std::move(context));
  if (bytes) call.Write(*bytes);
  call.WritesDone();
  return call.Finish();
}

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SERVICE_BYTES_CALL_H_
