// The simplest tokenizer: a token is a byte of UTF-8.
#ifndef HEED_ENGINE_TEXT_BYTES_TOKENIZER_H_
#define HEED_ENGINE_TEXT_BYTES_TOKENIZER_H_

#include "engine/text/tokenizer.h"

namespace heed {

std::unique_ptr<const Tokenizer> NewBytesTokenizer();

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_BYTES_TOKENIZER_H_
