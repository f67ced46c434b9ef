// "transfo-xl" (Dai et al. 2019): layers with a memory and relative positions, clusters of tokens whose rows
// are the narrower the rarer they are (div_val), and a head of the same clusters, which gives the logarithms
// of probabilities. The authors' code begins with a memory of rows of zeros, which count in the softmax.
// Names: transformer.{word_emb.{emb_layers.I, emb_projs.I}, layers.I.{dec_attn.{qkv_net, r_net, o_net,
// r_w_bias, r_r_bias, layer_norm}, pos_ff.{CoreNet.0, CoreNet.3, layer_norm}}}, without "transformer." in a
// base model; crit.{out_layers.I, out_projs.I, cluster_weight, cluster_bias}.
//   LMHeadModel  the head;  Model  the rows as they are
// same_length: false is not served: what a token sees would depend on where segments of its text end.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/decoder.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kMostMemory = 1 << 16;

// Tokens from `begin` up to `end`, and how wide their rows are.
struct Cluster {
  int64_t begin = 0, end = 0, width = 0;
};

struct TransfoXl {
  Decoder decoder;
  std::string prefix;  // of the base model's names
  std::vector<Cluster> clusters{};
  int64_t embedding_width = 0;  // of the first cluster
  bool divided = false;         // clusters have tables of their own
};

std::vector<Cluster> ReadClusters(JsonFields& fields, int64_t vocab_size, int64_t width) {
  std::vector<int64_t> ends = fields.Ints("cutoffs", 0, kMostLayers, 1, kMostSize);
  if (!fields.Has("cutoffs")) ends = {20000, 40000, 200000};
  ends.push_back(vocab_size);
  const int64_t divisor = Size(fields, "div_val", 4);
  std::vector<Cluster> clusters;
  for (const int64_t end : ends) {
    const int64_t begin = clusters.empty() ? 0 : clusters.back().end;
    if (end <= begin)
      fields.Fail(
          Cat("cutoffs: they ascend and are below vocab_size ", vocab_size, "; ", end, " follows ", begin));
    if (width < 1) fields.Fail(Cat("div_val: ", divisor, " leaves the cluster from ", begin, " on no width"));
    clusters.push_back({begin, end, width});
    width /= divisor;
  }
  return clusters;
}

// What rows of zeros are as keys and as values: products of their norm, where it comes first, else zeros.
void AddNullMemory(const Decoder& decoder, bool pre, int64_t layer, TensorView& tensors) {
  const std::string of = Cat(decoder.layer_prefix, layer, ".dec_attn."),
                    to = Cat("layers.", layer, ".attention.");
  const ViewedTensor fused(of + "qkv_net.weight");
  for (const auto& [name, part] : {std::pair("null_k", 1), std::pair("null_v", 2)}) {
    tensors.Add(to + name, pre ? fused.PartOfGroups(1, {1, 1, 1}, part)
                                     .TimesColumns(of + "layer_norm.bias")
                                     .RowSums()
                                     .Shaped({decoder.heads, decoder.head_dim})
                               : ViewedTensor::Zeros({decoder.heads, decoder.head_dim}));
  }
}

void SetLayers(Checkpoint& checkpoint, TransfoXl& model) {
  JsonFields& fields = checkpoint.fields();
  Decoder& decoder = model.decoder;
  const bool pre = fields.Bool("pre_lnorm", false);
  decoder.SetLayers({{"type", "relative_memory"},
                     {"memory", Size(fields, "mem_len", 1600, kMostMemory)},
                     {"clamp_length", fields.Int("clamp_len", 1000, -1, kMostSize)},
                     {"null_memory", true}});
  for (int64_t i = 0; i < decoder.layers; ++i) {
    Json& clamp = decoder.attention(i)["clamp_length"];
    if (clamp < 0) clamp = 0;
    AddNullMemory(decoder, pre, i, decoder.tensors());
    const std::string biases =
        fields.Bool("untie_r", true) ? Cat(decoder.layer_prefix, i, ".dec_attn.") : model.prefix;
    decoder.tensors().Add(Cat("layers.", i, ".attention.pos_bias_u"), biases + "r_w_bias");
    decoder.tensors().Add(Cat("layers.", i, ".attention.pos_bias_v"), biases + "r_r_bias");
  }
  Json& config = decoder.config();
  config["intermediate_size"] = Size(fields, "d_inner", 4096);
  config["hidden_act"] = "relu";
  config["norm"] = pre ? "pre" : "post";
  config["norm_last"] = false;
  config["layer_norm_eps"] = fields.Number("layer_norm_epsilon", 1e-5, 0, 1);
  decoder.AddFused("dec_attn.qkv_net", 1, {1, 1, 1});
  decoder.AddModules("attention.r", "dec_attn.r_net");
  decoder.AddModules("attention.o", "dec_attn.o_net");
  decoder.AddModules("norm1", "dec_attn.layer_norm");
  decoder.AddModules("ffn.up", "pos_ff.CoreNet.0");
  decoder.AddModules("ffn.down", "pos_ff.CoreNet.3");
  decoder.AddModules("norm2", "pos_ff.layer_norm");
  decoder.tensors().Ignore("*pos_emb.inv_freq");
}

void SetEmbedding(TransfoXl& model) {
  Json& config = model.decoder.config();
  TensorView& tensors = model.decoder.tensors();
  const std::string embedding = model.prefix + "word_emb.";
  config["embedding_scale"] = std::sqrt(static_cast<double>(model.decoder.width));
  if (!model.divided) {
    config["embedding_size"] = model.embedding_width;
    if (model.embedding_width != model.decoder.width) config["embedding_projection"] = "tokens";
    tensors.Add("embed.tokens.weight", embedding + "emb_layers.0.weight");
    tensors.Add("embed.projection.weight", embedding + "emb_projs.0");
    return;
  }
  for (size_t i = 0; i < model.clusters.size(); ++i) {
    const Cluster& cluster = model.clusters[i];
    config["embedding_clusters"].push_back(
        {{"tokens", cluster.end - cluster.begin}, {"width", cluster.width}});
    tensors.Add(Cat("embed.", i, ".tokens.weight"), Cat(embedding, "emb_layers.", i, ".weight"));
    tensors.Add(Cat("embed.", i, ".projection.weight"), Cat(embedding, "emb_projs.", i));
  }
}

// Which clusters' projections of the head are the embedding's.
std::vector<bool> TiedProjections(JsonFields& fields, size_t clusters) {
  std::vector<bool> tied(clusters, fields.Bool("proj_share_all_but_first", true));
  tied[0] = false;
  const Json& told = fields.Raw("tie_projs");
  for (size_t i = 0; i < clusters && told.is_array() && i < told.size(); ++i) tied[i] = told[i] == true;
  return tied;
}

// Rows of the tokens of a cluster: all clusters have one tensor, or each its own.
ViewedTensor OfCluster(const TransfoXl& model, size_t i, const std::string& name, const std::string& kind) {
  const Cluster& cluster = model.clusters[i];
  if (model.divided) return Cat(name, i, kind);
  return ViewedTensor(Cat(name, 0, kind)).Rows(cluster.begin, cluster.end - cluster.begin);
}

void SetHead(Checkpoint& checkpoint, TransfoXl& model) {
  JsonFields& fields = checkpoint.fields();
  TensorView& tensors = model.decoder.tensors();
  model.decoder.config()["head"] = "lm";
  const std::string embedding = model.prefix + "word_emb.";
  const bool tied = fields.Bool("tie_word_embeddings", true);
  const std::vector<bool> tied_projections = TiedProjections(fields, model.clusters.size());
  for (size_t i = 0; i < model.clusters.size(); ++i) {
    const Cluster& cluster = model.clusters[i];
    model.decoder.config()["head_clusters"].push_back(
        {{"tokens", cluster.end - cluster.begin}, {"width", cluster.width}});
    ViewedTensor weight =
                     OfCluster(model, i, tied ? embedding + "emb_layers." : "crit.out_layers.", ".weight"),
                 bias = OfCluster(model, i, "crit.out_layers.", ".bias");
    if (i == 0 && model.clusters.size() > 1) {
      weight = ViewedTensor::Joined({weight, ViewedTensor("crit.cluster_weight")});
      bias = ViewedTensor::Joined({bias, ViewedTensor("crit.cluster_bias")});
    }
    tensors.Add(Cat("lm_head.", i, ".weight"), weight);
    tensors.Add(Cat("lm_head.", i, ".bias"), bias);
    const std::string projection =
        tied_projections[i] ? Cat(embedding, "emb_projs.", model.divided ? i : 0) : Cat("crit.out_projs.", i);
    tensors.Add(Cat("lm_head.", i, ".projection.weight"), ViewedTensor(projection).Transposed());
  }
  // Of files that have what is tied twice.
  tensors.Ignore("crit.out_layers.*");
  tensors.Ignore("crit.out_projs.*");
}

}  // namespace

absl::StatusOr<NativeModel> ReadTransfoXlFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("transformer.");
  TransfoXl model{
      .decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", 267735), {.eos = 0}, prefix + "layers."),
      .prefix = prefix};
  Decoder& decoder = model.decoder;
  decoder.width = Size(fields, "d_model", 1024);
  decoder.layers = Size(fields, "n_layer", 18, kMostLayers);
  decoder.heads = Size(fields, "n_head", 16);
  decoder.head_dim = Size(fields, "d_head", 64);
  if (decoder.heads * decoder.head_dim != decoder.width)
    fields.Fail(Cat("d_head: ", decoder.head_dim, " of ", decoder.heads, " heads, where d_model is ",
                    decoder.width, ": heads as wide as the rows are served"));
  if (!fields.Bool("same_length", true))
    fields.Fail("same_length: false makes results depend on where segments end, which a service cannot know");
  checkpoint.Require("attn_type", 0);
  model.embedding_width = Size(fields, "d_embed", 1024);
  model.divided = Size(fields, "div_val", 4) != 1;
  model.clusters = ReadClusters(fields, decoder.config()["vocab_size"], model.embedding_width);
  RETURN_IF_ERROR(fields.error());
  SetLayers(checkpoint, model);
  SetEmbedding(model);
  if (checkpoint.task() == "LMHeadModel") {
    SetHead(checkpoint, model);
  } else if (checkpoint.task() != "Model") {
    return checkpoint.UnknownTask({"Model", "LMHeadModel"});
  }
  return std::move(decoder.model);
}

}  // namespace heed
