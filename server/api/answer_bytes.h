// Closed forms of what an input may be answered with at the most: what its job keeps, the message that is
// made of it, and the message's bytes on the wire. They bound what is allocated, so they are a little more.
#ifndef HEED_SERVER_API_ANSWER_BYTES_H_
#define HEED_SERVER_API_ANSWER_BYTES_H_

#include <cstdint>
#include <optional>

#include "engine/models/model.h"
#include "heed/v1/inference.pb.h"
#include "server/jobs/classify.h"
#include "server/jobs/embed.h"
#include "server/jobs/fill.h"
#include "server/jobs/find_spans.h"
#include "server/jobs/score.h"

namespace heed {

int64_t ClassificationBytes(const ClassifyOptions& options, const ModelInfo& info);
// How well a document answers a query.
int64_t RankedBytes(const ModelInfo& info);
// Spans of a context of so many bytes that is read as so many tokens.
int64_t AnsweredBytes(const SpanOptions& options, int64_t tokens, int64_t context_bytes);
// Classes of so many rows of a table.
int64_t ClassifiedRowsBytes(const ClassifyOptions& options, const ModelInfo& info, int64_t rows);
// Classes of so many tokens.
int64_t SpansBytes(const ClassifyOptions& options, const ModelInfo& info, int64_t tokens);
int64_t EmbeddingBytes(const EmbedOptions& options, const ModelInfo& info);

// `token_bytes`: Tokenizer::max_token_bytes().
int64_t ScoredBytes(const v1::ScoreOptions& options, int64_t tokens, int64_t token_bytes);
int64_t FilledBytes(const FillOptions& options, int64_t positions, int64_t token_bytes);

// Weights of attention that an input of so many rows, and such a source, is answered with beside.
int64_t AttentionWeightsBytes(const WeightsChoice& choice, const ModelInfo& info, int64_t rows,
                              int64_t source);

// So many tokens of a text. `piece_bytes`: of the texts that tell what each is, where that is told.
// `chat_bytes`: of the text that a conversation became.
int64_t TokenizedBytes(int64_t tokens, std::optional<int64_t> piece_bytes, int64_t chat_bytes);
// The text of so many tokens, `spelled`: how many bytes the vocabulary spells them with.
int64_t DetokenizedBytes(int64_t tokens, int64_t spelled);

// A token of a stream, from its making until its event has gone.
int64_t StreamedTokenBytes(const v1::GenerateDetails& details, int64_t token_bytes);
// What a sample of a stream takes beside its tokens.
int64_t StreamedSampleBytes();

}  // namespace heed

#endif  // HEED_SERVER_API_ANSWER_BYTES_H_
