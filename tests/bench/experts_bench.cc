// Conditional computation: a Switch Transformer (Fedus et al. 2021) beside its dense twin, which has one
// expert's feed-forward where the Switch has kExperts. A row meets one expert, so the twin's multiply-adds
// are the Switch's too, less its routers'; what a batch reads more of is the weights of the experts that its
// rows meet.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/bench/turns.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr int64_t kExperts = 32, kSource = 128, kVocabulary = 32128;
constexpr int kLayers = 6;  // of the encoder, and of the decoder; every second one has experts

// Switch-Base's widths, half as deep.
Json SwitchConfig(bool experts) {
  Json config = {{"model_type", "heed"},      {"architecture", "encoder-decoder"},
                 {"vocab_size", kVocabulary}, {"hidden_size", 768},
                 {"num_attention_heads", 12}, {"intermediate_size", 2048},
                 {"hidden_act", "relu"},      {"norm", "pre"},
                 {"norm_type", "rms"},        {"head", "lm"},
                 {"attention_bias", false},   {"decoder_start_token_id", 1}};
  for (const char* key : {"layers", "decoder_layers"}) {
    for (int i = 0; i < kLayers; ++i) {
      Json layer = {{"attention", {{"type", "full"}}}, {"ffn", {{"type", "dense"}}}};
      if (experts && i % 2 == 1) layer["ffn"] = {{"type", "moe"}, {"experts", kExperts}, {"top_k", 1}};
      if (key == std::string("decoder_layers")) layer["cross_attention"] = {{"type", "full"}};
      config[key].push_back(layer);
    }
  }
  return config;
}

// A model, and `batch` translations that have begun.
class Translations {
 public:
  Translations(const Model& model, int batch, Threads& threads) : model_(model), threads_(threads) {
    for (int i = 0; i < batch; ++i) {
      const std::vector<int32_t> all = Tokens((i + 1) * kSource, kVocabulary);
      sources_.emplace_back(all.end() - kSource, all.end());
    }
    Read();
  }

  // All sources, and the first token of each target.
  void Read() {
    sequences_.clear();
    for (size_t i = 0; i < sources_.size(); ++i) sequences_.push_back(model_.Start());
    Pass(true);
  }
  // A token more of each target.
  void Step() { Pass(false); }

 private:
  void Pass(bool first) {
    std::vector<int32_t> next(sources_.size());
    std::vector<Work> batch;
    for (size_t i = 0; i < sources_.size(); ++i) {
      const int32_t token = first ? 1 : sources_[i][sequences_[i]->tokens() % kSource];
      batch.push_back(LastRow(sequences_[i].get(), {token}, &next[i]));
      if (first) batch.back().source = sources_[i];
    }
    RunPass(model_, batch, threads_);
  }

  const Model& model_;
  Threads& threads_;
  std::vector<std::vector<int32_t>> sources_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

// Of so many rows that choose evenly.
double ExpertsMet(double rows) { return kExperts * (1 - std::pow(1 - 1.0 / kExperts, rows)); }

}  // namespace

void ExpertsSection(Threads& threads) {
  const Precision precision = Supported(Precision::kBf16);
  const RandomModel dense = MakeRandomModel(SwitchConfig(false), precision);
  const RandomModel experts = MakeRandomModel(SwitchConfig(true), precision);
  const auto mib = [](const RandomModel& model) { return model->info().weight_bytes >> 20; };
  std::printf("%s; dense %lld MiB of weights, %lld experts %lld MiB\n", std::string(Name(precision)).c_str(),
              static_cast<long long>(mib(dense)), static_cast<long long>(kExperts),
              static_cast<long long>(mib(experts)));
  Table table(
      {"what           ", "batch", "dense", "experts", "x dense", "met, of 32", "all parameters x dense"});
  LimitsNow limits(threads, precision);
  for (int batch : {1, 32}) {
    Translations of_dense(*dense, batch, threads), of_experts(*experts, batch, threads);
    const auto row = [&](const std::string& what, double rows, std::vector<Turn> turns) {
      TakeTurns(turns, limits);
      table.Row({what, Cat(batch), Milliseconds(turns[0].seconds), Milliseconds(turns[1].seconds),
                 Times(turns[1].seconds / turns[0].seconds), Cat(std::round(10 * ExpertsMet(rows)) / 10),
                 Times(static_cast<double>(mib(experts)) / static_cast<double>(mib(dense)))});
    };
    row("128 source tokens each", kSource * batch,
        {{[&] { of_dense.Read(); }}, {[&] { of_experts.Read(); }}});
    row("a token each", batch, {{[&] { of_dense.Step(); }}, {[&] { of_experts.Step(); }}});
  }
}

}  // namespace heed
