#include "tests/bench/run.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/rows.h"
#include "tests/bench/shapes.h"

namespace heed {

Work LastRow(Sequence* sequence, std::vector<int32_t> tokens, int32_t* next) {
  Work work{.sequence = sequence, .tokens = std::move(tokens)};
  work.wanted = {static_cast<int32_t>(work.tokens.size()) - 1};
  work.read = [next](int32_t, std::span<const float> row) {
    *next = static_cast<int32_t>(ArgMax(row.data(), static_cast<int64_t>(row.size())));
  };
  return work;
}

void RunPass(const Model& model, std::vector<Work>& batch, Threads& threads) {
  std::unique_ptr<Pass> pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

void Step(const Model& model, Sequence& sequence, Threads& threads) {
  int32_t next = 0;
  std::vector<Work> batch;
  batch.push_back(LastRow(&sequence, {1}, &next));
  RunPass(model, batch, threads);
}

namespace {

// Rows of what the model reads, always the same. An answer is wanted: a decoder's of the last row.
Work Input(const Model& model, int64_t rows) {
  const ModelInfo& info = model.info();
  Work work;
  work.numbers.resize(rows * info.input.numbers);
  for (size_t i = 0; i < work.numbers.size(); ++i)
    work.numbers[i] = static_cast<float>((i * 7919 + 13) % 2001) / 1000 - 1;
  for (int64_t i = 0; i < rows * info.input.ids; ++i) {
    const int64_t limit = info.id_limits.empty() ? info.vocab_size : info.id_limits[i % info.input.ids];
    work.tokens.push_back(static_cast<int32_t>((i * 7919 + 13) % limit));
  }
  if (info.global_input.read) CompleteGlobalInput(info.global_input, rows, work.source, work.labels);
  if (info.image.channels > 0) work.columns = std::llround(std::sqrt(static_cast<double>(rows)));
  work.wanted = {static_cast<int32_t>(info.architecture == Architecture::kEncoder ? 0 : rows - 1)};
  work.read = [](int32_t, std::span<const float>) {};
  return work;
}

}  // namespace

std::vector<std::unique_ptr<Sequence>> AfterInputs(const Model& model, int64_t rows, int count,
                                                   Threads& threads) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  for (int i = 0; i < count; ++i) {
    sequences.push_back(model.Start());
    batch.push_back(Input(model, rows));
    batch.back().sequence = sequences.back().get();
  }
  RunPass(model, batch, threads);
  return sequences;
}

void StepAll(const Model& model, const std::vector<std::unique_ptr<Sequence>>& sequences, Threads& threads) {
  std::vector<int32_t> next(sequences.size());
  std::vector<Work> batch;
  for (size_t i = 0; i < sequences.size(); ++i) batch.push_back(LastRow(sequences[i].get(), {1}, &next[i]));
  RunPass(model, batch, threads);
}

std::unique_ptr<Sequence> AfterPrompt(const Model& model, int64_t n, Threads& threads) {
  if (model.info().decode != DecodeClass::kExact) return std::move(AfterInputs(model, n, 1, threads)[0]);
  constexpr int64_t chunk = 2048;
  std::unique_ptr<Sequence> sequence = model.Start();
  const std::vector<int32_t> tokens = Tokens(n, model.info().vocab_size);
  int32_t next = 0;
  for (int64_t at = 0; at < n; at += chunk) {
    int64_t count = std::min(chunk, n - at);
    std::vector<Work> batch;
    batch.push_back(LastRow(sequence.get(), {tokens.begin() + at, tokens.begin() + at + count}, &next));
    batch[0].more = at + count < n;
    if (batch[0].more) batch[0].wanted.clear();
    RunPass(model, batch, threads);
  }
  return sequence;
}

void Read(const Model& model, int64_t rows, int count, Threads& threads) {
  if (count == 1)
    AfterPrompt(model, rows, threads);
  else
    AfterInputs(model, rows, count, threads);
}

}  // namespace heed
