#include "engine/attention/gathered.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "engine/attention/score_bias.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;

// A token with itself.
class OwnBias : public ScoreBias {
 public:
  OwnBias(const Gathering& gathering, float own, Scratch& scratch)
      : gathering_(gathering), own_(own), values_(scratch.Take<float>(SoftmaxCore::kTile * kKeyBlock)) {}
  void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const override {
    const int64_t end = std::min<int64_t>(block.end, std::ssize(gathering_.keys) - block.base);
    const int32_t* keys = gathering_.keys.data() + block.base;
    for (size_t r = 0; r < rows.size(); ++r) {
      const int32_t query = gathering_.queries[block.first_row + r];
      float* values = values_ + r * kKeyBlock;
      for (int64_t c = block.begin; c < end; ++c) values[c] = keys[c] == query ? own_ : 0;
      rows[r].bias = values;
      rows[r].bias_offset = 0;
    }
  }

 private:
  const Gathering& gathering_;
  float own_;
  float* values_;
};

// How many of the keys a query may see: those that ascend, up to itself.
int64_t Seen(const Gathering& gathering, int64_t query) {
  return std::ranges::upper_bound(gathering.keys, gathering.queries[query]) - gathering.keys.begin();
}

// All bits of the exponent: infinite, or no number.
bool Finite(DType type, const void* row, int64_t n) {
  bool finite = true;
  if (type == DType::kBf16) {
    const uint16_t* bits = static_cast<const uint16_t*>(row);
    for (int64_t c = 0; c < n; ++c) finite &= (bits[c] & 0x7f80) != 0x7f80;
  } else {
    const uint32_t* bits = static_cast<const uint32_t*>(row);
    for (int64_t c = 0; c < n; ++c) finite &= (bits[c] & 0x7f800000) != 0x7f800000;
  }
  return finite;
}

}  // namespace

void MergedRows::Clear(int64_t row, int64_t count) const {
  std::fill_n(lse + row, count, -std::numeric_limits<float>::infinity());
}

void MergedRows::Merge(int64_t token, const float* result, float token_lse) const {
  const int64_t row = token - first;
  float* sum = results.As<float>().row(row);
  if (std::isinf(lse[row])) {
    std::copy_n(result, results.cols, sum);
    lse[row] = token_lse;
    return;
  }
  const float most = std::max(lse[row], token_lse);
  const float share = std::exp(lse[row] - most), next_share = std::exp(token_lse - most);
  const float total = share + next_share;
  for (int64_t c = 0; c < results.cols; ++c) sum[c] = (sum[c] * share + result[c] * next_share) / total;
  lse[row] = most + std::log(total);
}

GatheredCore::GatheredCore(DType type, int64_t head_dim, const Options& options)
    : options_(options), core_(type, head_dim, options.scale) {}

// What a tile of rows reads is multiplied in all of them, by 0 where a row does not see it; and 0 times no
// number is none. Then each row attends by itself, to the keys that it sees and no others.
void GatheredCore::Attend(const Gathering& gathering, const GatheredHead& head,
                          const GatheredResults& results, Scratch& scratch) const {
  if (!options_.causal || UnseenIsFinite(gathering, head))
    return AttendTogether(gathering, head, results, scratch);
  for (int64_t i = 0; i < std::ssize(gathering.queries); ++i) {
    const auto end = gathering.keys.begin() + Seen(gathering, i);
    AttendTogether({{gathering.queries[i]}, {gathering.keys.begin(), end}}, head,
                   {results.rows.Slice(i, 1), results.lse == nullptr ? nullptr : results.lse + i}, scratch);
  }
}

void GatheredCore::AttendAndMerge(const Gathering& gathering, const GatheredHead& head,
                                  const MergedRows& merged, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t rows = std::ssize(gathering.queries), dim = head_dim();
  const GatheredResults results{{type(), scratch.Take<char>(rows * dim * SizeOf(type())), rows, dim, dim},
                                scratch.Take<float>(rows)};
  Attend(gathering, head, results, scratch);
  float* wide = scratch.Take<float>(dim);
  for (int64_t i = 0; i < rows; ++i) {
    Convert(results.rows.Slice(i, 1), {DType::kF32, wide, 1, dim, dim});
    merged.Merge(gathering.queries[i], wide, results.lse[i]);
  }
}

bool GatheredCore::UnseenIsFinite(const Gathering& gathering, const GatheredHead& head) const {
  const int32_t first = std::ranges::min(gathering.queries);
  for (auto key = std::ranges::upper_bound(gathering.keys, first); key != gathering.keys.end(); ++key) {
    if (!Finite(type(), head.value(*key), head_dim())) return false;
  }
  return true;
}

KeyValuePages GatheredCore::Gather(const std::vector<int32_t>& keys, const GatheredHead& head,
                                   Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t dim = head_dim(), bytes = dim * SizeOf(type());
  const Rows k{type(), scratch.Take<char>(kPage * bytes), kPage, dim, dim},
      v{type(), scratch.Take<char>(kPage * bytes), kPage, dim, dim};
  KeyValuePages pages(type(), dim);
  for (int64_t first = 0; first < std::ssize(keys); first += kPage) {
    const int64_t count = std::min(kPage, std::ssize(keys) - first);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(k.at(i), head.key(keys[first + i]), bytes);
      std::memcpy(v.at(i), head.value(keys[first + i]), bytes);
    }
    pages.Append(k.Slice(0, count), v.Slice(0, count));
  }
  return pages;
}

void GatheredCore::AttendTogether(const Gathering& gathering, const GatheredHead& head,
                                  const GatheredResults& results, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t rows = std::ssize(gathering.queries), dim = head_dim();
  const KeyValuePages pages = Gather(gathering.keys, head, scratch);
  SoftmaxQueries queries;
  queries.q = {type(), scratch.Take<char>(rows * dim * SizeOf(type())), rows, dim, dim};
  queries.out = results.rows;
  queries.lse = results.lse;
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(queries.q.at(i), head.query(gathering.queries[i]), dim * SizeOf(type()));
  const auto sees = [&](int64_t query) {
    return Range{0, options_.causal ? Seen(gathering, query) : std::ssize(gathering.keys)};
  };
  const OwnBias own(gathering, options_.own * kLog2E, scratch);
  const KeySource source{.pages = &pages, .sees = sees, .bias = options_.own == 0 ? nullptr : &own};
  core_.Attend(queries, {&source, 1}, scratch);
}

int64_t GatheredCore::ScratchBytes(int64_t queries) const {
  const auto floats = [](int64_t n) { return Scratch::Piece(n * SizeOf(DType::kF32)); };
  const auto vectors = [&](int64_t n) { return Scratch::Piece(n * head_dim() * SizeOf(type())); };
  return 2 * vectors(kPage) + 2 * vectors(queries) + floats(queries) +
         floats(SoftmaxCore::kTile * kKeyBlock) + core_.ScratchBytes() + floats(head_dim());
}

}  // namespace heed
