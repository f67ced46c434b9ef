// What a normalizer does to text, as Hugging Face's tokenizers say it: a list of new characters, each of
// which takes the place of old ones or comes in addition, and has an origin accordingly.
#ifndef HEED_ENGINE_TEXT_CHANGES_H_
#define HEED_ENGINE_TEXT_CHANGES_H_

#include <cstdint>
#include <vector>

#include "engine/text/chars.h"

namespace heed {

// A new character: above 0, it was added and has its predecessor's origin; else it stands for one old
// character and `-change` more after it, and has the first one's.
struct Change {
  char32_t code;
  int change;
};

// `origin`: where the text began before anything was done to it. What is added before all has it, empty.
// Changes need not stand for all old characters, but never for more.
void Apply(const std::vector<Change>& changes, int32_t origin, Chars& text);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_CHANGES_H_
