#include "server/jobs/input.h"

#include <algorithm>
#include <numeric>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/ops/rows.h"
#include "server/error.h"

namespace heed {

namespace {

absl::Status CheckIds(const std::vector<int32_t>& ids, std::string_view what, int64_t most,
                      int64_t vocab_size) {
  const int64_t n = std::ssize(ids);
  if (n == 0) return Error(ErrorReason::kInputEmpty, "the ", what, " has no tokens");
  if (most > 0 && n > most) {
    return Error(ErrorReason::kInputTooLong, "the ", what, " has ", n, " tokens, the model reads at most ",
                 most);
  }
  for (int64_t i = 0; i < n; ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return Invalid("token ", i, " of the ", what, " is ", ids[i], ", ids are from 0 to ", vocab_size - 1);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(const JobInput& input) {
  const int64_t most = input.model->info().max_global_tokens, labels = std::ssize(input.labels),
                rows = std::ssize(input.source.empty() ? input.ids : input.source);
  if (labels == 0) return absl::OkStatus();
  if (most == 0) return Invalid("the input names global tokens, of which the model takes none");
  if (labels != rows) return Invalid("the input has ", labels, " labels, and ", rows, " tokens");
  for (int64_t i = 0; i < labels; ++i) {
    if (input.labels[i] < 0 || input.labels[i] > 1)
      return Invalid("label ", i, " is ", input.labels[i], ", labels are 0 and 1");
  }
  if (input.labelled() > most)
    return Invalid("there are ", input.labelled(), " global tokens, the model takes at most ", most);
  return absl::OkStatus();
}

absl::Status CheckTypes(const JobInput& input) {
  const int64_t types = std::ssize(input.types), known = input.model->info().type_vocab_size;
  if (types == 0) return absl::OkStatus();
  if (known == 0) return Invalid("the input's tokens have types, of which the model knows none");
  if (types != std::ssize(input.ids))
    return Invalid("the input has ", types, " types, and ", input.ids.size(), " tokens");
  for (int64_t i = 0; i < types; ++i) {
    if (input.types[i] < 0 || input.types[i] >= known)
      return Invalid("type ", i, " is ", input.types[i], ", types are from 0 to ", known - 1);
  }
  return absl::OkStatus();
}

// Of each row's ids, those of categorical columns.
absl::Status CheckCategories(const JobInput& input) {
  const std::vector<int64_t>& limits = input.model->info().id_limits;
  for (int64_t i = 0; i < std::ssize(input.ids); ++i) {
    const int64_t column = i % std::ssize(limits);
    if (input.ids[i] < 0 || input.ids[i] >= limits[column])
      return Invalid("row ", i / std::ssize(limits), " has ", input.ids[i], " in column ", column,
                     ", ids are from 0 to ", limits[column] - 1);
  }
  return absl::OkStatus();
}

// Of the rows of a model that reads numbers, or rows of a table.
absl::Status CheckRows(const JobInput& input) {
  const ModelInfo& info = input.model->info();
  const int64_t ids = std::ssize(input.ids), numbers = std::ssize(input.numbers), rows = input.length();
  if (rows == 0) return Error(ErrorReason::kInputEmpty, "the input has no rows");
  if (ids != rows * info.input.ids || numbers != rows * info.input.numbers)
    return Invalid("the input has ", ids, " ids and ", numbers, " numbers, a row has ", info.input.ids,
                   " and ", info.input.numbers);
  RETURN_IF_ERROR(CheckCategories(input));
  if (info.max_tokens > 0 && rows > info.max_tokens) {
    return Error(ErrorReason::kInputTooLong, "the input has ", rows, " rows, the model reads at most ",
                 info.max_tokens);
  }
  if (info.input.kind == InputRow::Kind::kPatch && (input.columns < 1 || rows % input.columns != 0))
    return Invalid("the image has ", rows, " patches, in lines of ", input.columns);
  if (!AllFinite(input.numbers.data(), numbers)) return Invalid("a number of the input is not finite");
  return absl::OkStatus();
}

absl::Status CheckGlobalInput(const JobInput& input) {
  const ModelInfo& info = input.model->info();
  RETURN_IF_ERROR(CheckIds(input.source, "global input", info.max_source_tokens, info.vocab_size));
  const int64_t labels = std::ssize(input.labels), globals = std::ssize(input.source);
  if (labels > 0 && labels != std::ssize(input.ids))
    return Invalid("the input has ", labels, " labels, and ", input.ids.size(), " tokens");
  for (int64_t i = 0; i < labels; ++i) {
    if (input.labels[i] < 0 || input.labels[i] > globals)
      return Invalid("label ", i, " is ", input.labels[i], ", labels are 0 to ", globals);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t JobInput::length() const {
  const InputRow& row = model->info().input;
  return row.ids > 0 ? std::ssize(ids) / row.ids : std::ssize(numbers) / row.numbers;
}

int64_t JobInput::given() const {
  if (source.empty()) return rows() - (start_put ? 1 : 0);
  return model->info().global_input.read ? std::ssize(ids) : rows() - 1;
}

int64_t JobInput::labelled() const {
  return labels.empty() ? kNoLabels : std::ssize(labels) - std::ranges::count(labels, 0);
}

absl::Status Validate(const JobInput& input) {
  const ModelInfo& info = input.model->info();
  RETURN_IF_ERROR(CheckTypes(input));
  if (info.global_input.read) {
    RETURN_IF_ERROR(CheckGlobalInput(input));
    return CheckIds(input.ids, "input", info.max_tokens, info.vocab_size);
  }
  RETURN_IF_ERROR(CheckLabels(input));
  if (info.input.kind != InputRow::Kind::kToken) return CheckRows(input);
  if (!input.numbers.empty()) return Invalid("the model reads no numbers");
  if (info.architecture != Architecture::kEncoderDecoder) {
    if (!input.source.empty()) return Invalid("the model reads no source beside its input");
    // Of a whole image the last pixel is not read: what stands before the first has its place.
    const int64_t front = input.drawn && info.max_tokens > 0 ? info.drawn.front() : 0;
    return CheckIds(input.ids, "input", info.max_tokens + front, info.vocab_size);
  }
  RETURN_IF_ERROR(CheckIds(input.source, "source", info.max_source_tokens, info.vocab_size));
  return CheckIds(input.ids, "target", info.max_tokens, info.vocab_size);
}

JobTerms TermsOf(const JobInput& input, int64_t longest, int64_t sequences) {
  const ModelInfo& info = input.model->info();
  const int64_t source = std::ssize(input.source);
  JobTerms terms{.urgency = input.urgency,
                 .rows = input.rows(),
                 .source = source,
                 .works = sequences,
                 .bytes = sequences * input.model->StateBytes(longest, source, input.labelled()),
                 .whole = info.input.kind != InputRow::Kind::kToken ||
                          info.architecture != Architecture::kDecoder || info.decode != DecodeClass::kExact};
  if (input.weights) {
    terms.bytes += WeighingBytes(info.attentions, *input.weights, input.length(), source);
    terms.whole = true;
  }
  return terms;
}

Work NextRows(Sequence* sequence, const JobInput& input, int64_t begin, int64_t rows) {
  if (!input.source.empty()) {
    CHECK(begin == 0 && rows >= input.rows()) << "a source is read whole";
    return {.sequence = sequence, .tokens = input.ids, .source = input.source, .labels = input.labels};
  }
  if (!input.labels.empty()) {
    CHECK(begin == 0 && rows >= input.rows()) << "what has labels is read whole";
    return {.sequence = sequence, .tokens = input.ids, .types = input.types, .labels = input.labels};
  }
  if (input.model->info().input.kind != InputRow::Kind::kToken) {
    CHECK(begin == 0 && rows >= input.rows()) << "what is no text is read whole";
    return {.sequence = sequence, .tokens = input.ids, .numbers = input.numbers, .columns = input.columns};
  }
  const bool more = begin + rows < std::ssize(input.ids);
  const int64_t count = more ? (begin + rows) / kGrid * kGrid - begin : rows;
  CHECK(count > 0) << rows << " rows after " << begin;
  const auto next = [&](const std::vector<int32_t>& all) {
    return all.empty() ? all : std::vector<int32_t>(all.begin() + begin, all.begin() + begin + count);
  };
  return {.sequence = sequence, .tokens = next(input.ids), .types = next(input.types), .more = more};
}

std::vector<std::pair<int32_t, float>> Largest(std::span<const float> scores, int64_t top) {
  const int64_t n = std::ssize(scores);
  const int64_t count = top == 0 ? n : std::min(top, n);
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::partial_sort(order, order.begin() + count, [&](int32_t a, int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  std::vector<std::pair<int32_t, float>> largest;
  largest.reserve(count);
  for (int64_t i = 0; i < count; ++i) largest.emplace_back(order[i], scores[order[i]]);
  return largest;
}

}  // namespace heed
