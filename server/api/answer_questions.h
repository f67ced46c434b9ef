// Answers to questions, found in texts.
#ifndef HEED_SERVER_API_ANSWER_QUESTIONS_H_
#define HEED_SERVER_API_ANSWER_QUESTIONS_H_

#include <memory>

#include "absl/status/status.h"
#include "heed/v1/inference.pb.h"
#include "server/api/context.h"
#include "server/transport/unary_call.h"

namespace heed {

using AnswerCall = UnaryCall<v1::AnswerRequest, v1::AnswerResponse>;

// Begins what ends the call, in the edge's intake; an error is the call's.
absl::Status AnswerQuestions(const ApiContext& api, std::shared_ptr<AnswerCall> call);

}  // namespace heed

#endif  // HEED_SERVER_API_ANSWER_QUESTIONS_H_
