// Golden tokenizers taken apart into the files that their families shipped before tokenizer.json: the same
// cases hold.
#include <filesystem>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/text/golden.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

std::string GoldenFile(std::string_view folder, std::string_view name) {
  return ReadNamedFile(Cat(HEED_SOURCE_DIR "/tests/golden/tokenizers/", folder, "/", name), 64 << 20).value();
}

Json GoldenJson(std::string_view folder) {
  return ParseJson(GoldenFile(folder, "tokenizer.json"), "t").value();
}

// A folder with a golden folder's cases, and none of its tokenizer.
class Taken : public TempFolder {
 public:
  explicit Taken(std::string_view from) { Write("cases.json", GoldenFile(from, "cases.json")); }
};

void ExpectAllAgree(const TempFolder& folder, size_t cases) {
  const auto results = CheckTokenizerCases(folder.path());
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(results->size(), cases);
  for (const GoldenResult& result : *results) EXPECT_EQ(result.problem, "") << result.name;
}

void WriteByteBpe(const Json& golden, const TempFolder& folder) {
  Json vocabulary = golden["model"]["vocab"];
  for (const Json& token : golden["added_tokens"])
    vocabulary[token["content"].get<std::string>()] = token["id"];
  folder.Write("vocab.json", vocabulary.dump());
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : golden["model"]["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  folder.Write("merges.txt", merges);
}

TEST(GoldenFiles, BertReadFromVocabTxtAgrees) {
  const Json golden = GoldenJson("bert-uncased");
  const Taken folder("bert-uncased");
  std::vector<std::string> tokens(golden["model"]["vocab"].size());
  for (const auto& [token, id] : golden["model"]["vocab"].items()) tokens[id.get<size_t>()] = token;
  std::string lines;
  for (const std::string& token : tokens) lines += token + "\n";
  folder.Write("vocab.txt", lines);
  folder.Write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer", "do_lower_case": true})");
  ExpectAllAgree(folder, 277);
}

TEST(GoldenFiles, Gpt2ReadFromVocabJsonAndMergesAgrees) {
  const Taken folder("gpt2");
  WriteByteBpe(GoldenJson("gpt2"), folder);
  ExpectAllAgree(folder, 277);
}

TEST(GoldenFiles, RobertaReadFromVocabJsonAndMergesAgrees) {
  const Taken folder("roberta");
  WriteByteBpe(GoldenJson("roberta"), folder);
  folder.Write("config.json", R"({"model_type": "roberta"})");
  ExpectAllAgree(folder, 277);
}

TEST(GoldenFiles, LlamaReadFromItsModelAgrees) {
  const Taken folder("llama-2");
  folder.Write("tokenizer.model", GoldenFile("llama-2", "tokenizer.model"));
  folder.Write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  ExpectAllAgree(folder, 277);
}

TEST(GoldenFiles, ModelsAloneAgreeWithSentencePiece) {
  for (const auto& [golden, file] :
       {std::pair("llama-2", "tokenizer.model"), std::pair("t5", "spiece.model")}) {
    SCOPED_TRACE(golden);
    const Taken folder(golden);
    folder.Write("tokenizer.json", GoldenFile(golden, "tokenizer.json"));
    folder.Write(file, GoldenFile(golden, file));
    folder.Write("model_cases.json", GoldenFile(golden, "model_cases.json"));
    ExpectAllAgree(folder, 277 + 127);
  }
}

}  // namespace
}  // namespace heed
