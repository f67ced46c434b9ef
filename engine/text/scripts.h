// The scripts of Unicode, as a pre-tokenizer tells them apart.
#ifndef HEED_ENGINE_TEXT_SCRIPTS_H_
#define HEED_ENGINE_TEXT_SCRIPTS_H_

#include <string>

namespace heed {

// A regular expression that matches runs of one script, one after another: Han with the Japanese ones, and
// spaces with what comes before them.
std::string ScriptRuns();

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_SCRIPTS_H_
