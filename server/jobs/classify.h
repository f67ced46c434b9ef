// Classification of a whole input, or of each row of a table: an output row of the model, made into labels
// with scores.
#ifndef HEED_SERVER_JOBS_CLASSIFY_H_
#define HEED_SERVER_JOBS_CLASSIFY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/reading.h"

namespace heed {

struct ClassifyOptions {
  int32_t top = 0;          // only the n best labels; 0 = all
  bool raw_scores = false;  // logits instead of probabilities
  double threshold = 0;     // only labels (spans) with at least this probability, [0, 1]; 0 = all
  bool all_tokens = false;  // token classification: a span for every token, also those with label "O"
};

// A negative top, a threshold outside [0, 1] or together with raw scores: INVALID_ARGUMENT.
absl::Status Validate(const ClassifyOptions& options);

struct LabelScore {
  std::string label;
  int32_t index = 0;
  float score = 0;  // softmax, sigmoid where the model is multi-label; or the logit
};

// The most memory that the name of any label takes beside its LabelScore.
int64_t LabelBytes(const ModelInfo& info);

// Logits to probabilities in place: as the model's labels exclude each other (softmax) or do not (sigmoids).
void ToProbabilities(bool multi_label, std::span<float> logits);

struct Classified {
  std::vector<LabelScore> labels;  // best first
  Usage usage;
};

// Closed form: the most memory that an answer takes.
int64_t AnswerBytes(const ClassifyOptions& options, const ModelInfo& info);

// Of each row of a table.
struct ClassifiedRows {
  std::vector<std::vector<LabelScore>> rows;  // the labels of each, best first
  Usage usage;
};

// Closed form: the most memory that an answer of so many rows takes, with the scores it is made of.
int64_t AnswerBytesOfRows(const ClassifyOptions& options, const ModelInfo& info, int64_t rows);

// For head kClassification. `done` is not called if this returns an error, or Submit() does.
absl::StatusOr<std::shared_ptr<Job>> NewClassifyJob(JobInput input, const ClassifyOptions& options,
                                                    AnsweringJob<Classified>::Done done);
// The same of a table, each of whose rows has an answer.
absl::StatusOr<std::shared_ptr<Job>> NewClassifyRowsJob(JobInput input, const ClassifyOptions& options,
                                                        AnsweringJob<ClassifiedRows>::Done done);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_CLASSIFY_H_
