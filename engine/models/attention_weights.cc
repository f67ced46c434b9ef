#include "engine/models/attention_weights.h"

#include <algorithm>

namespace heed {
namespace {

// How many of `all` a list chooses.
int64_t Count(const std::vector<int32_t>& chosen, int64_t all) {
  return chosen.empty() ? all : std::ssize(chosen);
}

int64_t At(const std::vector<int32_t>& chosen, int64_t i) { return chosen.empty() ? i : chosen[i]; }

// Of one row in one head.
int64_t RowBytes(const AttentionInfo& attention, int64_t rows, int64_t source) {
  return (attention.cross ? source : attention.front + rows) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

bool IsChosen(const WeightsChoice& choice, int64_t attention) {
  return choice.attentions.empty() ||
         std::ranges::binary_search(choice.attentions, static_cast<int32_t>(attention));
}

// In place: a row that stays never moves back.
void Keep(const WeightsChoice& choice, LayerWeights* all, int64_t front) {
  const int64_t heads = all->heads == 0 ? 0 : Count(choice.heads, all->heads),
                rows = Count(choice.rows, all->rows - front), keys = all->keys;
  if (heads == all->heads && rows == all->rows) return;
  float* const weights = all->weights.data();
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t row = 0; row < rows; ++row) {
      const float* from =
          weights + (At(choice.heads, head) * all->rows + front + At(choice.rows, row)) * keys;
      float* to = weights + (head * rows + row) * keys;
      if (from != to) std::copy(from, from + keys, to);
    }
  }
  all->heads = static_cast<int>(heads);
  all->rows = rows;
  all->weights.resize(heads * rows * keys);
  all->weights.shrink_to_fit();
}

int64_t ChosenBytes(std::span<const AttentionInfo> attentions, const WeightsChoice& choice, int64_t rows,
                    int64_t source) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < std::ssize(attentions); ++i) {
    const AttentionInfo& attention = attentions[i];
    if (attention.weighing_heads == 0 || !IsChosen(choice, i)) continue;
    bytes += Count(choice.heads, attention.weighing_heads) * Count(choice.rows, rows) *
             RowBytes(attention, rows, source);
  }
  return bytes;
}

int64_t WeighingBytes(std::span<const AttentionInfo> attentions, const WeightsChoice& choice, int64_t rows,
                      int64_t source) {
  int64_t most = 0;
  for (int64_t i = 0; i < std::ssize(attentions); ++i) {
    const AttentionInfo& attention = attentions[i];
    if (IsChosen(choice, i))
      most = std::max(
          most, attention.weighing_heads * (attention.front + rows) * RowBytes(attention, rows, source));
  }
  return most + ChosenBytes(attentions, choice, rows, source);
}

}  // namespace heed
