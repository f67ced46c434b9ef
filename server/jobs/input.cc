#include "server/jobs/input.h"

#include <algorithm>
#include <numeric>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/base/status.h"

namespace heed {

absl::Status Validate(const JobInput& input) {
  const ModelInfo& info = input.model->info();
  const int64_t n = std::ssize(input.ids);
  if (n == 0) return Invalid("the input has no tokens");
  if (info.max_tokens > 0 && n > info.max_tokens) {
    return Invalid("the input has ", n, " tokens, the model reads at most ", info.max_tokens);
  }
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = input.ids[i];
    if (id < 0 || id >= info.vocab_size) {
      return Invalid("token ", i, " is ", id, ", ids are from 0 to ", info.vocab_size - 1);
    }
  }
  return absl::OkStatus();
}

Work NextRows(Sequence* sequence, std::span<const int32_t> ids, int64_t begin, int64_t rows) {
  const bool more = begin + rows < std::ssize(ids);
  const int64_t count = more ? (begin + rows) / kGrid * kGrid - begin : rows;
  CHECK(count > 0) << rows << " rows after " << begin;
  const std::span<const int32_t> next = ids.subspan(begin, count);
  return {.sequence = sequence, .tokens = {next.begin(), next.end()}, .more = more};
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
  for (int64_t i = 0; i < count; ++i) largest.emplace_back(order[i], scores[order[i]]);
  return largest;
}

}  // namespace heed
