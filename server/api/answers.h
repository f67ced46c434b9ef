// What jobs give, as messages.
#ifndef HEED_SERVER_API_ANSWERS_H_
#define HEED_SERVER_API_ANSWERS_H_

#include "engine/text/tokenizer.h"
#include "heed/v1/inference.pb.h"
#include "server/jobs/classify.h"
#include "server/jobs/classify_tokens.h"
#include "server/jobs/embed.h"
#include "server/jobs/fill.h"
#include "server/jobs/score.h"
#include "server/registry.h"
#include "server/stream_buffer.h"

namespace heed {

v1::Error ToError(const absl::Status& status);
v1::Usage ToMessage(const Usage& usage);
v1::Classification ToMessage(const Classified& answer);
v1::Classification ToMessage(const ClassifiedRows& answer);
v1::Classification ToMessage(const ClassifiedTokens& answer);
v1::Embedding ToMessage(const Embedded& answer);
// Texts of tokens are empty without a tokenizer.
v1::Scored ToMessage(const Scored& answer, const Tokenizer* tokenizer, bool logprobs);
v1::Filled ToMessage(const Filled& answer, const Tokenizer* tokenizer);
v1::GenerateEvent ToMessage(const StreamEvent& event, const ServedModel& model,
                            const v1::GenerateDetails& details);

}  // namespace heed

#endif  // HEED_SERVER_API_ANSWERS_H_
