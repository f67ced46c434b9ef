// What unary calls of many inputs have in common: the model that a request names, and the response that is
// made of what each input was answered with.
#ifndef HEED_SERVER_API_MANY_INPUTS_H_
#define HEED_SERVER_API_MANY_INPUTS_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status.h"
#include "heed/v1/inference.pb.h"
#include "server/api/answers.h"
#include "server/api/context.h"
#include "server/api/models.h"
#include "server/api/options.h"
#include "server/error.h"

namespace heed {

// How many inputs a request has.
template <typename Request>
int InputsOf(const Request& request) {
  return request.inputs_size();
}
inline int InputsOf(const v1::RerankRequest& request) { return request.documents_size(); }

// A call's model, which answers the RPC, when the request has inputs and not too many. `field`: what they are
// called.
template <typename Call>
absl::StatusOr<const ServedModel*> ModelFor(std::string_view rpc, const ApiContext& api, Call& call,
                                            std::string_view field = "inputs") {
  ASSIGN_OR_RETURN(const ServedModel* model,
                   FindFor(rpc, call.request().target(), *api.registry, call.rights()));
  call.record().Asks(model->spec.name);
  RETURN_IF_ERROR(CheckCount(InputsOf(call.request()), api.limits().inputs(), field));
  return model;
}

// Of errors only: what the caller can best act on.
template <typename Value>
absl::Status ErrorOfAll(const std::vector<absl::StatusOr<Value>>& results) {
  absl::Status told = results.front().status();
  for (const auto& result : results) {
    if (MoreActionable(result.status(), told)) told = result.status();
  }
  return told;
}

// Each result in its place; where none is an answer, an error that stands for all.
template <typename Response, typename Value>
absl::StatusOr<Response> ToResponse(const ServedModel& model, std::vector<absl::StatusOr<Value>> results) {
  if (std::ranges::none_of(results, [](const auto& result) { return result.ok(); }))
    return ErrorOfAll(results);
  Response response;
  response.set_model(model.spec.name);
  response.set_version(model.spec.version);
  for (auto& result : results) {
    auto* out = response.add_results();
    if (result.ok()) {
      *out->mutable_value() = *std::move(result);
    } else {
      *out->mutable_error() = ToError(result.status());
    }
  }
  return response;
}

// ANSWER_TOO_LARGE if no message holds it.
template <typename Response>
absl::Status CheckSent(const Response& response, int64_t send_bytes) {
  const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  if (bytes <= send_bytes) return absl::OkStatus();
  return Beyond(Error(ErrorReason::kAnswerTooLarge, "the answer has ", bytes,
                      " bytes, and a message from the server at most ", send_bytes),
                bytes, send_bytes);
}

}  // namespace heed

#endif  // HEED_SERVER_API_MANY_INPUTS_H_
