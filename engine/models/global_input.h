// A second input of an encoder, beside the first: few tokens, each of which stands for many of the first's (a
// sentence's, say), while each of the first's belongs to one of them or to none (Ainslie et al. 2020).
#ifndef HEED_ENGINE_MODELS_GLOBAL_INPUT_H_
#define HEED_ENGINE_MODELS_GLOBAL_INPUT_H_

#include <cstdint>
#include <vector>

namespace heed {

// What a model says of its own.
struct GlobalInput {
  bool read = false;              // whether it has one
  int64_t tokens_per_global = 0;  // that belong to each, where a request does not say to which; 0: to none
  int32_t token = -1;             // what they are where a request gives none; -1: it must give them

  // Whether a request may leave the global tokens out.
  bool has_default() const { return tokens_per_global > 0 && token >= 0; }
  // How many there are then, beside so many tokens of the first input.
  int64_t DefaultCount(int64_t tokens) const;
};

// Completes Work::source and Work::labels of so many tokens, where a request leaves out (empty) what the
// tokens belong to, or the global tokens, which have a default then: the first tokens belong to the first of
// them, the next to the second and so on.
void CompleteGlobalInput(const GlobalInput& input, int64_t tokens, std::vector<int32_t>& source,
                         std::vector<int32_t>& labels);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_GLOBAL_INPUT_H_
