// What every kind of job is made of: a model, the rows that it reads (token ids; vectors of numbers, which an
// image's patches are too; or rows of a table, which have both), and how urgent it is. An encoder-decoder
// reads a source too, and the ids are its target, from the start token on.
#ifndef HEED_SERVER_JOBS_INPUT_H_
#define HEED_SERVER_JOBS_INPUT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/models/model.h"
#include "server/job.h"
#include "server/jobs/answer_memory.h"

namespace heed {

struct JobInput {
  const Model* model = nullptr;  // outlives the job
  std::vector<int32_t> ids;      // special tokens included
  Urgency urgency;
  std::vector<int32_t> source;   // of an encoder-decoder, or a global input
  std::vector<int32_t> labels;   // of each row that an encoder reads (RowLabel); empty: none are given
  std::vector<int32_t> types{};  // of each id, of models that know types; empty: all are 0
  bool drawn = false;      // the ids are an image's (ModelInfo::drawn), with what stands before its pixels
  bool start_put = false;  // which the caller has not given
  // Which weights of attention are wanted: each is within the model and its rows. Then the first phase is one
  // pass, as weights are the same bits only where rows come together.
  std::optional<WeightsChoice> weights{};
  std::vector<float> numbers{};  // of models that read other than tokens, and then rows come in one pass
  int64_t columns = 0;           // of an image: patches beside each other
  std::shared_ptr<const ReservedAnswer> image{};  // the memory that its numbers take, if a file became them

  int64_t length() const;  // rows of the input, a source's not among them
  int64_t rows() const { return std::ssize(source) + length(); }
  // Rows whose label is not 0, or kNoLabels.
  int64_t labelled() const;
  // Tokens that the caller gave: all but the start token of a target, what was put before an image, and the
  // global input, which may be the model's own.
  int64_t given() const;
  // Of an image: how many of its pixels there are.
  int64_t pixels() const { return std::ssize(ids) - model->info().drawn.front(); }
};

// INVALID_ARGUMENT, with the value and the limit, unless there are 1 .. max_tokens rows of the kind that the
// model reads: ids of its vocabulary or of a table's columns, and finite numbers, of an image whole lines of
// patches; and the source, of an encoder-decoder alone, 1 .. max_source_tokens of it; and unless the labels,
// if any are given, are one for each row of the encoder, at most max_global_tokens of them 1 and the others
// 0. A global input is as a source is, and the labels are 0 or places in it, counted from 1. Types, if any
// are given, are one for each id, below type_vocab_size.
absl::Status Validate(const JobInput& input);

// Of a job whose first phase reads the input, and which holds `sequences` of up to `longest` tokens.
JobTerms TermsOf(const JobInput& input, int64_t longest, int64_t sequences = 1);

// The next work of a sequence that reads the input and has read `begin` rows of it: the next `rows`, or as
// many of them as end on the grid where more will follow. A source comes whole, with all ids.
Work NextRows(Sequence* sequence, const JobInput& input, int64_t begin, int64_t rows);

// The `top` largest of n scores (all of them if 0), largest first, of equal ones the lowest index first.
std::vector<std::pair<int32_t, float>> Largest(std::span<const float> scores, int64_t top);

}  // namespace heed

#endif  // HEED_SERVER_JOBS_INPUT_H_
