// The four normalization forms of Unicode.
#ifndef HEED_ENGINE_TEXT_NORMALIZATION_FORMS_H_
#define HEED_ENGINE_TEXT_NORMALIZATION_FORMS_H_

#include "engine/text/chars.h"

namespace heed {

void ToNfc(Chars& text);
void ToNfd(Chars& text);
void ToNfkc(Chars& text);
void ToNfkd(Chars& text);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_NORMALIZATION_FORMS_H_
