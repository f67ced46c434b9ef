// Each golden tokenizer on one thread, on this repository's own documents and on texts that a tokenizer might
// trip over: what its stages cost, with a vocabulary that is small. tests/peers/tokenizer_speed.py reads the
// rows and has the same texts.
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/text/tokenizer.h"
#include "tests/bench/sections.h"

namespace heed {
namespace {

constexpr size_t kMegabyte = 1'000'000;

std::string Repeated(const std::string& unit) {
  std::string text;
  while (text.size() < kMegabyte) text += unit;
  return text;
}

std::vector<std::pair<std::string, std::string>> Texts() {
  const std::filesystem::path root = HEED_SOURCE_DIR;
  std::string documents;
  for (const char* name : {"README.md", "CONTRIBUTING.md", "docs/operations.md", "docs/variants.md"})
    documents += ReadNamedFile(root / name, 1 << 20).value();
  std::string solid;
  for (const char c : documents) {
    if (c != ' ' && c != '\n') solid += c;
  }
  return {{"documents", documents}, {"no space", Repeated(solid)}, {"one letter", Repeated("a")}};
}

}  // namespace

void TokenizersSection(Threads& threads) {
  const std::filesystem::path folder = std::filesystem::path(HEED_SOURCE_DIR) / "tests/golden/tokenizers";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  const std::vector<std::pair<std::string, std::string>> texts = Texts();
  Table table({"tokenizer                     ", "text      ", "tokens ", "seconds   ", "speed"});
  for (const std::string& name : names) {
    const auto tokenizer = LoadTokenizer(folder / name).value();
    for (const auto& [kind, text] : texts) {
      size_t tokens = 0;
      const double seconds =
          LeastSeconds({[&] { tokens = tokenizer->Encode(text, std::nullopt, {}).value().ids.size(); }}, 0.1,
                       /*rounds=*/2)[0];
      char exact[32];
      std::snprintf(exact, sizeof exact, "%.6f", seconds);
      table.Row({name, kind, Cat(tokens), exact, Rate(static_cast<double>(text.size()) / seconds, "B/s")});
    }
  }
}

}  // namespace heed
