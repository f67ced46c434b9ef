// The model shapes and inputs that benchmarks use, with random weights.
#ifndef HEED_TESTS_BENCH_SHAPES_H_
#define HEED_TESTS_BENCH_SHAPES_H_

#include <cstdint>
#include <vector>

#include "engine/base/json.h"

namespace heed {

Json BertBase();     // 12 layers, 768, 12 heads, 3072, post-norm, GELU, learned positions; classifies into 2
Json MiniLm();       // 6 layers, 384, 12 heads, 1536, otherwise the same
Json Llama135M();    // 30 layers, 576, 9 heads, 3 key heads, SwiGLU 1536, RMS norm, rotary, vocabulary 49,152
                     // (tied)
Json LongDecoder();  // 4 layers, 256, 4 heads, 1024, rotary, bytes
Json Longformer(int64_t max_tokens);  // BertBase with a window of 512 and token 0 global

// So many layers that are alike, with dense feed-forwards: a configuration's "layers".
Json Layers(int count, const Json& attention);

// A stack whose layers are alike but for their attention: what variants are compared in. Vocabulary 256, no
// positions; a decoder gives logits, an encoder two labels.
struct StackShape {
  bool causal = true;
  int layers = 4;
  int64_t width = 512;
  int heads = 8;
  int64_t hidden = 2048;
};
Json Stack(const StackShape& shape, const Json& attention);

// 192 lengths 8 .. 512, mean about 104, in the order in which they arrive; always the same.
std::vector<int64_t> RaggedLengths();

// n token ids below `vocabulary`, always the same.
std::vector<int32_t> Tokens(int64_t n, int64_t vocabulary);

}  // namespace heed

#endif  // HEED_TESTS_BENCH_SHAPES_H_
