// The Shakespeare models that ship, which differ in their attention alone: what generating costs near the
// beginning and far into a text, in time and in memory.
#include <filesystem>
#include <set>
#include <string>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"

namespace heed {

void ShippedSection(Threads& threads) {
  std::set<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(HEED_SOURCE_DIR "/models")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("shakespeare")) folders.insert(entry.path());
  }
  Table table({"model", "attention", "dtype", "position", "tokens a second", "state bytes"});
  for (const std::string& folder : folders) {
    const auto model = LoadModel(folder, {.precision = Supported(Precision::kBf16)});
    CHECK(model.ok()) << model.status();
    for (int64_t position : {100, 10000}) {
      const std::unique_ptr<Sequence> sequence = AfterPrompt(**model, position, threads);
      const double seconds = LeastSeconds({[&] { Step(**model, *sequence, threads); }})[0];
      const ModelInfo& info = (*model)->info();
      const std::string name = std::filesystem::path(folder).filename();
      table.Row({name, info.attention, std::string(Name(info.precision)), Cat(position),
                 Cat(static_cast<int64_t>(1 / seconds)), Cat((*model)->StateBytes(position))});
    }
  }
}

}  // namespace heed
