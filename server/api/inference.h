// heed.v1.Inference: requests become jobs of a model's scheduler, and what these give becomes answers.
#ifndef HEED_SERVER_API_INFERENCE_H_
#define HEED_SERVER_API_INFERENCE_H_

#include "heed/v1/inference.grpc.pb.h"
#include "server/api/context.h"

namespace heed {

class InferenceService final
    : public v1::Inference::WithRawCallbackMethod_Classify<v1::Inference::WithRawCallbackMethod_Embed<
          v1::Inference::WithRawCallbackMethod_Score<v1::Inference::WithRawCallbackMethod_Fill<
              v1::Inference::WithRawCallbackMethod_Generate<v1::Inference::WithRawCallbackMethod_Tokenize<
                  v1::Inference::WithRawCallbackMethod_Detokenize<v1::Inference::WithRawCallbackMethod_Rerank<
                      v1::Inference::WithRawCallbackMethod_Answer<v1::Inference::Service>>>>>>>>> {
 public:
  explicit InferenceService(const ApiContext& api) : api_(api) {}

  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Fill(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Rerank(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;

 private:
  const ApiContext api_;
};

}  // namespace heed

#endif  // HEED_SERVER_API_INFERENCE_H_
