// docs/families.md, made of families.def and the first comments of the families' files. HEED_UPDATE=1 in the
// environment writes it anew.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "engine/base/status.h"
#include "engine/families/family.h"
#include "gtest/gtest.h"
#include "tests/testing/documents.h"

namespace heed {
namespace {

constexpr const char* kDocument = HEED_SOURCE_DIR "/docs/families.md";
constexpr const char* kTable = HEED_SOURCE_DIR "/engine/families/families.def";

// The sources of families, by the name of the function that reads one.
std::map<std::string, std::string> Sources() {
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(HEED_SOURCE_DIR "/engine/families")) {
    if (entry.path().extension() != ".cc") continue;
    const std::string text = ReadText(entry.path());
    for (size_t at = 0; (at = text.find("StatusOr<NativeModel> Read", at)) != std::string::npos; ++at) {
      const size_t begin = text.find("Read", at);
      sources[text.substr(begin, text.find('(', begin) - begin)] = text;
    }
  }
  return sources;
}

// The function in the table's line of a family.
std::string ReaderOf(std::string_view model_type) {
  const std::string text = ReadText(kTable), line = Cat("FAMILY(\"", model_type, "\", ");
  const size_t begin = text.find(line) + line.size();
  return text.substr(begin, text.find(',', begin) - begin);
}

std::string Document() {
  std::string text =
      "# Families of checkpoints\n\n"
      "Made by `tests/engine/families/families_doc_test.cc` from the sources; do not edit. A folder in "
      "Hugging "
      "Face's layout\n"
      "is served as it is where its `config.json` has one of these `model_type`s. Tensors that the model "
      "does "
      "not have, and\n"
      "options that are not served, are refused by name.\n\n"
      "| model_type | what it is |\n|---|---|\n";
  for (const FamilyEntry& family : Families())
    text += Cat("| `", family.model_type, "` | ", family.about, " |\n");
  const auto sources = Sources();
  std::string last;
  for (const FamilyEntry& family : Families()) {
    const std::string& source = sources.at(ReaderOf(family.model_type));
    if (source == last) continue;
    last = source;
    text += Cat("\n## ", family.model_type, "\n\n```\n", FirstComment(source), "```\n");
  }
  return text;
}

TEST(FamiliesDocument, SaysWhatTheCodeSays) {
  const std::string document = Document();
  if (std::getenv("HEED_UPDATE")) std::ofstream(kDocument) << document;
  EXPECT_EQ(ReadText(kDocument), document)
      << "HEED_UPDATE=1 ./dev test families_test 'FamiliesDocument.*' writes it anew";
}

}  // namespace
}  // namespace heed
