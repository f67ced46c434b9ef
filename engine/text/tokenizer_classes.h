// Which tokenizers are the same under different names: transformers has a class for each model, few of them
// differ.
#ifndef HEED_ENGINE_TEXT_TOKENIZER_CLASSES_H_
#define HEED_ENGINE_TEXT_TOKENIZER_CLASSES_H_

#include <string_view>

namespace heed {

// The class that says how a model type's ("distilbert") or another class's ("DistilBertTokenizer") files are
// read: "BertTokenizer". Empty where the table has none.
std::string_view TokenizerClassOf(std::string_view name);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_TOKENIZER_CLASSES_H_
