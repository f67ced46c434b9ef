// The parts of heed_bench, each in a file of its own.
#ifndef HEED_TESTS_BENCH_SECTIONS_H_
#define HEED_TESTS_BENCH_SECTIONS_H_

#include "engine/base/threads.h"
#include "tests/bench/measure.h"

namespace heed {

void GemmSection(Threads& threads, const Limits& limits);  // gemm_bench.cc
void AttentionSection(Threads& threads, const Limits& limits);  // attention_bench.cc

}  // namespace heed

#endif  // HEED_TESTS_BENCH_SECTIONS_H_
