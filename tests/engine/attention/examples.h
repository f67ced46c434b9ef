// Option sets that the contract tests try of every attention type. A type of variants.def that has none here
// fails.
#ifndef HEED_TESTS_ENGINE_ATTENTION_EXAMPLES_H_
#define HEED_TESTS_ENGINE_ATTENTION_EXAMPLES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/attention.h"

namespace heed {

enum class Place { kEncoder, kDecoder, kCross };

struct AttentionExample {
  std::string type;
  std::string options;  // the layer's "attention" object without its type
  Place place = Place::kDecoder;
  int64_t width = 32;
  int num_heads = 4;
  std::map<std::string, std::vector<int64_t>> tensors;
  bool sorts = false;  // a decoder whose prompt decides which of its tokens meet
  int64_t blind = 0;   // of a decoder's tokens, the first, that see nothing of the sequence
  std::map<std::string, int64_t> below = {};  // of these tensors the numbers are whole, from 0 up to this one
  RowLabel labels = RowLabel::kNone;          // that it reads

  // What its attention must declare.
  bool causal() const { return place == Place::kDecoder; }
  DecodeClass decode() const {
    if (place == Place::kEncoder) return DecodeClass::kNone;
    return sorts ? DecodeClass::kApproximate : DecodeClass::kExact;
  }
};

// q, k and v with biases on q and v alone.
inline std::map<std::string, std::vector<int64_t>> QueryKeyValue(int64_t width, int64_t query_width,
                                                                 int64_t key_width) {
  return {{"q.weight", {query_width, width}},
          {"q.bias", {query_width}},
          {"k.weight", {key_width, width}},
          {"v.weight", {key_width, width}},
          {"v.bias", {key_width}}};
}

// The same, with the projections of Longformer's global tokens.
inline std::map<std::string, std::vector<int64_t>> WithGlobalTokens(int64_t width) {
  auto tensors = QueryKeyValue(width, width, width);
  for (const char* name : {"q_global", "k_global", "v_global"})
    tensors[std::string(name) + ".weight"] = {width, width};
  return tensors;
}

// With Shaw's vectors of so many distances, one table for all heads or one for each.
inline std::map<std::string, std::vector<int64_t>> WithShawVectors(
    std::map<std::string, std::vector<int64_t>> tensors, std::vector<int64_t> shape, bool values = true) {
  tensors["shaw_keys"] = shape;
  if (values) tensors["shaw_values"] = shape;
  return tensors;
}

// q, k and v, with Transformer-XL's relative positions.
inline std::map<std::string, std::vector<int64_t>> WithRelativePositions(int64_t width, int64_t heads) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["r.weight"] = {width, width};
  tensors["pos_bias_u"] = tensors["pos_bias_v"] = {heads, width / heads};
  return tensors;
}

// The same, with a convolution of so many taps unless there are none.
inline std::map<std::string, std::vector<int64_t>> WithCompressedMemory(int64_t width, int64_t heads,
                                                                        int64_t taps = 0) {
  auto tensors = WithRelativePositions(width, heads);
  if (taps > 0) tensors["compress.weight"] = {width, width, taps};
  return tensors;
}

// Queries that are keys too, with rotations for the hashes.
inline std::map<std::string, std::vector<int64_t>> WithRotations(int64_t width, int64_t heads, int64_t hashes,
                                                                 int64_t directions) {
  return {{"q.weight", {width, width}},
          {"q.bias", {width}},
          {"v.weight", {width, width}},
          {"rotations", {heads, width / heads, hashes, directions}}};
}

// The same, with the sorting of so many blocks.
inline std::map<std::string, std::vector<int64_t>> WithSorting(int64_t width, int64_t heads, int64_t blocks) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["sort.weight"] = {heads, blocks, width / heads};
  return tensors;
}

// v, dense1, and what else the form reads.
inline std::map<std::string, std::vector<int64_t>> Synthesizer(
    int64_t width, std::map<std::string, std::vector<int64_t>> more) {
  more["v.weight"] = more["dense1.weight"] = {width, width};
  more["dense1.bias"] = {width};
  return more;
}

// The same, with random features.
inline std::map<std::string, std::vector<int64_t>> WithRandomFeatures(int64_t width, int64_t heads,
                                                                      int64_t features) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["features"] = {features, width / heads};
  return tensors;
}

// The same, with learned keys and values.
inline std::map<std::string, std::vector<int64_t>> WithPersistentVectors(int64_t width, int64_t heads,
                                                                         int64_t slots) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["pk"] = tensors["pv"] = {heads, slots, width / heads};
  return tensors;
}

// The same, with BigBird's random blocks.
inline std::map<std::string, std::vector<int64_t>> WithRandomBlocks(int64_t width, int64_t heads,
                                                                    int64_t blocks, int64_t randoms) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["random_blocks"] = {heads, blocks - 2, randoms};
  return tensors;
}

// The same, with a learned slot, and a convolution of so many taps unless there are none.
inline std::map<std::string, std::vector<int64_t>> WithSlots(int64_t width, int64_t taps = 0) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["null_k"] = tensors["null_v"] = {width};
  for (const char* name : {"compress_k", "compress_v"}) {
    if (taps == 0) continue;
    tensors[std::string(name) + ".weight"] = {width, width, taps};
    tensors[std::string(name) + ".bias"] = {width};
  }
  return tensors;
}

// The same, with Linformer's projections, each of this shape; with one alone it is the keys' and values'.
inline std::map<std::string, std::vector<int64_t>> WithProjections(int64_t width, std::vector<int64_t> shape,
                                                                   bool one = false) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["e"] = shape;
  if (!one) tensors["f"] = shape;
  return tensors;
}

// The same, with a convolution of the values.
inline std::map<std::string, std::vector<int64_t>> WithConvolution(int64_t width, int64_t heads,
                                                                   int64_t kernel) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["conv.weight"] = {heads, 1, kernel, 1};
  return tensors;
}

// Queries, values, keys of so many numbers (0: none), centroids.
inline std::map<std::string, std::vector<int64_t>> WithCentroids(int64_t width, int64_t key_width,
                                                                 const std::vector<int64_t>& centroids) {
  auto tensors = QueryKeyValue(width, width, width);
  tensors["k.weight"] = {key_width, width};
  if (key_width == 0) tensors.erase("k.weight");
  tensors["centroids"] = centroids;
  return tensors;
}

inline std::vector<AttentionExample> AttentionExamples() {
  const auto plain = QueryKeyValue(32, 32, 32), grouped = QueryKeyValue(32, 32, 16),
             single = QueryKeyValue(32, 32, 8);
  auto wide = QueryKeyValue(48, 5 * 40, 40), biased = plain;
  auto convolved = WithCompressedMemory(32, 4, 4);
  convolved["compress.bias"] = {32};
  wide["relative_bias"] = {32, 5};
  biased["relative_bias"] = {8, 4};
  const auto mixture = Synthesizer(16, {{"q.weight", {16, 16}},
                                        {"k.weight", {16, 16}},
                                        {"mix", {2, 4}},
                                        {"dense2.weight", {2, 4096, 8}},
                                        {"dense2.bias", {2, 4096}},
                                        {"factor_a.weight", {2, 64, 8}},
                                        {"factor_a.bias", {2, 64}},
                                        {"factor_c.weight", {2, 64, 8}},
                                        {"factor_c.bias", {2, 64}},
                                        {"random1", {2, 4096, 3}},
                                        {"random2", {2, 4096, 3}}});
  return {
      {"full", "{}", Place::kDecoder, 32, 4, plain},
      {"full", "{}", Place::kEncoder, 32, 4, plain},
      {"full", "{}", Place::kCross, 32, 4, plain},
      {"softmax", "{}", Place::kDecoder, 32, 4, plain},
      {"softmax", R"({"num_key_value_heads": 2, "rope": {}})", Place::kDecoder, 32, 4, grouped},
      {"softmax", R"({"num_key_value_heads": 2, "rope": {"theta": 500.0}})", Place::kEncoder, 32, 4, grouped},
      {"softmax", R"({"num_key_value_heads": 1, "rope": {"dims": 4, "layout": "interleaved"}})",
       Place::kDecoder, 32, 4, single},
      {"softmax", R"({"alibi": true, "scale": 0.5})", Place::kDecoder, 32, 4, plain},
      {"softmax", R"({"alibi": true})", Place::kEncoder, 32, 4, plain},
      {"softmax", R"({"alibi": true, "rope": {}})", Place::kCross, 32, 4, plain},
      {"softmax", R"({"relative_bias": {"buckets": 8, "max_distance": 20}, "scale": 1})", Place::kDecoder, 32,
       4, biased},
      {"softmax",
       R"({"relative_bias": {"buckets": 32, "max_distance": 128}, "head_dim": 40, "num_key_value_heads": 1})",
       Place::kEncoder, 48, 5, wide},
      {"softmax", R"({"window": 1})", Place::kDecoder, 32, 4, plain},
      {"softmax", R"({"window": 130, "rope": {}, "num_key_value_heads": 2})", Place::kDecoder, 32, 4,
       grouped},
      {"softmax", R"({"window": 61, "alibi": true})", Place::kEncoder, 32, 4, plain},
      {"softmax", R"({"window": 12, "sinks": 4, "rope": {}, "num_key_value_heads": 2})", Place::kDecoder, 32,
       4, grouped},
      {"softmax", R"({"window": 150, "sinks": 130, "rope": {"layout": "interleaved"}})", Place::kDecoder, 32,
       4, plain},
      {"softmax", R"({"window": 12, "sinks": 4, "rope": {}, "sink_positions": "text"})", Place::kDecoder, 32,
       4, plain},
      {"softmax", R"({"window": 40, "sinks": 3, "alibi": true})", Place::kDecoder, 32, 4, plain},
      {"softmax",
       R"({"window": 40, "sinks": 3, "relative_bias": {"buckets": 8, "max_distance": 20}, "alibi": true})",
       Place::kDecoder, 32, 4, biased},
      {"softmax", R"({"shaw": {"max_distance": 5}})", Place::kDecoder, 32, 4,
       WithShawVectors(plain, {11, 8})},
      {"softmax", R"({"shaw": {"max_distance": 300, "per_head": true}, "num_key_value_heads": 2})",
       Place::kDecoder, 32, 4, WithShawVectors(grouped, {4, 601, 8})},
      {"softmax", R"({"shaw": {"max_distance": 40}, "window": 150, "num_key_value_heads": 1})",
       Place::kDecoder, 32, 4, WithShawVectors(single, {81, 8})},
      {"softmax", R"({"shaw": {"max_distance": 9, "values": false}, "alibi": true})", Place::kDecoder, 32, 4,
       WithShawVectors(plain, {19, 8}, false)},
      {"softmax", R"({"shaw": {"max_distance": 130}})", Place::kEncoder, 33, 3,
       WithShawVectors(QueryKeyValue(33, 33, 33), {261, 11})},
      {"linear", "{}", Place::kDecoder, 32, 4, plain},
      {"linear", R"({"eps": 0.5})", Place::kDecoder, 45, 5, QueryKeyValue(45, 45, 45)},
      {"linear", "{}", Place::kEncoder, 80, 2, QueryKeyValue(80, 80, 80)},
      {"linear", "{}", Place::kCross, 32, 4, plain},
      {"sliding_window", R"({"window": 1})", Place::kDecoder, 32, 4, plain},
      {"sliding_window", R"({"window": 140})", Place::kDecoder, 32, 4, plain},
      {"sliding_window", R"({"window": 9, "dilation": [1, 2, 3, 1]})", Place::kDecoder, 32, 4, plain},
      {"sliding_window", R"({"window": 150, "dilation": 2})", Place::kEncoder, 32, 4, plain},
      {"sliding_window",
       R"({"window": 24, "dilation": [1, 1, 2, 5], "global_tokens": [130, 0, 4, 7]})",
       Place::kEncoder,
       32,
       4,
       WithGlobalTokens(32),
       false,
       0,
       {},
       RowLabel::kGlobal},
      {"sliding_window",
       R"({"window": 150})",
       Place::kEncoder,
       36,
       3,
       WithGlobalTokens(36),
       false,
       0,
       {},
       RowLabel::kGlobal},
      {"relative_memory", R"({"memory": 140})", Place::kDecoder, 32, 4, WithRelativePositions(32, 4)},
      {"relative_memory", R"({"memory": 17, "clamp_length": 9})", Place::kDecoder, 36, 3,
       WithRelativePositions(36, 3)},
      {"compressive", R"({"segment": 24, "memory": 48, "compressed_memory": 20, "rate": 4})", Place::kDecoder,
       32, 4, convolved},
      {"compressive",
       R"({"segment": 70, "memory": 140, "compressed_memory": 9, "rate": 7, "compression": "mean", "clamp_length": 100})",
       Place::kDecoder, 36, 3, WithCompressedMemory(36, 3)},
      {"compressive",
       R"({"segment": 5, "memory": 10, "compressed_memory": 140, "rate": 5, "compression": "max"})",
       Place::kDecoder, 32, 4, WithCompressedMemory(32, 4)},
      {"compressive", R"({"segment": 150, "memory": 0, "compressed_memory": 300, "rate": 2})",
       Place::kDecoder, 32, 4, WithCompressedMemory(32, 4, 2)},
      {"lsh", R"({"chunk_length": 16, "num_hashes": 2, "num_buckets": 8, "strict_causal": true})",
       Place::kDecoder, 32, 4, WithRotations(32, 4, 2, 4)},
      {"lsh", R"({"chunk_length": 20, "num_hashes": 3, "num_buckets": [4, 2], "chunks_before": 2})",
       Place::kDecoder, 36, 3, WithRotations(36, 3, 3, 3), /*sorts=*/true},
      {"lsh", R"({"chunk_length": 150, "num_hashes": 2, "num_buckets": 16, "chunks_after": 1})",
       Place::kEncoder, 32, 4, WithRotations(32, 4, 2, 8)},
      {"sinkhorn", R"({"block": 64, "max_blocks": 64})", Place::kDecoder, 32, 4, WithSorting(32, 4, 64)},
      {"sinkhorn", R"({"block": 25, "max_blocks": 46, "iterations": 3, "two_softmax": true})",
       Place::kDecoder, 36, 3, WithSorting(36, 3, 46)},
      {"sinkhorn", R"({"block": 300, "max_blocks": 300, "temperature": 2})", Place::kDecoder, 32, 4,
       WithSorting(32, 4, 300)},
      {"sinkhorn", R"({"block": 40, "max_blocks": 100})", Place::kEncoder, 32, 4, WithSorting(32, 4, 100)},
      {"sinkhorn", R"({"block": 50, "max_blocks": 100, "sort_cut": 2, "iterations": 8})", Place::kEncoder, 32,
       4, WithSorting(32, 4, 100)},
      {"synthesizer", R"({"form": "dense", "n_max": 4096})", Place::kDecoder, 32, 4,
       Synthesizer(32, {{"dense2.weight", {4, 4096, 8}}, {"dense2.bias", {4, 4096}}})},
      {"synthesizer", R"({"form": "dense", "n_max": 4096})", Place::kEncoder, 33, 1,
       Synthesizer(33, {{"dense2.weight", {1, 4096, 33}}, {"dense2.bias", {1, 4096}}})},
      {"synthesizer",
       R"({"form": "random", "n_max": 2048})",
       Place::kDecoder,
       8,
       1,
       {{"v.weight", {8, 8}}, {"random", {1, 2048, 2048}}}},
      {"synthesizer",
       R"({"form": "random", "n_max": 2048})",
       Place::kEncoder,
       8,
       1,
       {{"v.weight", {8, 8}}, {"random", {1, 2048, 2048}}}},
      {"synthesizer", R"({"form": "factorized_dense", "n_max": 4096, "factors": [16, 256]})", Place::kDecoder,
       32, 4,
       Synthesizer(32, {{"factor_a.weight", {4, 16, 8}},
                        {"factor_a.bias", {4, 16}},
                        {"factor_c.weight", {4, 256, 8}},
                        {"factor_c.bias", {4, 256}}})},
      {"synthesizer",
       R"({"form": "factorized_random", "n_max": 4096, "rank": 5})",
       Place::kDecoder,
       32,
       4,
       {{"v.weight", {32, 32}}, {"random1", {4, 4096, 5}}, {"random2", {4, 4096, 5}}}},
      {"synthesizer",
       R"({"form": "mixture", "n_max": 4096, "factors": [64, 64], "rank": 3, "terms": ["dot_product", "factorized_random", "dense", "factorized_dense"]})",
       Place::kDecoder, 16, 2, mixture},
      {"performer", R"({"kernel": "softmax", "num_features": 40})", Place::kDecoder, 32, 4,
       WithRandomFeatures(32, 4, 40)},
      {"performer", R"({"kernel": "softmax", "num_features": 21, "eps": 1e-4})", Place::kDecoder, 45, 5,
       WithRandomFeatures(45, 5, 21)},
      {"performer", R"({"kernel": "relu", "num_features": 64})", Place::kDecoder, 32, 4,
       WithRandomFeatures(32, 4, 64)},
      {"performer", R"({"kernel": "softmax", "num_features": 32})", Place::kEncoder, 32, 4,
       WithRandomFeatures(32, 4, 32)},
      {"performer", R"({"kernel": "relu", "num_features": 48, "eps": 0.01})", Place::kCross, 32, 4,
       WithRandomFeatures(32, 4, 48)},
      {"blockwise", R"({"block": 24})", Place::kDecoder, 32, 4, plain},
      {"blockwise", R"({"block": 300})", Place::kDecoder, 32, 4, plain},
      {"blockwise", R"({"block": 40})", Place::kEncoder, 32, 4, plain},
      {"image_local_1d", R"({"query_block": 48, "memory_block": 100})", Place::kDecoder, 32, 4, plain},
      {"image_local_1d", R"({"query_block": 256, "memory_block": 256})", Place::kDecoder, 32, 4, plain},
      {"image_local_2d", R"({"height": 70, "width": 64, "query_block": [8, 16], "memory": [8, 16]})",
       Place::kDecoder, 32, 4, plain},
      {"image_local_2d", R"({"height": 90, "width": 37, "query_block": [4, 6], "memory": [2, 3]})",
       Place::kDecoder, 36, 3, QueryKeyValue(36, 36, 36)},
      {"image_local_2d", R"({"height": 50, "width": 50, "query_block": [12, 20], "memory": [17, 50]})",
       Place::kDecoder, 32, 4, plain},
      {"sparse_fixed", R"({"stride": 64, "summary": 32})", Place::kDecoder, 32, 4, plain},
      {"sparse_fixed", R"({"stride": 100, "summary": 60, "heads": "split"})", Place::kDecoder, 36, 3,
       QueryKeyValue(36, 36, 36)},
      {"sparse_fixed", R"({"stride": 5, "summary": 4, "pattern": "summary"})", Place::kDecoder, 32, 4, plain},
      {"sparse_strided", R"({"stride": 64})", Place::kDecoder, 32, 4, plain},
      {"sparse_strided", R"({"stride": 100, "heads": "merged"})", Place::kDecoder, 36, 3,
       QueryKeyValue(36, 36, 36)},
      {"sparse_strided", R"({"stride": 100, "heads": "split"})", Place::kDecoder, 36, 3,
       QueryKeyValue(36, 36, 36)},
      {"sparse_strided", R"({"stride": 150, "pattern": "local"})", Place::kDecoder, 32, 4, plain},
      {"sparse_strided", R"({"stride": 3, "pattern": "strided"})", Place::kDecoder, 32, 4, plain},
      {"axial", R"({"axis": "row", "height": 70, "width": 64})", Place::kDecoder, 32, 4, plain},
      {"axial", R"({"axis": "column", "height": 1500, "width": 3})", Place::kDecoder, 32, 4, plain},
      {"axial", R"({"axis": "column", "height": 460, "width": 9})", Place::kEncoder, 32, 4, plain},
      {"axial", R"({"axis": 1, "shape": [2, 460, 5]})", Place::kDecoder, 32, 4, plain},
      {"axial", R"({"axis": 0, "shape": [1050, 2, 2]})", Place::kEncoder, 32, 4, plain},
      {"persistent_memory", R"({"slots": 40})", Place::kDecoder, 32, 4, WithPersistentVectors(32, 4, 40)},
      {"persistent_memory", R"({"slots": 300, "window": 150})", Place::kDecoder, 32, 4,
       WithPersistentVectors(32, 4, 300)},
      {"persistent_memory", R"({"slots": 8, "window": 61})", Place::kEncoder, 32, 4,
       WithPersistentVectors(32, 4, 8)},
      {"bigbird",
       R"({"block_size": 64, "num_blocks": 1024, "num_random_blocks": 3})",
       Place::kEncoder,
       32,
       4,
       WithRandomBlocks(32, 4, 1024, 3),
       false,
       0,
       {{"random_blocks", 40}}},
      {"bigbird",
       R"({"block_size": 20, "num_blocks": 80, "num_random_blocks": 2, "form": "itc"})",
       Place::kEncoder,
       36,
       3,
       WithRandomBlocks(36, 3, 80, 2),
       false,
       0,
       {{"random_blocks", 80}}},
      {"bigbird", R"({"block_size": 150, "num_blocks": 12, "num_random_blocks": 0})", Place::kEncoder, 32, 4,
       plain},
      {"memory_compressed", R"({"stride": 3})", Place::kDecoder, 32, 2, WithSlots(32, 3), false, /*blind=*/3},
      {"memory_compressed", R"({"stride": 7, "compression": "mean"})", Place::kDecoder, 32, 4, WithSlots(32),
       false, /*blind=*/7},
      {"memory_compressed", R"({"stride": 4, "compression": "max"})", Place::kDecoder, 36, 3, WithSlots(36),
       false, /*blind=*/4},
      {"memory_compressed", R"({"stride": 7})", Place::kEncoder, 32, 2, WithSlots(32, 7)},
      {"memory_compressed", R"({"stride": 3, "compression": "mean"})", Place::kEncoder, 36, 3, WithSlots(36)},
      {"memory_compressed", R"({"stride": 4, "compression": "max"})", Place::kEncoder, 32, 4, WithSlots(32)},
      {"linformer", R"({"k": 16, "n_max": 4096, "sharing": "headwise"})", Place::kEncoder, 144, 4,
       WithProjections(144, {16, 4096})},
      {"linformer", R"({"k": 150, "n_max": 4099, "sharing": "key-value"})", Place::kEncoder, 33, 1,
       WithProjections(33, {150, 4099}, true)},
      {"linformer", R"({"k": 5, "n_max": 4096, "sharing": "none"})", Place::kEncoder, 36, 3,
       WithProjections(36, {3, 5, 4096})},
      {"nystrom", R"({"num_landmarks": 32})", Place::kEncoder, 32, 4, plain},
      {"nystrom", R"({"num_landmarks": 64, "conv_kernel": 33})", Place::kEncoder, 36, 3,
       WithConvolution(36, 3, 33)},
      {"nystrom", R"({"num_landmarks": 150, "conv_kernel": 3})", Place::kEncoder, 33, 1,
       WithConvolution(33, 1, 3)},
      {"nystrom", R"({"num_landmarks": 400})", Place::kEncoder, 16, 1, QueryKeyValue(16, 16, 16)},
      {"routing", R"({"clusters": 64, "window": 96})", Place::kEncoder, 64, 2,
       WithCentroids(64, 0, {2, 64, 32})},
      {"routing",
       R"({"clusters": 60, "window": 64, "shared_qk": false, "local_heads": 1, "local_window": 20, "scale": 0.3})",
       Place::kEncoder, 96, 3, WithCentroids(96, 96, {2, 60, 32})},
      {"routing", R"({"clusters": 60, "window": 96})", Place::kDecoder, 64, 2,
       WithCentroids(64, 0, {2, 60, 32}), /*sorts=*/true},
      {"routing",
       R"({"clusters": 5, "window": 64, "shared_qk": false, "local_heads": 2, "local_window": 130})",
       Place::kDecoder, 96, 6, WithCentroids(96, 96, {4, 5, 16}), /*sorts=*/true},
      {"routing",
       R"({"clusters": 60, "window": 20, "local_heads": 1, "local_window": 9, "strict_causal": true})",
       Place::kDecoder, 36, 3, WithCentroids(36, 12, {2, 60, 12})},
      {"routing", R"({"clusters": 4, "window": 150, "shared_qk": false, "strict_causal": true, "scale": 1})",
       Place::kDecoder, 32, 4, WithCentroids(32, 32, {4, 4, 8})},
  };
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ATTENTION_EXAMPLES_H_
