// What a token costs beside the model: drawing it from a large vocabulary, and reading text.
#include <random>
#include <string>

#include "engine/generation/sampling.h"
#include "engine/text/tokenizer.h"
#include "tests/bench/sections.h"

namespace heed {
namespace {

std::vector<float> RandomLogits(int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(random);
  return logits;
}

void Sampling() {
  const std::vector<float> logits = RandomLogits(49'152);
  const std::pair<const char*, SamplingOptions> cases[] = {
      {"greedy", {.temperature = 0}},
      {"temperature 1", {}},
      {"top-k 50", {.top_k = 50}},
      {"top-p 0.9", {.top_p = 0.9}},
      {"top-k 50, top-p 0.9", {.top_k = 50, .top_p = 0.9}},
      {"repetition penalty, top-p 0.9", {.repetition_penalty = 1.1, .top_p = 0.9}},
      {"min-p 0.05", {.min_p = 0.05}},
      {"typical-p 0.9", {.typical_p = 0.9}},
      {"top-k 50, 20 log-probabilities", {.top_k = 50, .top_logprobs = 20}}};
  Table table({"a token out of 49,152           ", "time"});
  for (const auto& [name, options] : cases) {
    Sampler sampler(options, {}, {}, 0);
    table.Row({name, Milliseconds(LeastSeconds({[&] {
                 if (!sampler.Next(logits).ok()) std::abort();
               }})[0])});
  }
}

void Tokenizing() {
  Table table({"a megabyte through a WordLevel tokenizer", "time"});
  const auto tokenizer = LoadTokenizer(HEED_SOURCE_DIR "/models/polarity");
  if (!tokenizer.ok()) std::abort();
  for (const char* unit :
       {"the quick brown fox ", "a", " ", "\u0301", "\u0316\u0301", "[UNK", "\u00e9", "!", "\U0001f600"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    table.Row({"'" + std::string(unit) + "'", Milliseconds(LeastSeconds({[&] {
                 if (!(*tokenizer)->Encode(text, std::nullopt, {}).ok()) std::abort();
               }})[0])});
  }
}

}  // namespace

void TextSection(Threads& threads) {
  Sampling();
  Tokenizing();
}

}  // namespace heed
