#include "tests/bench/variants.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace heed {
namespace {

constexpr int64_t kRoom = kLongestText + 8192;  // of decoders whose length is limited

VariantFamily Windows() {
  return {"windows and blocks",
          true,
          {{"softmax_window", {{"type", "softmax"}, {"window", 512}}},
           {"sliding_window", {{"type", "sliding_window"}, {"window", 512}}},
           {"blockwise", {{"type", "blockwise"}, {"block", 256}}},
           {"image_local_1d", {{"type", "image_local_1d"}, {"query_block", 256}, {"memory_block", 256}}},
           {"image_local_2d",
            {{"type", "image_local_2d"},
             {"height", kRoom / 256},
             {"width", 256},
             {"query_block", {8, 16}},
             {"memory", {8, 16}}}}}};
}

VariantFamily SparsePatterns() {
  return {
      "sparse patterns",
      true,
      {{"sparse_strided", {{"type", "sparse_strided"}}, {"stride"}},
       {"sparse_fixed", {{"type", "sparse_fixed"}, {"summary", 8}}, {"stride"}},
       {"axial_row", {{"type", "axial"}, {"axis", "row"}, {"height", kRoom / 256}, {"width", 256}}},
       {"axial_column", {{"type", "axial"}, {"axis", "column"}, {"height", kRoom / 256}, {"width", 256}}}}};
}

VariantFamily LowRankAndKernels() {
  return {"low rank and kernels",
          true,
          {{"memory_compressed", {{"type", "memory_compressed"}, {"stride", 3}}},
           {"synthesizer",
            {{"type", "synthesizer"}, {"form", "factorized_random"}, {"rank", 32}, {"n_max", kRoom}}},
           {"linear", {{"type", "linear"}}},
           {"performer", {{"type", "performer"}, {"kernel", "softmax"}, {"num_features", 256}}}}};
}

VariantFamily SortedAndClustered() {
  return {"sorted and clustered",
          true,
          {{"lsh", {{"type", "lsh"}, {"num_hashes", 1}, {"num_buckets", 64}, {"chunk_length", 64}}},
           {"routing", {{"type", "routing"}}, {"clusters", "window"}},
           {"sinkhorn", {{"type", "sinkhorn"}, {"block", 256}, {"max_blocks", kRoom / 256}}}}};
}

VariantFamily MemoriesAndPositions() {
  return {"memories and positions",
          true,
          {{"relative_memory", {{"type", "relative_memory"}, {"memory", 512}}},
           {"compressive",
            {{"type", "compressive"},
             {"segment", 128},
             {"memory", 256},
             {"compressed_memory", 128},
             {"rate", 4}}},
           {"persistent_memory", {{"type", "persistent_memory"}, {"slots", 256}, {"window", 512}}},
           {"shaw", {{"type", "softmax"}, {"shaw", {{"max_distance", 16}}}}}}};
}

VariantFamily Recurrences() {
  return {"recurrences",
          true,
          {{"mamba", {{"type", "mamba"}, {"inner_size", 1024}, {"state_size", 16}, {"time_step_rank", 32}}},
           {"mamba2", {{"type", "mamba2"}, {"head_dim", 128}, {"state_size", 128}}},
           {"latent",
            {{"type", "latent"},
             {"latent_dim", 192},
             {"rope_dim", 32},
             {"key_dim", 64},
             {"value_dim", 64},
             {"rope", Json::object()}}},
           {"gated_delta", {{"type", "gated_delta"}, {"key_dim", 64}, {"value_dim", 128}}},
           {"kimi_delta", {{"type", "kimi_delta"}, {"key_dim", 64}, {"value_dim", 128}}},
           {"lightning", {{"type", "lightning"}}},
           {"short_convolution", {{"type", "short_convolution"}, {"kernel", 3}}},
           {"rg_lru", {{"type", "rg_lru"}}},
           {"rwkv", {{"type", "rwkv"}}},
           {"rwkv_channel", {{"type", "rwkv_channel"}, {"inner_size", 2048}}},
           {"side_by_side",
            {{"type", "side_by_side"},
             {"parts",
              {{{"type", "softmax"}, {"window", 1024}},
               {{"type", "mamba2"}, {"head_dim", 128}, {"state_size", 128}}}}}}}};
}

VariantFamily Encoders() {
  return {
      "encoders",
      false,
      {{"bigbird",
        {{"type", "bigbird"},
         {"block_size", 64},
         {"num_blocks", kLongestText / 64},
         {"num_random_blocks", 3}}},
       {"linformer", {{"type", "linformer"}, {"k", 256}, {"n_max", kLongestText}, {"sharing", "key-value"}}},
       {"fourier", {{"type", "fourier"}}},
       {"relative_segments", {{"type", "relative_segments"}, {"max_distance", kLongestText}}},
       {"yoso", {{"type", "yoso"}, {"hash_bits", 9}}},
       {"transient_global",
        {{"type", "transient_global"},
         {"radius", 127},
         {"global_block", 16},
         {"relative_bias", {{"buckets", 32}, {"max_distance", 128}}}}},
       {"nystrom", {{"type", "nystrom"}, {"num_landmarks", 64}, {"conv_kernel", 33}}},
       {"sort_cut",
        {{"type", "sinkhorn"}, {"block", 256}, {"max_blocks", kLongestText / 256}, {"sort_cut", 2}}},
       {"performer_encoder", {{"type", "performer"}, {"kernel", "softmax"}, {"num_features", 256}}}}};
}

}  // namespace

Json Variant::At(int64_t n) const {
  Json at = options;
  for (const std::string& root : roots)
    at[root] = static_cast<int64_t>(std::round(std::sqrt(static_cast<double>(n))));
  return at;
}

int64_t LongestText() {
  const char* longest = std::getenv("HEED_LONGEST");
  return longest == nullptr ? kLongestText : std::clamp<int64_t>(std::atoll(longest), 512, kLongestText);
}

std::vector<VariantFamily> VariantFamilies() {
  return {Windows(),     SparsePatterns(), LowRankAndKernels(), SortedAndClustered(), MemoriesAndPositions(),
          Recurrences(), Encoders()};
}

}  // namespace heed
