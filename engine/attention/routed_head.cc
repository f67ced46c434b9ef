#include "engine/attention/routed_head.h"

#include <algorithm>
#include <numeric>

#include "engine/ops/rows.h"

namespace heed {

void MeanRow::Clear() { std::fill_n(sum_.data, sum_.cols, 0.0f); }

void MeanRow::Add(const Rows& result, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const Rows wide{DType::kF32, scratch.Take<float>(sum_.cols), 1, sum_.cols, sum_.cols};
  Convert(result, wide);
  heed::Add(wide.As<float>(), sum_);
}

void MeanRow::Write(int64_t clusters, const Rows& out) const {
  Scale(1 / static_cast<float>(std::max<int64_t>(clusters, 1)), sum_);
  Convert({DType::kF32, sum_.data, 1, sum_.cols, sum_.cols}, out);
}

RoutedHead::RoutedHead(const RoutedAttention& attention, int head)
    : attention_(&attention),
      head_(head),
      pages_(attention.core().type(), options().head_dim, 0),
      members_(options().sets(), ClusterMembers(options().clusters, options().window)) {}

void RoutedHead::Grow(int64_t rows) {
  pages_.Grow(rows);
  for (ClusterMembers& members : members_) {
    if (attention_->HasMembers(tokens())) members.Grow(tokens());
  }
}

void RoutedHead::TakeScores(Taken& taken, int64_t count, Scratch& scratch) const {
  const int64_t clusters = options().clusters;
  for (int set = 0; set < options().sets(); ++set)
    taken.scores.push_back({scratch.Take<float>(kGrid * clusters), count, clusters, clusters});
}

void RoutedHead::TakePage(const AttentionRows& rows, int64_t from, int64_t token, const Taken& taken,
                          int64_t count, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const RoutedOptions& o = options();
  const int64_t row = token - from;
  const TokenPages::Place place = pages_.Open(token, count);
  const Matrix<float> normed{scratch.Take<float>(kGrid * o.head_dim), count, o.head_dim, o.head_dim};
  for (int set = 0; set < o.sets(); ++set) {
    const bool of_keys = set == 0 && !o.shared;
    const Rows given =
        OfHead(rows.products[of_keys ? RoutedAttention::kK : RoutedAttention::kQ]).Slice(row, count);
    attention_->Norm(given, normed, scratch);
    Convert({DType::kF32, normed.data, count, o.head_dim, o.head_dim}, set == 0 ? place.keys : taken.queries);
    if (!taken.scores.empty()) attention_->Score(head_, normed, taken.scores[set], scratch);
  }
  Convert(OfHead(rows.products[RoutedAttention::kV]).Slice(row, count), place.values);
}

void RoutedHead::Choose(int set, int64_t cluster, const float* scores, Scratch& scratch) {
  members_[set].Choose(cluster, scores, tokens(), scratch);
}

void RoutedHead::Attend(const Gathering& gathering, absl::FunctionRef<const void*(int64_t token)> query,
                        const Rows& results, Scratch& scratch) const {
  const auto key = [&](int64_t token) { return pages_.Key(token); };
  const auto value = [&](int64_t token) { return pages_.Value(token); };
  const auto asking = [&](int64_t token) { return options().shared ? pages_.Key(token) : query(token); };
  attention_->core().Attend(gathering, {asking, key, value}, {results}, scratch);
}

void RoutedHead::Follow(const AttentionRows& rows, int64_t from, Range tokens, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const RoutedOptions& o = options();
  const DType type = attention_->core().type();
  const int64_t count = tokens.size();
  Taken taken{{type, scratch.Take<char>(kGrid * o.head_dim * SizeOf(type)), count, o.head_dim, o.head_dim}};
  TakeScores(taken, count, scratch);
  TakePage(rows, from, tokens.begin, taken, count, scratch);
  const Rows out = OfHead(rows.out).Slice(tokens.begin - from, count);
  const int64_t alone = std::clamp(o.window, tokens.begin, tokens.end);
  if (alone > tokens.begin) FollowTogether({tokens.begin, alone}, taken, out, scratch);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t token = tokens.begin + row;
    const std::vector<int32_t> clusters = Join(token, taken, row);
    if (token >= alone) FollowAlone(token, clusters, taken.queries.at(row), out.Slice(row, 1), scratch);
  }
}

void RoutedHead::FollowTogether(Range tokens, const Taken& taken, const Rows& out, Scratch& scratch) const {
  Gathering all{std::vector<int32_t>(tokens.size()), std::vector<int32_t>(tokens.end)};
  std::iota(all.queries.begin(), all.queries.end(), static_cast<int32_t>(tokens.begin));
  std::iota(all.keys.begin(), all.keys.end(), 0);
  const auto query = [&](int64_t token) { return taken.queries.at(token - tokens.begin); };
  Attend(all, query, out.Slice(0, tokens.size()), scratch);
}

// The next token, a row of those taken: the clusters that it is a query of.
std::vector<int32_t> RoutedHead::Join(int64_t token, const Taken& taken, int64_t row) {
  std::vector<int32_t> clusters;
  for (int32_t cluster = 0; cluster < options().clusters; ++cluster) {
    bool member = false;  // as the last set has it: the queries'
    for (int set = 0; set < options().sets(); ++set)
      member = members_[set].Add(cluster, token, taken.scores[set].row(row)[cluster]);
    if (member) clusters.push_back(cluster);
  }
  return clusters;
}

void RoutedHead::FollowAlone(int64_t token, const std::vector<int32_t>& clusters, const void* given,
                             const Rows& out, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t dim = options().head_dim;
  const Rows result{out.dtype, scratch.Take<char>(dim * SizeOf(out.dtype)), 1, dim, dim};
  MeanRow mean(scratch.Take<float>(dim), dim);
  mean.Clear();
  const auto query = [&](int64_t) { return given; };
  for (const int32_t cluster : clusters) {
    const std::span<const int32_t> keys = members_.front().Of(cluster, token + 1);
    Attend({{static_cast<int32_t>(token)}, {keys.begin(), keys.end()}}, query, result, scratch);
    mean.Add(result, scratch);
  }
  mean.Write(std::ssize(clusters), out);
}

void RoutedHead::Archive(StateArchive& archive, int64_t tokens) {
  pages_.Archive(archive, tokens);
  for (ClusterMembers& members : members_) {
    if (archive.status().ok() && attention_->HasMembers(tokens)) members.Archive(archive, tokens);
  }
}

}  // namespace heed
