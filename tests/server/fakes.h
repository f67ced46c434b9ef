// A clock moved by hand and a model of a few lines, for everything that the server does around models.
#ifndef HEED_TESTS_SERVER_FAKES_H_
#define HEED_TESTS_SERVER_FAKES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/models/model.h"
#include "server/clock.h"

namespace heed {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeClock : public Clock {
 public:
  Time Now() const override { return Time(Duration(ticks_.load())); }
  void Move(Duration by) { ticks_ += by.count(); }

 private:
  std::atomic<Duration::rep> ticks_{0};
};

// Remembers its tokens, and holds 8 bytes for each of them.
class FakeSequence : public Sequence {
 public:
  explicit FakeSequence(std::atomic<int64_t>* held) : held_(held) {}
  FakeSequence(const FakeSequence& other) : Sequence(other), history(other.history), held_(other.held_) {
    *held_ += 8 * tokens_;
  }
  ~FakeSequence() override { *held_ -= 8 * tokens_; }
  std::unique_ptr<Sequence> Clone() const override { return std::make_unique<FakeSequence>(*this); }
  void Archive(StateArchive&) override {}
  void Append(int32_t token) {
    history.push_back(token);
    ++tokens_;
    *held_ += 8;
  }

  std::vector<int32_t> history;

 private:
  std::atomic<int64_t>* held_;
};

// What the model answers to a history of tokens.
using FakeHead = std::function<std::vector<float>(const std::vector<int32_t>& history)>;

// A pass advances through `layers` layers, of which the last reads.
class FakeModel : public Model {
 public:
  explicit FakeModel(int layers = 2, ModelInfo info = {}) : layers(layers) { info_ = std::move(info); }

  std::unique_ptr<Sequence> Start() const override { return std::make_unique<FakeSequence>(&held); }
  std::unique_ptr<Pass> Begin(std::vector<Work>* batch) const override;
  // A labelled row holds 8 bytes more.
  int64_t StateBytes(int64_t tokens, int64_t source = 0, int64_t labelled = kNoLabels) const override {
    return 8 * (tokens + source + std::max<int64_t>(labelled, 0));
  }
  int64_t WorkspaceBytes(const PassSize& size) const override {
    return workspace_row_bytes * (size.rows + size.source_rows) +
           workspace_work_bytes * (size.works > 0 ? size.works : size.rows);
  }
  double Cost(int64_t n, int64_t source = 0, int64_t labelled = kNoLabels) const override {
    return static_cast<double>(n + source + std::max<int64_t>(labelled, 0));
  }
  void set_info(ModelInfo info) { info_ = std::move(info); }

  int layers;
  int64_t workspace_row_bytes = 0, workspace_work_bytes = 0;
  FakeHead head = [](const std::vector<int32_t>&) { return std::vector<float>{1}; };
  std::function<void(int layer)> on_layer = [](int) {};  // in every Advance
  mutable std::vector<std::vector<int64_t>> passes;      // rows of each work
  mutable int64_t layers_run = 0;
  mutable int64_t rows_finished = 0;     // of works that were not dropped
  mutable std::atomic<int64_t> held{0};  // bytes of living sequences
};

class FakePass : public Pass {
 public:
  FakePass(const FakeModel* model, std::vector<Work>* works)
      : model_(model), works_(works), dropped_(works->size()) {}

  bool Advance(Threads&) override {
    ++model_->layers_run;
    model_->on_layer(layer_);
    if (++layer_ < model_->layers) return true;
    for (size_t i = 0; i < works_->size(); ++i) {
      if (!dropped_[i]) Finish((*works_)[i]);
    }
    return false;
  }
  void Drop(int i) override { dropped_[i] = true; }

 private:
  void Finish(Work& work) {
    auto* sequence = static_cast<FakeSequence*>(work.sequence);
    size_t wanted = 0;
    for (size_t row = 0; row < work.tokens.size(); ++row) {
      sequence->Append(work.tokens[row]);
      if (wanted == work.wanted.size() || work.wanted[wanted] != static_cast<int32_t>(row)) continue;
      work.read(work.wanted[wanted++], model_->head(sequence->history));
    }
    if (work.weights != nullptr) Weigh(work);
    model_->rows_finished += std::ssize(work.tokens);
  }

  // Every row looks at all tokens alike.
  void Weigh(Work& work) const {
    const int64_t n = std::ssize(work.tokens);
    const std::vector<AttentionInfo>& attentions = model_->info().attentions;
    for (int64_t i = 0; i < std::ssize(attentions); ++i) {
      if (!IsChosen(*work.choice, i)) continue;
      LayerWeights& layer = work.weights->emplace_back(
          LayerWeights{.heads = attentions[i].weighing_heads, .rows = n, .keys = n});
      layer.weights.assign(layer.heads * n * n, 1 / static_cast<float>(n));
      Keep(*work.choice, &layer);
    }
  }

  const FakeModel* model_;
  std::vector<Work>* works_;
  std::vector<bool> dropped_;
  int layer_ = 0;
};

inline std::unique_ptr<Pass> FakeModel::Begin(std::vector<Work>* batch) const {
  std::vector<int64_t>& rows = passes.emplace_back();
  for (const Work& work : *batch) rows.push_back(std::ssize(work.tokens));
  return std::make_unique<FakePass>(this, batch);
}

}  // namespace heed

#endif  // HEED_TESTS_SERVER_FAKES_H_
