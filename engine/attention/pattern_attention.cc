#include "engine/attention/pattern_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/log/check.h"
#include "engine/attention/between_runs.h"
#include "engine/base/round.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kPage = KeyValuePages::kPage;
constexpr int64_t kEndless = int64_t{1} << 40;  // tokens

}  // namespace

PatternAttention::PatternAttention(const AttentionSetting& setting, PatternOptions options,
                                   std::vector<Product> products, int64_t max_tokens)
    : options_(std::move(options)),
      core_(ActivationType(setting.precision), options_.head_dim, options_.scale, options_.soft_cap) {
  CHECK(options_.heads % options_.key_value_heads == 0 && options_.head_dim > 0 && options_.scale > 0);
  products_ = std::move(products);
  max_tokens_ = max_tokens;
  for (const KeyValuePages& pages : options_.constant)
    constant_bytes_ += KeyValuePages::Bytes(pages.type(), pages.head_dim(), 0, pages.end());
  out_width_ = options_.heads * options_.head_dim;
  decode_ = setting.causal || setting.cross ? DecodeClass::kExact : DecodeClass::kNone;
  for (const auto& pattern : options_.patterns) {
    constant_bytes_ += pattern->constant_bytes();
    passes_ = std::max(passes_, pattern->passes());
    for (int set = 0; set < std::ssize(pattern->sets()); ++set)
      forgets_ = forgets_ || pattern->KeptFrom(set, kEndless) > 0;
  }
  CHECK((options_.sink_scores.empty() && options_.gate < 0) || passes_ == 1);
  if (options_.constant.empty() && passes_ == 1) weighing_heads_ = options_.heads;
}

std::unique_ptr<AttentionRun> PatternAttention::Start() const { return std::make_unique<PatternRun>(*this); }

void PatternAttention::Prepare(const AttentionRows&, const Tile&, SoftmaxQueries&, std::vector<KeySource>&,
                               std::vector<std::unique_ptr<ScoreBias>>&, Scratch&) const {}

int64_t PatternAttention::StateBytes(int64_t tokens) const { return KeptBytes(options_.patterns, tokens); }

// Of the tracks of a set that are apart, tokens % period have one place more than the others.
int64_t PatternAttention::KeptBytes(const Patterns& patterns, int64_t tokens) const {
  const auto bytes = [&](const TrackSet& set, int64_t places) {
    return KeyValuePages::Bytes(core_.type(), options_.head_dim, 0, places, options_.k >= 0, set.page());
  };
  int64_t sum = sizeof(int64_t) + PartsBytes(patterns, tokens);
  if (passes_ > 1) sum += tokens * options_.heads * SizeOf(DType::kF32);
  for (int head = 0; head < options_.key_value_heads; ++head) {
    const Pattern& pattern = *patterns[patterns.size() == 1 ? 0 : head];
    for (size_t s = 0; s < pattern.sets().size(); ++s) {
      const TrackSet& set = pattern.sets()[s];
      const int64_t longer = tokens % set.tracks(), most = set.Places(0, tokens),
                    least = set.Places(set.tracks() - 1, tokens);
      sum += longer * bytes(set, pattern.MostKept(static_cast<int>(s), most)) +
             (set.tracks() - longer) * bytes(set, pattern.MostKept(static_cast<int>(s), least));
    }
  }
  return sum;
}

int64_t PatternAttention::PartsBytes(const Patterns& patterns, int64_t tokens) const {
  int64_t sum = 0;
  if (passes_ > 1) return 0;
  for (int head = 0; head < options_.key_value_heads; ++head) {
    const Pattern& pattern = *patterns[patterns.size() == 1 ? 0 : head];
    int64_t parts = options_.constant.empty() ? 0 : SoftmaxCore::Parts(options_.constant[head]);
    for (size_t s = 0; s < pattern.sets().size(); ++s) {
      const int64_t kept = pattern.MostKept(static_cast<int>(s), pattern.sets()[s].Places(0, tokens));
      parts += Quotient(kept, kKeyPart) + (kept > kKeyPart ? 1 : 0);
    }
    if (parts > std::ssize(pattern.sets())) sum += PatternRun::PartsBytes(core_, parts);
  }
  return sum;
}

double PatternAttention::Cost(int64_t rows, int64_t tokens) const {
  double pairs = 0;
  for (int head = 0; head < options_.key_value_heads; ++head) {
    const int64_t constant = options_.constant.empty() ? 0 : options_.constant[head].end();
    pairs += pattern(head).Pairs(rows, tokens) + static_cast<double>(rows * constant);
  }
  return pairs * group() * PairCost();
}

int64_t PatternAttention::ScratchBytes() const {
  const int64_t turned = kPage * options_.head_dim * SizeOf(core_.type()),
                positions = kPage * static_cast<int64_t>(sizeof(int64_t));
  return std::max(Scratch::Piece(turned) + Scratch::Piece(positions),
                  BetweenRuns::ScratchBytes() + core_.ScratchBytes());
}

absl::StatusOr<std::vector<Product>> LoadQueriesKeysValues(const AttentionSetting& setting,
                                                           const PatternOptions& options,
                                                           const WeightScope& scope) {
  const int64_t key_width = options.key_value_heads * options.head_dim;
  ASSIGN_OR_RETURN(Product q, LoadProduct(scope, "q", options.heads * options.head_dim, setting.width));
  const int64_t in = setting.source_width > 0 ? setting.source_width : setting.width;
  ASSIGN_OR_RETURN(Product k, LoadProduct(scope, "k", key_width, in));
  ASSIGN_OR_RETURN(Product v, LoadProduct(scope, "v", key_width, in));
  k.of_source = v.of_source = setting.cross;
  return std::vector<Product>{q, k, v};
}

PatternOptions PlainHeads(const AttentionSetting& setting, JsonFields& fields) {
  PatternOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  return options;
}

absl::StatusOr<std::unique_ptr<Attention>> NewPatternAttention(const AttentionSetting& setting,
                                                               JsonFields& fields, const WeightScope& scope,
                                                               Patterns patterns, int64_t max_tokens) {
  PatternOptions options = PlainHeads(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  options.patterns = std::move(patterns);
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  return std::make_unique<PatternAttention>(setting, std::move(options), std::move(products), max_tokens);
}

}  // namespace heed
