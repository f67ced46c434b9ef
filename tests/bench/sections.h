// The parts of heed_bench, each in a file of its own.
#ifndef HEED_TESTS_BENCH_SECTIONS_H_
#define HEED_TESTS_BENCH_SECTIONS_H_

#include "engine/base/threads.h"
#include "tests/bench/measure.h"

namespace heed {

void GemmSection(Threads& threads);         // gemm_bench.cc
void AttentionSection(Threads& threads);    // attention_bench.cc
void EncoderSection(Threads& threads);      // encoder_bench.cc
void DecodeSection(Threads& threads);       // decode_bench.cc
void StreamsSection(Threads& threads);      // streams_bench.cc
void LongSection(Threads& threads);         // long_bench.cc
void LongformerSection(Threads& threads);   // longformer_bench.cc
void TextSection(Threads& threads);         // text_bench.cc
void TokenizersSection(Threads& threads);   // tokenizers_bench.cc
void ServeSection(Threads& threads);        // serve_bench.cc
void VariantsSection(Threads& threads);     // variants_bench.cc
void ExpertsSection(Threads& threads);      // experts_bench.cc
void SurveySection(Threads& threads);       // survey_bench.cc
void PublishedSection(Threads& threads);    // published_bench.cc
void ShippedSection(Threads& threads);      // shipped_bench.cc
void CheckpointsSection(Threads& threads);  // checkpoints_bench.cc

}  // namespace heed

#endif  // HEED_TESTS_BENCH_SECTIONS_H_
