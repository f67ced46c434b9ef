// The parts of heed_bench, each in a file of its own.
#ifndef HEED_TESTS_BENCH_SECTIONS_H_
#define HEED_TESTS_BENCH_SECTIONS_H_

#include "engine/base/threads.h"
#include "tests/bench/measure.h"

namespace heed {

void GemmSection(Threads& threads, const Limits& limits);        // gemm_bench.cc
void AttentionSection(Threads& threads, const Limits& limits);   // attention_bench.cc
void EncoderSection(Threads& threads, const Limits& limits);     // encoder_bench.cc
void DecodeSection(Threads& threads, const Limits& limits);      // decode_bench.cc
void StreamsSection(Threads& threads, const Limits& limits);     // streams_bench.cc
void LongSection(Threads& threads, const Limits& limits);        // long_bench.cc
void LongformerSection(Threads& threads, const Limits& limits);  // longformer_bench.cc
void TextSection(Threads& threads, const Limits& limits);        // text_bench.cc
void ServeSection(Threads& threads, const Limits& limits);       // serve_bench.cc
void VariantsSection(Threads& threads, const Limits& limits);    // variants_bench.cc
void ShippedSection(Threads& threads, const Limits& limits);     // shipped_bench.cc

}  // namespace heed

#endif  // HEED_TESTS_BENCH_SECTIONS_H_
