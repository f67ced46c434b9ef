// The softmax's weights of a pass's rows for their keys, and which of them somebody asks for.
#ifndef HEED_ENGINE_MODELS_ATTENTION_WEIGHTS_H_
#define HEED_ENGINE_MODELS_ATTENTION_WEIGHTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heed {

// An attention whose rows are tokens of a Work, of a model.
struct AttentionInfo {
  std::string type;  // "full"
  int layer = 0;     // of its stack
  bool cross = false;
  int weighing_heads = 0;  // whose weights may be asked for
  int64_t front = 0;       // rows before the tokens', which the model brings: the first keys
};

// The weights in one attention.
struct LayerWeights {
  int heads = 0;  // 0: this attention gives none
  bool cross = false;
  int64_t rows = 0, keys = 0;
  std::vector<float> weights{};  // [heads, rows, keys]; 0 where a row may not look
};

// Some of all weights: those of these attentions (by their places in ModelInfo::attentions), heads and rows
// (of Work::tokens: what stands before them is not chosen). Each list ascends; an empty one is all.
struct WeightsChoice {
  std::vector<int32_t> attentions, heads, rows;
};

bool IsChosen(const WeightsChoice& choice, int64_t attention);

// Of all heads and rows leaves those chosen, and gives back the memory of the others. The first `front` rows
// are before the tokens'.
void Keep(const WeightsChoice& choice, LayerWeights* all, int64_t front = 0);

// Closed forms of a choice from the weights of a sequence's first rows, `source`: of an encoder-decoder. The
// bytes that it holds, and the most that a pass takes to get it: beside it one attention's of all heads and
// rows.
int64_t ChosenBytes(std::span<const AttentionInfo> attentions, const WeightsChoice& choice, int64_t rows,
                    int64_t source);
int64_t WeighingBytes(std::span<const AttentionInfo> attentions, const WeightsChoice& choice, int64_t rows,
                      int64_t source);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_ATTENTION_WEIGHTS_H_
