#include "tests/bench/survey.h"

#include <cmath>
#include <utility>

#include "absl/log/log.h"
#include "engine/base/status.h"
#include "tests/bench/shapes.h"
#include "tests/bench/variants.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 512, kHeads = 8, kHidden = 2048;
constexpr int kLayers = 4;
constexpr int64_t kVector = 64;      // numbers of a set's element
constexpr int64_t kTableRows = 256;  // that come together

// Of one architecture; `more` beside and instead of what all have.
Json Config(const std::string& architecture, const Json& more) {
  Json config = {{"model_type", "heed"},     {"architecture", architecture},
                 {"hidden_size", kWidth},    {"num_attention_heads", kHeads},
                 {"hidden_act", "gelu"},     {"intermediate_size", kHidden},
                 {"head", "classification"}, {"num_labels", 10}};
  config.update(more);
  return config;
}

// ------------------------------------------------------------------------------------------------- texts

const Variant& Find(const std::vector<VariantFamily>& families, const std::string& name) {
  for (const VariantFamily& family : families) {
    for (const Variant& variant : family.variants) {
      if (variant.name == name) return variant;
    }
  }
  LOG(FATAL) << "no variant " << name;
}

using At = std::function<SurveyModel(int64_t)>;

At Text(bool causal, Variant variant) {
  return [=](int64_t n) -> SurveyModel { return {Stack({.causal = causal}, variant.At(n)), n}; };
}

At Known(bool causal, const std::string& name) { return Text(causal, Find(VariantFamilies(), name)); }

// Layers that go along rows and along columns by turns, as the paper has them.
SurveyModel AxialText(int64_t n) {
  Json config = Stack({}, Find(VariantFamilies(), "axial_row").options);
  for (size_t i = 1; i < config["layers"].size(); i += 2)
    config["layers"][i]["attention"] = Find(VariantFamilies(), "axial_column").options;
  return {config, n};
}

SurveyModel Reformer(int64_t n) {
  Json config = Stack({}, Find(VariantFamilies(), "lsh").At(n));
  config["reversible"] = true;
  config["tie_word_embeddings"] = false;  // rows are two streams wide
  return {config, n};
}

SurveyModality Decoding() {
  return {
      "text generation",
      "decoders: 4 layers, width 512, 8 heads, feed-forward 2,048",
      "tokens",
      {4096, 8192, 16384},
      {{"full", "Vaswani et al. 2017", "-", "n^2", Text(true, {"full", {{"type", "full"}}})},
       {"softmax, grouped queries", "Ainslie et al. 2023", "-", "n^2",
        Text(true, {"softmax", {{"type", "softmax"}, {"num_key_value_heads", 2}}})},
       {"blockwise", "Liu et al. 2018", "FP", "n b", Known(true, "blockwise")},
       {"sliding_window", "Beltagy et al. 2020", "FP", "n w", Known(true, "sliding_window")},
       {"image_local_1d", "Parmar et al. 2018", "FP", "n m", Known(true, "image_local_1d")},
       {"image_local_2d", "Parmar et al. 2018", "FP", "n m", Known(true, "image_local_2d")},
       {"sparse_strided", "Child et al. 2019", "FP", "n sqrt(n)", Known(true, "sparse_strided")},
       {"sparse_fixed", "Child et al. 2019", "FP", "n sqrt(n)", Known(true, "sparse_fixed")},
       {"axial", "Ho et al. 2019", "FP", "n sqrt(n)", AxialText},
       {"memory_compressed", "Liu et al. 2018", "FP+M", "(n / k)^2", Known(true, "memory_compressed")},
       {"lsh", "Kitaev et al. 2020", "LP", "n log(n)", Known(true, "lsh")},
       {"reversible, lsh", "Kitaev et al. 2020", "LP", "n log(n)", Reformer},
       {"routing", "Roy et al. 2020", "LP", "n sqrt(n)", Known(true, "routing")},
       {"sinkhorn", "Tay et al. 2020", "LP", "b^2 + n b", Known(true, "sinkhorn")},
       {"synthesizer", "Tay et al. 2021", "LR+LP", "n^2", Known(true, "synthesizer")},
       {"linear", "Katharopoulos et al. 2020", "KR", "n", Known(true, "linear")},
       {"performer", "Choromanski et al. 2021", "KR", "n", Known(true, "performer")},
       {"relative_memory", "Dai et al. 2019", "RC", "n m", Known(true, "relative_memory")},
       {"compressive", "Rae et al. 2020", "RC", "n m", Known(true, "compressive")},
       {"persistent_memory", "Sukhbaatar et al. 2019", "M", "n (w + m)", Known(true, "persistent_memory")}}};
}

SurveyModel Longformer(int64_t n) {
  return {Stack({.causal = false}, {{"type", "sliding_window"}, {"window", 512}, {"global_tokens", {0}}}), n};
}

SurveyModel BigBirdEtc(int64_t n) {
  Json attention = Find(VariantFamilies(), "bigbird").At(n);
  attention["form"] = "etc";
  attention["num_blocks"] = n / 64 + 1;
  Json config = Stack({.causal = false}, attention);
  config["extra_global_tokens"] = 64;
  return {config, n};
}

SurveyModel Etc(int64_t n) {
  return {Config("etc-encoder", {{"vocab_size", 256},
                                 {"tokens_per_global", 64},
                                 {"global_token", 1},
                                 {"pooling", "first"},
                                 {"layers", Layers(kLayers, {{"type", "etc"}, {"radius", 256}})}}),
          n};
}

SurveyModel Funnel(int64_t n) {
  const Json full = {{"type", "full"}};
  return {
      Config(
          "funnel-encoder",
          {{"vocab_size", 256},
           {"pooling", "first"},
           {"blocks",
            {{{"layers", Layers(2, full)}}, {{"layers", Layers(1, full)}}, {{"layers", Layers(1, full)}}}}}),
      n};
}

SurveyModel Perceiver(const std::string& kind, int64_t input_size, int64_t n) {
  Json config = Config("perceiver-encoder", {{"input", {{"kind", kind}}},
                                             {"input_size", input_size},
                                             {"num_latents", 256},
                                             {"block_weights", {0, 1}},
                                             {"cross_attention", {{"type", "full"}}},
                                             {"layers", Layers(2, {{"type", "full"}})}});
  if (kind == "tokens") config["vocab_size"] = 256;
  return {config, n};
}

SurveyModality Encoding() {
  const auto text = [](const std::string& name) { return Known(false, name); };
  const Json full = {{"type", "full"}};
  return {"text understanding",
          "encoders: 4 layers, width 512, 8 heads, feed-forward 2,048",
          "tokens",
          {4096, 8192, 16384},
          {{"full", "Vaswani et al. 2017", "-", "n^2", Text(false, {"full", full})},
           {"sliding_window", "Longformer, Beltagy et al. 2020", "FP+M", "n (w + g)", Longformer},
           {"bigbird", "Zaheer et al. 2020", "FP+M", "n", text("bigbird")},
           {"bigbird, form etc", "Zaheer et al. 2020", "FP+M", "n", BigBirdEtc},
           {"etc-encoder", "Ainslie et al. 2020", "FP+M", "n (r + g)", Etc},
           {"lsh", "Kitaev et al. 2020", "LP", "n log(n)", text("lsh")},
           {"routing", "Roy et al. 2020", "LP", "n sqrt(n)", text("routing")},
           {"sinkhorn, sort_cut", "Tay et al. 2020", "LP", "n", text("sort_cut")},
           {"synthesizer", "Tay et al. 2021", "LR+LP", "n^2", text("synthesizer")},
           {"linformer", "Wang et al. 2020", "LR", "n", text("linformer")},
           {"nystrom", "Xiong et al. 2021", "M+DS", "n k", text("nystrom")},
           {"linear", "Katharopoulos et al. 2020", "KR", "n", text("linear")},
           {"performer", "Choromanski et al. 2021", "KR", "n", text("performer_encoder")},
           {"funnel-encoder", "Dai et al. 2020", "FP+DS", "n^2", Funnel},
           {"perceiver-encoder", "Jaegle et al. 2021", "M+DS", "n k",
            [](int64_t n) { return Perceiver("tokens", kWidth, n); }}}};
}

// ----------------------------------------------------------------------------------------- images, sets,
// tables

int64_t Side(int64_t n) { return std::llround(std::sqrt(static_cast<double>(n))); }

Json Patches(int64_t n, int64_t patch) {
  return {{"kind", "patches"}, {"image_size", Side(n) * patch}, {"patch_size", patch}, {"channels", 3}};
}

SurveyModel Vit(int64_t n) {
  return {Config("encoder", {{"input", Patches(n, 4)},
                             {"pooling", "mean"},
                             {"layers", Layers(kLayers, {{"type", "full"}})}}),
          n};
}

SurveyModel AxialImage(int64_t n) {
  Json config = Vit(n).config;
  for (size_t i = 0; i < config["layers"].size(); ++i) {
    config["layers"][i]["attention"] = {{"type", "axial"}, {"axis", i % 2 == 0 ? "row" : "column"}};
  }
  config["height"] = config["width"] = Side(n);
  return {config, n};
}

SurveyModel Swin(int64_t n) {
  const auto stage = [](int64_t width) -> Json {
    Json layers = Layers(2, {{"type", "window_2d"}, {"window", 8}, {"shift", 0}});
    layers[1]["attention"]["shift"] = 4;
    return {{"layers", layers}, {"num_attention_heads", width / 64}, {"intermediate_size", 4 * width}};
  };
  Json config = Config("encoder", {{"input", Patches(n, 4)},
                                   {"pooling", "mean"},
                                   {"positions", "none"},
                                   {"hidden_size", kWidth / 2},
                                   {"num_attention_heads", kHeads / 2},
                                   {"intermediate_size", kHidden / 2},
                                   {"stages", {stage(kWidth / 2), stage(kWidth)}}});
  return {config, n};
}

SurveyModality Images() {
  return {"images",
          "classifiers of patches of 4 x 4 pixels: 4 layers, width 512, 8 heads; Swin 2 layers of 256 and 2 "
          "of 512",
          "patches",
          {1024, 4096, 16384},
          {{"full", "ViT, Dosovitskiy et al. 2021", "-", "n^2", Vit},
           {"axial", "Ho et al. 2019", "FP", "n sqrt(n)", AxialImage},
           {"window_2d", "Swin, Liu et al. 2021", "FP+DS", "n w", Swin},
           {"perceiver-encoder", "Jaegle et al. 2021", "M+DS", "n k",
            [](int64_t n) { return Perceiver("floats", 3 * 16, n); }}}};
}

At Set(const Json& block) {
  return [=](int64_t n) -> SurveyModel {
    const Json seeds = {{"type", "pma"}, {"num_seeds", 1}};
    return {Config("set-encoder", {{"input_size", kVector}, {"blocks", {block, block, block, seeds}}}), n};
  };
}

// Images drawn: pixels of 256 levels in raster order, 64 rows more than are read.
Json Drawing(int64_t n) { return {{"height", Side(n) + 64}, {"width", Side(n)}}; }

At DrawnBy(const Json& attention, bool grid) {
  return [=](int64_t n) -> SurveyModel {
    Json options = attention;
    if (grid) options.update(Drawing(n));
    return {Stack({}, options), n};
  };
}

SurveyModel DrawnByRoot(int64_t n) {
  return {Stack({}, {{"type", "sparse_fixed"}, {"stride", Side(n)}, {"summary", 8}}), n};
}

SurveyModel AxialDecoder(int64_t n) {
  const auto layer = [](const char* axis) { return Layers(1, {{"type", "axial"}, {"axis", axis}})[0]; };
  Json config = Config("axial-decoder", Drawing(n));
  config["head"] = "lm";
  config["vocab_size"] = 256;
  config["positions"] = "none";
  config["outer_layers"] = {layer("row"), layer("column")};
  config["inner_layers"] = {layer("row"), layer("row")};
  config.erase("num_labels");
  return {config, n};
}

SurveyModality Drawings() {
  return {"image generation",
          "decoders of pixels: 4 layers, width 512, 8 heads; the axial decoder 2 outer and 2 inner layers",
          "pixels",
          {1024, 4096, 16384},
          {{"full", "Vaswani et al. 2017", "-", "n^2", Text(true, {"full", {{"type", "full"}}})},
           {"image_local_1d", "Parmar et al. 2018", "FP", "n m",
            DrawnBy({{"type", "image_local_1d"}, {"query_block", 256}, {"memory_block", 256}}, false)},
           {"image_local_2d", "Parmar et al. 2018", "FP", "n m",
            DrawnBy({{"type", "image_local_2d"}, {"query_block", {8, 16}}, {"memory", {8, 16}}}, true)},
           {"sparse_fixed", "Child et al. 2019", "FP", "n sqrt(n)", DrawnByRoot},
           {"linear", "Katharopoulos et al. 2020", "KR", "n", Known(true, "linear")},
           {"axial-decoder", "Ho et al. 2019", "FP", "n sqrt(n)", AxialDecoder}}};
}

SurveyModality Sets() {
  return {"sets",
          "the set-encoder: 3 blocks and one seed, width 512, 8 heads, elements of 64 numbers",
          "elements",
          {4096, 8192, 16384},
          {{"sab", "Set Transformer, Lee et al. 2019", "-", "n^2", Set({{"type", "sab"}})},
           {"isab", "Set Transformer, Lee et al. 2019", "M", "n k",
            Set({{"type", "isab"}, {"num_inducing", 32}})},
           {"perceiver-encoder", "Jaegle et al. 2021", "M+DS", "n k",
            [](int64_t n) { return Perceiver("floats", kVector, n); }}}};
}

// Half of the columns are categories of 10 values, half are numbers.
Json Columns(int64_t n, const Json& attention) {
  return {{"hidden_size", 64},
          {"intermediate_size", 256},
          {"layers", Layers(kLayers, attention)},
          {"num_numerical", n / 2},
          {"categories", std::vector<int64_t>(n - n / 2, 10)}};
}

Json FtTransformer(int64_t n, const Json& attention) {
  return Config("ft-transformer", Columns(n, attention));
}

SurveyModel TabTransformer(int64_t n) {
  Json config = Config("tab-transformer", Columns(n, {{"type", "full"}}));
  config["column_embedding"] = "concat";
  config["column_size"] = 8;
  config["mlp"] = {{"act", "relu"}, {"sizes", {64}}};
  return {config, 1, kTableRows};
}

SurveyModel Saint(int64_t n) {
  Json config = Config("saint", Columns(n, {{"type", "full"}}));
  for (size_t i = 0; i < config["layers"].size(); ++i)
    config["layers"][i]["axis"] = i % 2 == 0 ? "columns" : "rows";
  config["mlp"] = {{"act", "relu"}, {"sizes", {64}}};
  config["rows"] = {{"num_attention_heads", kHeads}, {"intermediate_size", 256}};
  return {config, kTableRows, 1};
}

SurveyModality Tables() {
  return {"tables",
          "256 rows, half of the columns numbers: 4 layers, width 64, 8 heads",
          "columns",
          {16, 64, 256},
          {{"ft-transformer", "Gorishniy et al. 2021", "-", "n^2",
            [](int64_t n) -> SurveyModel { return {FtTransformer(n, {{"type", "full"}}), 1, kTableRows}; }},
           {"ft-transformer, linformer", "Gorishniy et al. 2021", "LR", "n k",
            [](int64_t n) -> SurveyModel {
              const Json linformer = {
                  {"type", "linformer"}, {"k", 16}, {"n_max", n + 1}, {"sharing", "key-value"}};
              return {FtTransformer(n, linformer), 1, kTableRows};
            }},
           {"tab-transformer", "Huang et al. 2020", "-", "n^2", TabTransformer},
           {"saint", "Somepalli et al. 2021", "-", "n^2 + rows n", Saint}}};
}

}  // namespace

std::vector<SurveyModality> SurveyModalities() {
  return {Decoding(), Encoding(), Images(), Drawings(), Sets(), Tables()};
}

}  // namespace heed
