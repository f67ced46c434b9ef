#include "engine/attention/cluster_members.h"

#include <algorithm>
#include <cstring>

#include "engine/attention/attention.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/top_k.h"

namespace heed {
namespace {

int64_t Room(int64_t window, int64_t tokens) { return std::min(window, RoundUp(tokens, kGrid)); }

}  // namespace

ClusterMembers::ClusterMembers(int64_t clusters, int64_t window) : clusters_(clusters), window_(window) {}

int64_t ClusterMembers::Bytes(int64_t clusters, int64_t window, int64_t tokens) {
  const int64_t member = sizeof(float) + sizeof(int32_t);
  return tokens == 0 ? 0 : clusters * (static_cast<int64_t>(sizeof(Worst)) + Room(window, tokens) * member);
}

int64_t ClusterMembers::ScratchBytes(int64_t window) {
  return Scratch::Piece(window * static_cast<int64_t>(sizeof(Ranked))) + TopKScratchBytes(window);
}

// What no member fills yet is zeros: it is saved too.
void ClusterMembers::Grow(int64_t tokens) {
  const int64_t room = Room(window_, tokens);
  if (room == room_) return;
  const ClusterMembers old = std::move(*this);
  clusters_ = old.clusters_;
  room_ = room;
  memory_ = Buffer::Lasting(Bytes(clusters_, window_, tokens));
  std::memset(memory_.as<char>(), 0, memory_.size());
  if (old.memory_.empty()) return;
  std::copy_n(old.worst(0), clusters_, worst(0));
  for (int64_t cluster = 0; cluster < clusters_; ++cluster) {
    std::copy_n(old.scores(cluster), old.room_, scores(cluster));
    std::copy_n(old.tokens(cluster), old.room_, this->tokens(cluster));
  }
}

void ClusterMembers::Choose(int64_t cluster, const float* scores, int64_t tokens, Scratch& scratch) {
  const ScratchFrame frame(scratch);
  const int64_t members = std::min(window_, tokens);
  Ranked* best = scratch.Take<Ranked>(members);
  TopK(scores, tokens, members, scratch, best);
  std::sort(best, best + members, [](const Ranked& a, const Ranked& b) { return a.index < b.index; });
  for (int64_t i = 0; i < members; ++i) {
    this->scores(cluster)[i] = best[i].value;
    this->tokens(cluster)[i] = best[i].index;
  }
  FindWorst(cluster, members);
}

bool ClusterMembers::Add(int64_t cluster, int64_t token, float score) {
  Worst& worst = *this->worst(cluster);
  float* scores = this->scores(cluster);
  int32_t* tokens = this->tokens(cluster);
  if (token < window_) {
    scores[token] = score;
    tokens[token] = static_cast<int32_t>(token);
    if (token == 0 || score <= worst.score) worst = {score, static_cast<int32_t>(token)};
    return true;
  }
  if (score <= worst.score) return false;
  std::copy(scores + worst.place + 1, scores + window_, scores + worst.place);
  std::copy(tokens + worst.place + 1, tokens + window_, tokens + worst.place);
  scores[window_ - 1] = score;
  tokens[window_ - 1] = static_cast<int32_t>(token);
  FindWorst(cluster, window_);
  return true;
}

std::span<const int32_t> ClusterMembers::Of(int64_t cluster, int64_t tokens) const {
  return {this->tokens(cluster), static_cast<size_t>(std::min(window_, tokens))};
}

void ClusterMembers::FindWorst(int64_t cluster, int64_t members) {
  const float* scores = this->scores(cluster);
  int64_t place = 0;
  for (int64_t i = 1; i < members; ++i) {
    if (scores[i] <= scores[place]) place = i;
  }
  *worst(cluster) = {scores[place], static_cast<int32_t>(place)};
}

void ClusterMembers::Archive(StateArchive& archive, int64_t tokens) {
  if (archive.restoring()) Grow(tokens);
  archive.Bytes(memory_, static_cast<int64_t>(memory_.size()));
  if (!archive.restoring() || !archive.status().ok() || tokens == 0) return;
  if (!Consistent(tokens)) return archive.Fail(Invalid("the state's clusters are broken"));
  for (int64_t cluster = 0; cluster < clusters_; ++cluster) FindWorst(cluster, std::min(window_, tokens));
}

// Members ascend, and are among the tokens.
bool ClusterMembers::Consistent(int64_t tokens) const {
  for (int64_t cluster = 0; cluster < clusters_; ++cluster) {
    int64_t before = -1;
    for (const int32_t token : Of(cluster, tokens)) {
      if (token <= before || token >= tokens) return false;
      before = token;
    }
  }
  return true;
}

}  // namespace heed
