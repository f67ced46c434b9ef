// Published checkpoints' shapes, with random weights: their own config.json, read by their family.
#ifndef HEED_TESTS_BENCH_CHECKPOINTS_H_
#define HEED_TESTS_BENCH_CHECKPOINTS_H_

#include "engine/base/json.h"

namespace heed {

// As the native format has them: what MakeRandomModel() takes.
Json ModernBertBase();    // answerdotai/ModernBERT-base: 22 layers, 768; classifies into 2
Json T5Small();           // google-t5/t5-small: 6 + 6 layers, 512
Json Llama1B();           // meta-llama/Llama-3.2-1B: 16 layers, 2,048, 8 key heads, vocabulary 128,256: 1.24B
Json GraniteMixture1B();  // ibm-granite/granite-3.0-1b-a400m: 24 layers, 1,024, 8 of 32 experts
// Qwen/Qwen3.5-0.8B's widths, four of its layers: three of the gated delta rule, then one of attention, which
// sees everything; with a window, the newest so many tokens.
Json GatedDelta(int64_t window = 0);

}  // namespace heed

#endif  // HEED_TESTS_BENCH_CHECKPOINTS_H_
