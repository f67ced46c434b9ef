// What is served, for clients: heed.v1.Models, and the one place that says which model answers which RPC.
#ifndef HEED_SERVER_SERVICES_CATALOG_H_
#define HEED_SERVER_SERVICES_CATALOG_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "heed/v1/heed.grpc.pb.h"
#include "server/registry.h"
#include "server/services/edge.h"

namespace heed {

// The RPCs of heed.v1.Inference that a model can answer: its head and architecture decide.
std::vector<std::string> RpcsOf(const ModelInfo& info);

// The model of a request, able to answer `rpc`. Errors are the registry's, and INVALID_ARGUMENT if it cannot.
absl::StatusOr<const ServedModel*> FindFor(std::string_view rpc, const v1::Target& target,
                                           const Registry& registry);

v1::ModelDescription Describe(const ServedModel& model, const v1::LimitsConfig& limits);

class ModelsService final : public v1::Models::WithRawCallbackMethod_List<
                                v1::Models::WithRawCallbackMethod_Describe<v1::Models::Service>> {
 public:
  ModelsService(Edge* edge, const Registry* registry) : edge_(edge), registry_(registry) {}

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

 private:
  Edge* const edge_;
  const Registry* const registry_;
};

}  // namespace heed

#endif  // HEED_SERVER_SERVICES_CATALOG_H_
