#include "server/api/answer_bytes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/generation/sampling.h"
#include "server/jobs/classify_tokens.h"
#include "server/jobs/reading.h"
#include "server/stream_buffer.h"

namespace heed {
namespace {

constexpr int64_t kTag = 6;         // of a field on the wire with its length, or of an integer: at most
constexpr int64_t kHeap = 16;       // the allocator's own, of a piece
constexpr int64_t kUtf8Growth = 3;  // a byte that is no character becomes U+FFFD
constexpr int64_t kEndBytes = 512;  // of the text of an error, or a stop string

// An object of a message's own, with the pointer that lists it: lists grow by doubling.
template <typename T>
constexpr int64_t Object() {
  return static_cast<int64_t>(sizeof(T)) + kHeap + 3 * static_cast<int64_t>(sizeof(void*)) + kTag;
}

// A text field; strings that were grown hold up to twice their bytes.
constexpr int64_t Text(int64_t bytes) {
  return static_cast<int64_t>(sizeof(std::string)) + kHeap + 2 * bytes + kHeap + kTag + bytes;
}

constexpr int64_t kNumber = 10;  // a field of a number, on the wire

template <typename Message>
constexpr int64_t TokenMessage(int64_t token_bytes) {
  return Object<Message>() + Text(kUtf8Growth * token_bytes) + Text(token_bytes) + 2 * kNumber;
}

constexpr int64_t TokenWithAlternatives(int64_t top, int64_t token_bytes) {
  return TokenMessage<v1::TokenLogprob>(token_bytes) + top * TokenMessage<v1::TopLogprob>(token_bytes);
}

// An input's place in the response, and its usage.
template <typename Result, typename Value>
constexpr int64_t ResultMessage() {
  return Object<Result>() + 2 * Object<Value>() + Object<v1::Usage>() + 6 * kNumber;
}

int64_t LabelMessage(const ModelInfo& info) {
  size_t longest = 0;
  for (const std::string& label : info.labels) longest = std::max(longest, label.size());
  return Object<v1::LabelScore>() + Text(static_cast<int64_t>(longest)) + 2 * kNumber;
}

// Of all labels that an answer has.
int64_t LabelMessages(const ClassifyOptions& options, const ModelInfo& info) {
  const int64_t all = std::ssize(info.labels);
  return (options.top == 0 ? all : std::min<int64_t>(options.top, all)) * LabelMessage(info);
}

}  // namespace

int64_t ClassificationBytes(const ClassifyOptions& options, const ModelInfo& info) {
  return AnswerBytes(options, info) + ResultMessage<v1::ClassifyResponse::Result, v1::Classification>() +
         LabelMessages(options, info);
}

int64_t RankedBytes(const ModelInfo& info) {
  return AnswerBytes(ClassifyOptions{}, info) + ResultMessage<v1::RerankResponse::Result, v1::Ranked>();
}

// The offsets of tokens are kept until the answer is made.
int64_t AnsweredBytes(const SpanOptions& options, int64_t tokens, int64_t context_bytes) {
  const int64_t span = Object<v1::AnswerSpan>() + Text(context_bytes) + 3 * kNumber;
  return AnswerBytes(options, tokens) + ResultMessage<v1::AnswerResponse::Result, v1::Answered>() +
         2 * tokens * static_cast<int64_t>(sizeof(int32_t)) + options.top * span;
}

int64_t ClassifiedRowsBytes(const ClassifyOptions& options, const ModelInfo& info, int64_t rows) {
  return AnswerBytesOfRows(options, info, rows) +
         ResultMessage<v1::ClassifyResponse::Result, v1::Classification>() +
         rows * (Object<v1::ClassifiedRow>() + LabelMessages(options, info));
}

int64_t SpansBytes(const ClassifyOptions& options, const ModelInfo& info, int64_t tokens) {
  const int64_t span = Object<v1::LabeledSpan>() + LabelMessage(info) + 2 * kNumber;
  return AnswerBytes(options, info, tokens) +
         ResultMessage<v1::ClassifyResponse::Result, v1::Classification>() + tokens * span;
}

int64_t EmbeddingBytes(const EmbedOptions& options, const ModelInfo& info) {
  return AnswerBytes(options, info) + ResultMessage<v1::EmbedResponse::Result, v1::Embedding>() + kHeap +
         2 * info.output_width * static_cast<int64_t>(sizeof(float));
}

int64_t ScoredBytes(const v1::ScoreOptions& options, int64_t tokens, int64_t token_bytes) {
  const int64_t told = options.logprobs() ? TokenWithAlternatives(options.top_logprobs(), token_bytes) : 0;
  return AnswerBytes(ScoreOptions{.top_logprobs = options.top_logprobs()}, tokens) +
         ResultMessage<v1::ScoreResponse::Result, v1::Scored>() + tokens * told;
}

int64_t FilledBytes(const FillOptions& options, int64_t positions, int64_t token_bytes) {
  const int64_t position =
      Object<v1::Filled::Position>() + kNumber + options.top * TokenMessage<v1::TopLogprob>(token_bytes);
  return AnswerBytes(options, positions) + ResultMessage<v1::FillResponse::Result, v1::Filled>() +
         positions * position;
}

// The weights thrice: of the job, of the message, on the wire.
int64_t AttentionWeightsBytes(const WeightsChoice& choice, const ModelInfo& info, int64_t rows,
                              int64_t source) {
  int64_t indices = choice.rows.empty() ? rows : std::ssize(choice.rows), layers = 0;
  for (const int32_t i : choice.attentions) {
    indices += info.attentions[i].weighing_heads;
    layers += static_cast<int64_t>(sizeof(LayerWeights)) + 3 * kHeap + Object<v1::AttentionWeights::Layer>() +
              2 * kNumber;
  }
  return 3 * ChosenBytes(info.attentions, choice, rows, source) + indices * 2 * kNumber + layers +
         Object<v1::AttentionWeights>() + 2 * kNumber;
}

int64_t TokenizedBytes(int64_t tokens, std::optional<int64_t> piece_bytes, int64_t chat_bytes) {
  const int64_t number = 2 * static_cast<int64_t>(sizeof(int32_t)) + kNumber;  // a list's, which grows
  const int64_t lists = ResultMessage<v1::TokenizeResponse::Result, v1::Tokenized>() + Object<v1::Tokens>() +
                        tokens * 2 * number + (chat_bytes > 0 ? Text(chat_bytes) : 0);
  if (!piece_bytes) return lists;
  const int64_t piece = Object<v1::TokenPiece>() + 2 * Text(0) + 3 * kNumber;
  return lists + tokens * piece + Text(kUtf8Growth * *piece_bytes);
}

// A byte that is spelled may become U+FFFD, and a space may come before each token.
int64_t DetokenizedBytes(int64_t tokens, int64_t spelled) {
  const int64_t held = static_cast<int64_t>(sizeof(int32_t) + sizeof(std::string)) + kHeap;
  return ResultMessage<v1::DetokenizeResponse::Result, v1::Detokenized>() + tokens * held + spelled +
         Text(kUtf8Growth * spelled + tokens);
}

int64_t StreamedTokenBytes(const v1::GenerateDetails& details, int64_t token_bytes) {
  const int64_t choice = sizeof(TokenChoice) + kListBytes +
                         details.top_logprobs() * static_cast<int64_t>(sizeof(std::pair<int32_t, float>));
  const int64_t text = 4 * kUtf8Growth * token_bytes;  // the piece's, its growth, the message's, on the wire
  const int64_t logprob = details.logprobs() ? TokenWithAlternatives(details.top_logprobs(), token_bytes) : 0;
  return 2 * choice + text + logprob + (details.tokens() ? 2 * kNumber : 0);
}

int64_t StreamedSampleBytes() {
  return 3 * static_cast<int64_t>(sizeof(StreamEvent)) + Object<v1::GenerateEvent>() +
         Object<v1::GenerateFinished>() + Object<v1::Usage>() + kEndBytes;
}

}  // namespace heed
