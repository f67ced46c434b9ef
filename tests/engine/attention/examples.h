// Option sets that the contract tests try of every attention type. A type of variants.def that has none here
// fails.
#ifndef HEED_TESTS_ENGINE_ATTENTION_EXAMPLES_H_
#define HEED_TESTS_ENGINE_ATTENTION_EXAMPLES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/attention.h"

namespace heed {

enum class Place { kEncoder, kDecoder, kCross };

struct AttentionExample {
  std::string type;
  std::string options;  // the layer's "attention" object without its type
  Place place = Place::kDecoder;
  int64_t width = 32;
  int num_heads = 4;
  bool sorts = false;                   // a decoder whose prompt decides which of its tokens meet
  int64_t blind = 0;                    // of a decoder's tokens, the first, that see nothing of the sequence
  RowLabel labels = RowLabel::kNone;    // that it reads
  bool bare = false;                    // the tensors that it can do without are not there
  std::optional<ImageRows> image{};     // its rows come with their columns
  int64_t front = 0;                    // rows of the model's own, before those of the input
  bool without_products = false;        // what rows give each other the micro-kernel has no part in
  std::optional<RowSpacing> spacing{};  // its rows were pooled

  // What its attention must declare.
  bool causal() const { return place == Place::kDecoder; }
  DecodeClass decode() const {
    if (place == Place::kEncoder) return DecodeClass::kNone;
    return sorts ? DecodeClass::kApproximate : DecodeClass::kExact;
  }
};

inline AttentionExample Bare(AttentionExample example) {
  example.bare = true;
  return example;
}

inline AttentionExample WithoutProducts(AttentionExample example) {
  example.without_products = true;
  return example;
}

inline AttentionExample Pooled(const RowSpacing& spacing, AttentionExample example) {
  example.spacing = spacing;
  return example;
}

inline AttentionExample Behind(int64_t front, AttentionExample example) {
  example.front = front;
  return example;
}

inline std::vector<AttentionExample> AttentionExamples() {
  return {
      {"full", "{}", Place::kDecoder},
      {"full", "{}", Place::kEncoder},
      {"full", "{}", Place::kCross},
      {"softmax", "{}", Place::kDecoder},
      {"softmax", R"({"num_key_value_heads": 2, "rope": {}})", Place::kDecoder},
      {"softmax", R"({"num_key_value_heads": 2, "rope": {"theta": 500.0}})", Place::kEncoder},
      {"softmax", R"({"num_key_value_heads": 1, "rope": {"dims": 4, "layout": "interleaved"}})",
       Place::kDecoder},
      {"softmax", R"({"alibi": true, "scale": 0.5})", Place::kDecoder},
      {"softmax", R"({"alibi": true})", Place::kEncoder},
      {"softmax", R"({"alibi": true, "rope": {}})", Place::kCross},
      {"softmax", R"({"relative_bias": {"buckets": 8, "max_distance": 20}, "scale": 1})", Place::kDecoder},
      {"softmax",
       R"({"relative_bias": {"buckets": 32, "max_distance": 128}, "head_dim": 40, "num_key_value_heads": 1})",
       Place::kEncoder, 48, 5},
      {"disentangled", R"({"max_distance": 40})", Place::kEncoder},
      {"disentangled", R"({"max_distance": 150, "buckets": 16, "relative_eps": 1e-7})", Place::kEncoder},
      {"disentangled", R"({"max_distance": 500, "p2c": false})", Place::kEncoder, 33, 3},
      {"disentangled", R"({"max_distance": 60, "buckets": 24, "c2p": false})", Place::kEncoder},
      {"relative_segments", R"({"max_distance": 5000})", Place::kEncoder},
      {"relative_segments", R"({"max_distance": 4999, "segments": false, "head_dim": 13})", Place::kEncoder,
       36, 3},
      Pooled({.apart = 1, .step = 4},
             {"relative_segments", R"({"max_distance": 40000, "any_segment": 2})", Place::kEncoder}),
      Pooled({.apart = 1, .step = 2},
             {"relative_segments", R"({"max_distance": 20000})", Place::kCross, 36, 3}),
      Pooled({.step = 8, .source_step = 4},
             {"relative_segments", R"({"max_distance": 65536})", Place::kCross}),
      {"softmax", R"({"window": 1})", Place::kDecoder},
      {"softmax", R"({"window": 130, "rope": {}, "num_key_value_heads": 2})", Place::kDecoder},
      Bare({"softmax", R"({"window": 61, "alibi": true})", Place::kEncoder}),
      {"softmax", R"({"window": 12, "sinks": 4, "rope": {}, "num_key_value_heads": 2})", Place::kDecoder},
      {"softmax", R"({"window": 150, "sinks": 130, "rope": {"layout": "interleaved"}})", Place::kDecoder},
      {"softmax", R"({"window": 12, "sinks": 4, "rope": {}, "sink_positions": "text"})", Place::kDecoder},
      {"softmax", R"({"window": 40, "sinks": 3, "alibi": true})", Place::kDecoder},
      {"softmax",
       R"({"window": 40, "sinks": 3, "relative_bias": {"buckets": 8, "max_distance": 20}, "alibi": true})",
       Place::kDecoder},
      {"softmax", R"({"shaw": {"max_distance": 5}})", Place::kDecoder},
      {"softmax", R"({"shaw": {"max_distance": 300, "per_head": true}, "num_key_value_heads": 2})",
       Place::kDecoder},
      {"softmax", R"({"shaw": {"max_distance": 40}, "window": 150, "num_key_value_heads": 1})",
       Place::kDecoder},
      {"softmax", R"({"shaw": {"max_distance": 9, "values": false}, "alibi": true})", Place::kDecoder},
      {"softmax", R"({"shaw": {"max_distance": 130}})", Place::kEncoder, 33, 3},
      {"softmax", R"({"qk_norm": {}, "rope": {}, "num_key_value_heads": 2})", Place::kDecoder},
      {"softmax", R"({"qk_norm": {"type": "layer", "over": "all", "bias": true}, "clip_qkv": 1.5})",
       Place::kEncoder, 36, 3},
      {"softmax",
       R"({"qk_norm": {"over": "all"}, "clip_qkv": 0.8, "clip_normed": true, "alibi": true, "alibi_scale": 0.4})",
       Place::kDecoder},
      {"softmax", R"({"qk_norm": {"type": "layer", "per_head": true, "eps": 0.01}})", Place::kCross},
      {"softmax",
       R"({"qk_norm": {"after_rope": true}, "rope": {"scaling": {"type": "linear", "factor": 4}}, "window": 150})",
       Place::kDecoder},
      {"softmax",
       R"({"rope": {"scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1024}}})",
       Place::kDecoder},
      {"softmax",
       R"({"rope": {"layout": "interleaved", "scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64}}})",
       Place::kDecoder},
      {"softmax",
       R"({"rope": {"scaling": {"type": "yarn", "factor": 32, "original_max_position_embeddings": 4096, "beta_fast": 40, "beta_slow": 2, "mscale": 1, "mscale_all_dim": 0.5, "truncate": false}}, "qk_norm": {"over": "all", "weight": false}})",
       Place::kEncoder, 64, 2},
      {"softmax", R"({"soft_cap": 1.5, "scale": 1, "window": 130, "num_key_value_heads": 2})",
       Place::kDecoder},
      {"softmax", R"({"soft_cap": 2, "alibi": true})", Place::kEncoder},
      {"softmax", R"({"learned_sink": true, "rope": {}, "num_key_value_heads": 2})", Place::kDecoder},
      {"softmax", R"({"learned_sink": true, "window": 40, "sinks": 3, "soft_cap": 30})", Place::kDecoder},
      {"softmax", R"({"learned_sink": true})", Place::kCross},
      {"softmax", R"({"output_gate": true, "rope": {}, "num_key_value_heads": 2, "window": 150})",
       Place::kDecoder},
      Bare({"softmax", R"({"output_gate": true, "head_dim": 21})", Place::kEncoder, 36, 3}),
      {"softmax", R"({"output_gate": true, "qk_norm": {}})", Place::kCross},
      {"softmax", R"({"position_scale": {"beta": 0.4, "length": 30}, "rope": {}, "soft_cap": 4})",
       Place::kDecoder},
      {"softmax", R"({"position_scale": {"beta": 0.2, "length": 7}, "num_key_value_heads": 1})",
       Place::kEncoder},
      {"softmax",
       R"({"rope": {"dims": 6, "scaling": {"type": "longrope", "factors": [1, 1.5, 4], "attention_factor": 1.2}}})",
       Place::kDecoder},
      {"softmax", R"({"output_gate": "head_softplus", "num_key_value_heads": 2, "window": 40})",
       Place::kDecoder},
      Bare({"softmax", R"({"output_gate": "head_softplus", "value_dim": 5, "learned_sink": true})",
            Place::kEncoder, 36, 3}),
      {"softmax",
       R"({"v_norm": true, "rope": {"scaling": {"type": "proportional", "share": 0.5}}, "num_key_value_heads": 1})",
       Place::kDecoder, 48, 3},
      {"latent",
       R"({"latent_dim": 12, "rope_dim": 4, "key_dim": 6, "value_dim": 5, "rope": {"layout": "interleaved"}})",
       Place::kDecoder},
      {"latent",
       R"({"latent_dim": 17, "rope_dim": 6, "key_dim": 8, "value_dim": 7, "query_latent_dim": 10, "rope": {}, "position_scale": {"beta": 0.3, "length": 20}, "window": 150})",
       Place::kDecoder, 36, 3},
      {"latent",
       R"({"latent_dim": 12, "rope_dim": 4, "key_dim": 6, "value_dim": 5, "query_latent_dim": 10, "rope": {"layout": "interleaved"}, "index": {"heads": 3, "head_dim": 9, "top_k": 20}})",
       Place::kDecoder},
      {"latent",
       R"({"latent_dim": 12, "key_dim": 6, "value_dim": 5, "query_latent_dim": 10, "index": {"heads": 17, "head_dim": 16, "top_k": 140}})",
       Place::kDecoder, 36, 3},
      Bare({"latent", R"({"latent_dim": 16, "key_dim": 8, "value_dim": 8, "scale": 0.5, "latent_eps": 0.1})",
            Place::kEncoder}),
      {"latent", R"({"latent_dim": 16, "rope_dim": 2, "key_dim": 8, "value_dim": 6, "output_gate": "head"})",
       Place::kDecoder},
      {"softmax", R"({"output_gate": "head", "num_key_value_heads": 2})", Place::kDecoder},
      {"linear", "{}", Place::kDecoder},
      Bare({"linear", R"({"eps": 0.5})", Place::kDecoder, 45, 5}),
      {"linear", "{}", Place::kEncoder, 80, 2},
      {"linear", "{}", Place::kCross},
      {"sliding_window", R"({"window": 1})", Place::kDecoder},
      {"sliding_window", R"({"window": 140})", Place::kDecoder},
      {"sliding_window", R"({"window": 9, "dilation": [1, 2, 3, 1]})", Place::kDecoder},
      Bare({"sliding_window", R"({"window": 150, "dilation": 2})", Place::kEncoder}),
      {"sliding_window", R"({"window": 24, "dilation": [1, 1, 2, 5], "global_tokens": [130, 0, 4, 7]})",
       Place::kEncoder, 32, 4, false, 0, RowLabel::kGlobal},
      {"sliding_window", R"({"window": 150})", Place::kEncoder, 36, 3, false, 0, RowLabel::kGlobal},
      {"relative_memory", R"({"memory": 140})", Place::kDecoder},
      {"relative_memory", R"({"memory": 17, "clamp_length": 9})", Place::kDecoder, 36, 3},
      {"relative_memory", R"({"memory": 150, "null_memory": true, "clamp_length": 140})", Place::kDecoder},
      {"compressive", R"({"segment": 24, "memory": 48, "compressed_memory": 20, "rate": 4})",
       Place::kDecoder},
      {"compressive",
       R"({"segment": 70, "memory": 140, "compressed_memory": 9, "rate": 7, "compression": "mean", "clamp_length": 100})",
       Place::kDecoder, 36, 3},
      {"compressive",
       R"({"segment": 5, "memory": 10, "compressed_memory": 140, "rate": 5, "compression": "max"})",
       Place::kDecoder},
      Bare({"compressive", R"({"segment": 150, "memory": 0, "compressed_memory": 300, "rate": 2})",
            Place::kDecoder}),
      Bare({"lsh", R"({"chunk_length": 16, "num_hashes": 2, "num_buckets": 8, "strict_causal": true})",
            Place::kDecoder}),
      {"lsh", R"({"chunk_length": 24, "num_hashes": 2, "num_buckets": 6, "head_dim": 12})", Place::kDecoder,
       30, 4, /*sorts=*/true},
      {"lsh", R"({"chunk_length": 20, "num_hashes": 3, "num_buckets": [4, 2], "chunks_before": 2})",
       Place::kDecoder, 36, 3, /*sorts=*/true},
      {"lsh", R"({"chunk_length": 150, "num_hashes": 2, "num_buckets": 16, "chunks_after": 1})",
       Place::kEncoder},
      {"sinkhorn", R"({"block": 64, "max_blocks": 64})", Place::kDecoder},
      {"sinkhorn", R"({"block": 25, "max_blocks": 46, "iterations": 3, "two_softmax": true})",
       Place::kDecoder, 36, 3},
      {"sinkhorn", R"({"block": 300, "max_blocks": 300, "temperature": 2})", Place::kDecoder},
      {"sinkhorn", R"({"block": 40, "max_blocks": 100})", Place::kEncoder},
      {"sinkhorn", R"({"block": 50, "max_blocks": 100, "sort_cut": 2, "iterations": 8})", Place::kEncoder},
      {"synthesizer", R"({"form": "dense", "n_max": 4096})", Place::kDecoder},
      {"synthesizer", R"({"form": "dense", "n_max": 4096})", Place::kEncoder, 33, 1},
      {"synthesizer", R"({"form": "random", "n_max": 2048})", Place::kDecoder, 8, 1},
      {"synthesizer", R"({"form": "random", "n_max": 2048})", Place::kEncoder, 8, 1},
      {"synthesizer", R"({"form": "factorized_dense", "n_max": 4096, "factors": [16, 256]})",
       Place::kDecoder},
      {"synthesizer", R"({"form": "factorized_random", "n_max": 4096, "rank": 5})", Place::kDecoder},
      {"synthesizer",
       R"({"form": "mixture", "n_max": 4096, "factors": [64, 64], "rank": 3, "terms": ["dot_product", "factorized_random", "dense", "factorized_dense"]})",
       Place::kDecoder, 16, 2},
      {"performer", R"({"kernel": "softmax", "num_features": 40})", Place::kDecoder},
      {"performer", R"({"kernel": "softmax", "num_features": 21, "eps": 1e-4})", Place::kDecoder, 45, 5},
      {"performer", R"({"kernel": "relu", "num_features": 64})", Place::kDecoder},
      {"performer", R"({"kernel": "softmax", "num_features": 32})", Place::kEncoder},
      {"performer", R"({"kernel": "relu", "num_features": 48, "eps": 0.01})", Place::kCross},
      {"blockwise", R"({"block": 24})", Place::kDecoder},
      {"blockwise", R"({"block": 300})", Place::kDecoder},
      {"blockwise", R"({"block": 40})", Place::kEncoder},
      {"blockwise", R"({"block": 9, "blocks_before": 2, "head_dim": 5})", Place::kDecoder},
      {"blockwise", R"({"block": 50, "blocks_before": 1, "blocks_after": 3, "head_dim": 21})",
       Place::kEncoder, 40, 3},
      {"blockwise", R"({"block": 50, "blocks_before": 1, "blocks_after": 1, "wrap_unit": 100})",
       Place::kEncoder},
      {"blockwise", R"({"block": 40, "blocks_before": 2, "blocks_after": 15, "wrap_unit": 40})",
       Place::kEncoder, 36, 3},
      {"image_local_1d", R"({"query_block": 48, "memory_block": 100})", Place::kDecoder},
      {"image_local_1d", R"({"query_block": 256, "memory_block": 256})", Place::kDecoder},
      {"image_local_2d", R"({"height": 70, "width": 64, "query_block": [8, 16], "memory": [8, 16]})",
       Place::kDecoder},
      {"image_local_2d", R"({"height": 90, "width": 37, "query_block": [4, 6], "memory": [2, 3]})",
       Place::kDecoder, 36, 3},
      {"image_local_2d", R"({"height": 50, "width": 50, "query_block": [12, 20], "memory": [17, 50]})",
       Place::kDecoder},
      {"window_2d", R"({"window": 7, "shift": 3, "height": 71, "width": 58})", Place::kEncoder},
      {"window_2d", R"({"window": 8, "relative_bias": false, "height": 512, "width": 8})", Place::kEncoder,
       36, 3},
      Bare({"window_2d", R"({"window": 12, "shift": 5, "height": 50, "width": 83})", Place::kEncoder, 33, 3}),
      {"window_2d", R"({"window": 25, "shift": 1, "height": 90, "width": 50})", Place::kEncoder, 32, 2},
      {"window_2d", R"({"window": 9, "shift": 4, "height": 1400, "width": 3})", Place::kEncoder},
      {"sparse_fixed", R"({"stride": 64, "summary": 32})", Place::kDecoder},
      {"sparse_fixed", R"({"stride": 100, "summary": 60, "heads": "split"})", Place::kDecoder, 36, 3},
      {"sparse_fixed", R"({"stride": 5, "summary": 4, "pattern": "summary"})", Place::kDecoder},
      {"sparse_strided", R"({"stride": 64})", Place::kDecoder},
      {"sparse_strided", R"({"stride": 100, "heads": "merged"})", Place::kDecoder, 36, 3},
      {"sparse_strided", R"({"stride": 100, "heads": "split"})", Place::kDecoder, 36, 3},
      {"sparse_strided", R"({"stride": 150, "pattern": "local"})", Place::kDecoder},
      {"sparse_strided", R"({"stride": 3, "pattern": "strided"})", Place::kDecoder},
      {"axial", R"({"axis": "row", "height": 70, "width": 64})", Place::kDecoder},
      {"axial", R"({"axis": "column", "height": 1500, "width": 3})", Place::kDecoder},
      {"axial", R"({"axis": "column", "height": 460, "width": 9})", Place::kEncoder},
      {"axial", R"({"axis": 1, "shape": [2, 460, 5]})", Place::kDecoder},
      {"axial", R"({"axis": 0, "shape": [1050, 2, 2]})", Place::kEncoder},
      {"persistent_memory", R"({"slots": 40})", Place::kDecoder},
      {"persistent_memory", R"({"slots": 300, "window": 150})", Place::kDecoder},
      {"persistent_memory", R"({"slots": 8, "window": 61})", Place::kEncoder},
      {"bigbird", R"({"block_size": 64, "num_blocks": 1024, "num_random_blocks": 3})", Place::kEncoder},
      {"bigbird", R"({"block_size": 20, "num_blocks": 80, "num_random_blocks": 2, "form": "itc"})",
       Place::kEncoder, 36, 3},
      {"bigbird", R"({"block_size": 150, "num_blocks": 12, "num_random_blocks": 0})", Place::kEncoder},
      {"bigbird",
       R"({"block_size": 20, "num_blocks": 80, "num_random_blocks": 0, "first_block_count": 4, "full_up_to": 100})",
       Place::kEncoder, 36, 3},
      Behind(128,
             {"bigbird", R"({"block_size": 64, "num_blocks": 1024, "num_random_blocks": 3, "form": "etc"})",
              Place::kEncoder}),
      Behind(7, {"bigbird", R"({"block_size": 20, "num_blocks": 80, "num_random_blocks": 2, "form": "etc"})",
                 Place::kEncoder, 36, 3}),
      Behind(1, {"bigbird", R"({"block_size": 150, "num_blocks": 12, "num_random_blocks": 0, "form": "etc"})",
                 Place::kEncoder}),
      {"memory_compressed", R"({"stride": 3})", Place::kDecoder, 32, 2, false, /*blind=*/3},
      {"memory_compressed", R"({"stride": 7, "compression": "mean"})", Place::kDecoder, 32, 4, false,
       /*blind=*/7},
      {"memory_compressed", R"({"stride": 4, "compression": "max"})", Place::kDecoder, 36, 3, false,
       /*blind=*/4},
      {"memory_compressed", R"({"stride": 7})", Place::kEncoder, 32, 2},
      {"memory_compressed", R"({"stride": 3, "compression": "mean"})", Place::kEncoder, 36, 3},
      {"memory_compressed", R"({"stride": 4, "compression": "max"})", Place::kEncoder},
      {"linformer", R"({"k": 16, "n_max": 4096, "sharing": "headwise"})", Place::kEncoder, 144, 4},
      {"linformer", R"({"k": 150, "n_max": 4099, "sharing": "key-value"})", Place::kEncoder, 33, 1},
      {"linformer", R"({"k": 5, "n_max": 4096, "sharing": "none"})", Place::kEncoder, 36, 3},
      {"transient_global",
       R"({"radius": 100, "global_block": 16, "relative_bias": {"buckets": 32, "max_distance": 128}, "scale": 1})",
       Place::kEncoder},
      {"transient_global",
       R"({"radius": 150, "global_block": 7, "relative_bias": {"buckets": 8, "max_distance": 20}, "head_dim": 20})",
       Place::kEncoder, 36, 3},
      {"yoso", "{}", Place::kEncoder},
      {"yoso", R"({"hash_bits": 2})", Place::kEncoder, 45, 3},
      WithoutProducts({"fourier", "{}", Place::kEncoder}),
      WithoutProducts({"fourier", "{}", Place::kEncoder, 45, 3}),
      {"nystrom", R"({"num_landmarks": 32})", Place::kEncoder},
      {"nystrom", R"({"num_landmarks": 64, "conv_kernel": 33})", Place::kEncoder, 36, 3},
      {"nystrom", R"({"num_landmarks": 48, "inverse_start": "all_heads"})", Place::kEncoder, 36, 3},
      {"nystrom", R"({"num_landmarks": 150, "conv_kernel": 3})", Place::kEncoder, 33, 1},
      {"nystrom", R"({"num_landmarks": 400})", Place::kEncoder, 16, 1},
      {"routing", R"({"clusters": 64, "window": 96})", Place::kEncoder, 64, 2},
      {"routing",
       R"({"clusters": 60, "window": 64, "shared_qk": false, "local_heads": 1, "local_window": 20, "scale": 0.3})",
       Place::kEncoder, 96, 3},
      {"routing", R"({"clusters": 60, "window": 96})", Place::kDecoder, 64, 2, /*sorts=*/true},
      {"routing",
       R"({"clusters": 5, "window": 64, "shared_qk": false, "local_heads": 2, "local_window": 130})",
       Place::kDecoder, 96, 6, /*sorts=*/true},
      Bare({"routing",
            R"({"clusters": 60, "window": 20, "local_heads": 1, "local_window": 9, "strict_causal": true})",
            Place::kDecoder, 36, 3}),
      {"routing", R"({"clusters": 4, "window": 150, "shared_qk": false, "strict_causal": true, "scale": 1})",
       Place::kDecoder},
      {"side_by_side",
       R"({"parts": [{"type": "softmax", "rope": {}, "num_key_value_heads": 2}, {"type": "mamba2", "num_heads": 8, "head_dim": 8, "state_size": 12}]})",
       Place::kDecoder},
      Bare(
          {"side_by_side",
           R"({"parts": [{"type": "short_convolution", "kernel": 3}, {"type": "softmax", "window": 40}, {"type": "linear"}]})",
           Place::kDecoder, 36, 3}),
      {"side_by_side",
       R"({"parts": [{"type": "full"}, {"type": "softmax", "num_heads": 8, "head_dim": 5, "window": 9}]})",
       Place::kEncoder},
      {"mamba2", R"({"head_dim": 16, "state_size": 12, "num_groups": 2})", Place::kDecoder},
      Bare({"mamba2",
            R"({"head_dim": 21, "state_size": 5, "kernel": 3, "time_step_min": 0.1, "time_step_max": 0.6})",
            Place::kDecoder, 32, 3}),
      {"mamba2",
       R"({"head_dim": 70, "state_size": 16, "kernel": 1, "norm": "norm_first", "norm_groups": 2, "norm_eps": 1e-3})",
       Place::kDecoder, 24, 2},
      {"mamba2", R"({"head_dim": 8, "state_size": 30, "num_groups": 3, "kernel": 5, "norm": "none"})",
       Place::kDecoder, 40, 6},
      {"gated_delta", R"({"key_dim": 16, "value_dim": 12, "num_key_heads": 2})", Place::kDecoder},
      Bare({"gated_delta",
            R"({"key_dim": 5, "value_dim": 70, "kernel": 3, "norm_eps": 1e-3, "negative_eigenvalues": true})",
            Place::kDecoder, 32, 3}),
      {"kimi_delta", R"({"key_dim": 16, "value_dim": 12})", Place::kDecoder},
      Bare({"kimi_delta",
            R"({"key_dim": 5, "value_dim": 70, "kernel": 3, "norm_eps": 1e-3, "lower_bound": -5, "rank": 7})",
            Place::kDecoder, 32, 3}),
      {"lightning", "{}", Place::kDecoder},
      Bare({"lightning", R"({"head_dim": 21, "slope_factor": 0.5, "norm_eps": 1e-5})", Place::kDecoder, 32,
            3}),
      {"short_convolution", R"({"kernel": 3})", Place::kDecoder},
      Bare({"short_convolution", R"({"kernel": 6})", Place::kDecoder, 45, 5}),
      {"rg_lru", R"({"inner_size": 48, "kernel": 4})", Place::kDecoder},
      Bare({"rg_lru", R"({"kernel": 2})", Place::kDecoder, 63, 3}),
      {"rwkv", "{}", Place::kDecoder},
      Bare({"rwkv", R"({"inner_size": 150})", Place::kDecoder, 33, 3}),
      {"rwkv_channel", R"({"inner_size": 48})", Place::kDecoder},
      Bare({"rwkv_channel", R"({"inner_size": 300})", Place::kDecoder, 33, 3}),
      {"mamba", R"({"inner_size": 72, "state_size": 6, "time_step_rank": 3})", Place::kDecoder, 32, 1},
      Bare({"mamba",
            R"({"inner_size": 40, "state_size": 16, "time_step_rank": 5, "kernel": 2, "norm_eps": 1e-6})",
            Place::kDecoder, 32, 1}),
      {"mamba", R"({"inner_size": 33, "state_size": 8, "time_step_rank": 2, "norm_eps": 1e-5})",
       Place::kDecoder, 17, 1},
  };
}

// Those of a type; there are some.
inline std::vector<AttentionExample> ExamplesOf(const std::string& type) {
  std::vector<AttentionExample> examples = AttentionExamples();
  std::erase_if(examples, [&](const AttentionExample& example) { return example.type != type; });
  CHECK(!examples.empty()) << type;
  return examples;
}

// Of them those of decoders; there are some.
inline std::vector<AttentionExample> DecodersOf(const std::string& type) {
  std::vector<AttentionExample> examples = ExamplesOf(type);
  std::erase_if(examples, [](const AttentionExample& example) { return !example.causal(); });
  CHECK(!examples.empty()) << type;
  return examples;
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ATTENTION_EXAMPLES_H_
