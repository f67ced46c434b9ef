// What "latent" refuses, and what it remembers.
#include "engine/attention/key_value_pages.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

constexpr const char* kOptions =
    R"({"latent_dim": 12, "rope_dim": 4, "key_dim": 6, "value_dim": 5, "rope": {}})";

TEST(LatentAttention, RemembersLatentsWhateverItsHeads) {
  for (int heads : {1, 4}) {
    const Layer layer({"latent", kOptions, Place::kDecoder, 32, heads}, Precision::kF32);
    const int64_t page = KeyValuePages::Bytes(DType::kF32, 12 + 4, 0, KeyValuePages::kPage);
    EXPECT_EQ(layer.attention().StateBytes(3 * KeyValuePages::kPage) -
                  layer.attention().StateBytes(2 * KeyValuePages::kPage),
              page);
  }
}

TEST(LatentAttention, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, R"({"key_dim": 6, "value_dim": 5})", {"attention", "latent_dim", "missing"}},
      {Place::kDecoder, R"({"latent_dim": 2000, "key_dim": 6, "value_dim": 5})", {"latent_dim", "2000"}},
      {Place::kDecoder, R"({"latent_dim": 8, "value_dim": 5})", {"key_dim", "missing"}},
      {Place::kDecoder, R"({"latent_dim": 8, "key_dim": 6, "value_dim": 0})", {"value_dim", "0"}},
      {Place::kDecoder, R"({"latent_dim": 8, "key_dim": 6, "value_dim": 5, "rope": {}})", {"rope_dim is 0"}},
      {Place::kDecoder, R"({"latent_dim": 8, "key_dim": 6, "value_dim": 5, "head_dim": 8})", {"head_dim"}},
      {Place::kDecoder,
       R"({"latent_dim": 8, "key_dim": 6, "value_dim": 5, "index": {"heads": 2, "head_dim": 8, "top_k": 4}})",
       {".index", "query_latent_dim is 0"}},
      {Place::kDecoder,
       R"({"latent_dim": 8, "key_dim": 6, "value_dim": 5, "query_latent_dim": 4, "index": {"heads": 2, "head_dim": 8}})",
       {".index", "top_k", "missing"}},
      {Place::kDecoder,
       R"({"latent_dim": 8, "key_dim": 6, "value_dim": 5, "query_latent_dim": 4, "window": 9, "index": {"heads": 2, "head_dim": 8, "top_k": 4}})",
       {"window", "index"}},
      {Place::kEncoder,
       R"({"latent_dim": 8, "key_dim": 6, "value_dim": 5, "query_latent_dim": 4, "index": {"heads": 2, "head_dim": 8, "top_k": 4}})",
       {".index", "of a decoder"}},
      {Place::kCross, R"({"latent_dim": 8, "key_dim": 6, "value_dim": 5})", {"own rows"}},
  };
  const Layer layer({"latent", kOptions, Place::kDecoder}, Precision::kF32);
  ExpectRefused(layer, layer.scope(), refusals);
}

}  // namespace
}  // namespace heed
