// Published figures of models that write, or read a text on: token by token, or segment by segment.
#ifndef HEED_TESTS_BENCH_PUBLISHED_DECODING_H_
#define HEED_TESTS_BENCH_PUBLISHED_DECODING_H_

#include <cstdint>

#include "engine/base/threads.h"
#include "engine/ops/gemm.h"
#include "tests/bench/published_table.h"

namespace heed {

// The Linear Transformer's images (2006.16236, tables 1, 2, 4, 5): a pixel a token, 784 of MNIST and 3,072 of
// CIFAR-10. One image with linear attention against one whose model keeps keys and values, or computes
// everything anew for each pixel; and as many images at once as have room.
void SampleImages(Threads& threads, Precision precision, int64_t longest, PublishedTable& table);

// Transformer-XL's evaluation (1901.02860, table 9): a token that sees n before it, by a memory, against a
// pass over n tokens for each; and against kept keys and values.
void EvaluateWithMemory(Threads& threads, Precision precision, int64_t longest, PublishedTable& table);

}  // namespace heed

#endif  // HEED_TESTS_BENCH_PUBLISHED_DECODING_H_
