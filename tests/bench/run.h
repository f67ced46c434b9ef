// Running a model in a benchmark: a batch from end to end.
#ifndef HEED_TESTS_BENCH_RUN_H_
#define HEED_TESTS_BENCH_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/threads.h"
#include "engine/models/model.h"

namespace heed {

// A work whose last row is wanted; what comes back goes to `next`: the largest output's index.
Work LastRow(Sequence* sequence, std::vector<int32_t> tokens, int32_t* next);

void RunPass(const Model& model, std::vector<Work>& batch, Threads& threads);

// One token more.
void Step(const Model& model, Sequence& sequence, Threads& threads);

// So many inputs of `rows` rows each, in one pass, whatever the model reads: tokens, vectors, patches of
// square images, table rows. The sequences that have read them.
std::vector<std::unique_ptr<Sequence>> AfterInputs(const Model& model, int64_t rows, int count,
                                                   Threads& threads);

// A token more for each of them.
void StepAll(const Model& model, const std::vector<std::unique_ptr<Sequence>>& sequences, Threads& threads);

// A sequence that has read a prompt of n tokens, in chunks of 2,048 where the model allows it.
std::unique_ptr<Sequence> AfterPrompt(const Model& model, int64_t n, Threads& threads);

// Reads `count` inputs: a lone one as a prompt, several in one pass.
void Read(const Model& model, int64_t rows, int count, Threads& threads);

}  // namespace heed

#endif  // HEED_TESTS_BENCH_RUN_H_
