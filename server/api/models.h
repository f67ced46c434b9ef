// What is served, for clients: heed.v1.Models, and the one place that says which model answers which RPC.
#ifndef HEED_SERVER_API_MODELS_H_
#define HEED_SERVER_API_MODELS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "heed/v1/models.grpc.pb.h"
#include "server/api/context.h"
#include "server/registry.h"
#include "server/tokens.h"

namespace heed {

// The RPCs of heed.v1.Inference that a model can answer: its head, its architecture and its tokenizer decide.
std::vector<std::string> RpcsOf(const LoadedModel& loaded);

// The model of a request, able to answer `rpc`, for who has these rights (null: all). Errors are the
// registry's, MODEL_FORBIDDEN, and INVALID_ARGUMENT if it cannot.
absl::StatusOr<const ServedModel*> FindFor(std::string_view rpc, const v1::Target& target,
                                           const Registry& registry, const Rights* rights);

// The models that who has these rights may know of.
std::vector<Registry::Entry> ListFor(const Registry& registry, const Rights* rights);

// All that is known of it; of one that is not READY its state, and why.
v1::ModelDescription Describe(const Registry::Entry& entry, const config::v1::LimitsConfig& limits);

v1::ModelSummary Summary(const Registry::Entry& entry);

class ModelsService final : public v1::Models::WithRawCallbackMethod_ListModels<
                                v1::Models::WithRawCallbackMethod_DescribeModel<v1::Models::Service>> {
 public:
  explicit ModelsService(const ApiContext& api) : api_(api) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DescribeModel(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;

 private:
  const ApiContext api_;
};

}  // namespace heed

#endif  // HEED_SERVER_API_MODELS_H_
