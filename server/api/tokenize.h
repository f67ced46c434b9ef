// Texts to tokens and back, for clients: what the model's tokenizer does, without the model.
#ifndef HEED_SERVER_API_TOKENIZE_H_
#define HEED_SERVER_API_TOKENIZE_H_

#include <memory>

#include "absl/status/status.h"
#include "heed/v1/inference.pb.h"
#include "server/api/context.h"
#include "server/transport/unary_call.h"

namespace heed {

using TokenizeCall = UnaryCall<v1::TokenizeRequest, v1::TokenizeResponse>;
using DetokenizeCall = UnaryCall<v1::DetokenizeRequest, v1::DetokenizeResponse>;

// Begins what ends the call, in the edge's intake; an error is the call's.
absl::Status Tokenize(const ApiContext& api, std::shared_ptr<TokenizeCall> call);
absl::Status Detokenize(const ApiContext& api, std::shared_ptr<DetokenizeCall> call);

}  // namespace heed

#endif  // HEED_SERVER_API_TOKENIZE_H_
