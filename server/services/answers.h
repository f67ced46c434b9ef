// What jobs give, as messages.
#ifndef HEED_SERVER_SERVICES_ANSWERS_H_
#define HEED_SERVER_SERVICES_ANSWERS_H_

#include "engine/text/tokenizer.h"
#include "heed/v1/heed.pb.h"
#include "server/jobs/classify.h"
#include "server/jobs/classify_tokens.h"
#include "server/jobs/embed.h"
#include "server/jobs/fill.h"
#include "server/jobs/score.h"
#include "server/registry.h"
#include "server/stream_buffer.h"

namespace heed {

v1::Usage ToMessage(const Usage& usage);
v1::Classification ToMessage(const Classified& answer);
v1::Classification ToMessage(const ClassifiedTokens& answer);
v1::Embedding ToMessage(const Embedded& answer);
// Texts of tokens are empty without a tokenizer.
v1::Scored ToMessage(const Scored& answer, const Tokenizer* tokenizer, bool by_token);
v1::Filled ToMessage(const Filled& answer, const Tokenizer* tokenizer);
v1::GenerateEvent ToMessage(const StreamEvent& event, const ServedModel& model,
                            const v1::DetailOptions& details);

}  // namespace heed

#endif  // HEED_SERVER_SERVICES_ANSWERS_H_
