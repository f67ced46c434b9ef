#include "engine/text/golden.h"

#include <filesystem>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/text/tokenizer.h"

namespace heed {
namespace {

constexpr char kCases[] = "cases.json";
constexpr char kModelCases[] = "model_cases.json";
constexpr int64_t kMaxCasesBytes = 64 << 20;

// One case, its results compared one by one with what is expected; the first difference is the case's
// problem.
class Case {
 public:
  Case(const Tokenizer& tokenizer, JsonFields& fields, std::string name)
      : tokenizer_(tokenizer), fields_(fields) {
    result_.name = std::move(name);
  }

  GoldenResult Check() {
    Encode(fields_.Bool("add_special_tokens", true));
    Compare("type_ids", encoding_.type_ids);
    Compare("offsets", encoding_.offsets);
    CheckDecoding("decoded_skip", /*skip_special_tokens=*/true);
    CheckDecoding("decoded_keep", /*skip_special_tokens=*/false);
    CheckPrefixes();
    return Result();
  }

  // What SentencePiece gives for its own file: ids and the text of these.
  GoldenResult CheckModel() {
    Encode(/*add_special_tokens=*/false);
    Compare("decoded", tokenizer_.Decode(encoding_.ids, /*skip_special_tokens=*/true));
    return Result();
  }

 private:
  GoldenResult Result() {
    if (absl::Status status = fields_.Finish(); !status.ok()) result_.problem = std::string(status.message());
    return result_;
  }

  void Encode(bool add_special_tokens) {
    EncodeOptions options;
    options.add_special_tokens = add_special_tokens;
    options.max_length = fields_.Int("max_length", 0, 1, INT32_MAX);
    const std::string text = fields_.String("text", ""), second = fields_.String("pair", "");
    std::optional<std::string_view> pair;
    if (fields_.Has("pair")) pair = second;
    auto encoding = tokenizer_.Encode(text, pair, options);
    if (!encoding.ok()) result_.problem = std::string(encoding.status().message());
    if (encoding.ok()) encoding_ = *std::move(encoding);
    Compare("ids", encoding_.ids);
  }

  void CheckDecoding(std::string_view key, bool skip_special_tokens) {
    if (fields_.Has(key)) Compare(key, tokenizer_.Decode(encoding_.ids, skip_special_tokens));
  }

  // The first prefixes, decoded each by itself, and the same said piece by piece.
  void CheckPrefixes() {
    if (!fields_.Has("decoded_prefixes")) return;
    const size_t expected = fields_.Raw("decoded_prefixes").size();
    Json decoded = Json::array();
    std::string said, all;
    PieceDecoder pieces(tokenizer_, {}, /*skip_special_tokens=*/false);
    for (size_t i = 0; i < encoding_.ids.size(); ++i) {
      all = tokenizer_.Decode(std::span(encoding_.ids).first(i + 1), /*skip_special_tokens=*/false);
      said += pieces.Add(encoding_.ids[i]);
      if (!all.starts_with(said)) Differs("pieces", said, all);
      if (i < expected) decoded.push_back(all);
    }
    Compare("decoded_prefixes", decoded);
    said += pieces.Finish();
    if (said != all) Differs("pieces", said, all);
  }

  void Compare(std::string_view key, const Json& found) {
    ++result_.ways;
    if (const Json& expected = fields_.Raw(key); found != expected) Differs(key, found, expected);
  }

  void Differs(std::string_view what, const Json& found, const Json& expected) {
    if (result_.problem.empty())
      result_.problem = Cat(what, ": ", Shown(found), " instead of ", Shown(expected));
  }

  const Tokenizer& tokenizer_;
  JsonFields& fields_;
  Encoding encoding_;
  GoldenResult result_;
};

// Tries the cases of a file one by one; their names are `prefix` and a number.
absl::Status CheckFile(const std::string& folder, const std::string& file, const Tokenizer& tokenizer,
                       std::string_view prefix, GoldenResult (Case::*check)(),
                       std::vector<GoldenResult>& results) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder, file, kMaxCasesBytes));
  ASSIGN_OR_RETURN(const Json cases, ParseJson(text, file));
  if (!cases.is_array() || cases.empty()) return Invalid(file, ": is not a list of cases");
  int64_t number = 0;
  for (const Json& item : cases) {
    const std::string name = Cat(prefix, number++);
    JsonFields fields(item, Cat(file, ": ", name));
    Case one(tokenizer, fields, name);
    results.push_back((one.*check)());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<GoldenResult>> CheckTokenizerCases(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(folder));
  if (tokenizer == nullptr) return absl::NotFoundError("the folder has no tokenizer");
  std::vector<GoldenResult> results;
  RETURN_IF_ERROR(CheckFile(folder, kCases, *tokenizer, "c", &Case::Check, results));
  if (!std::filesystem::exists(folder + "/" + kModelCases)) return results;
  ASSIGN_OR_RETURN(const auto model, LoadSentencePiece(folder));
  RETURN_IF_ERROR(CheckFile(folder, kModelCases, *model, "m", &Case::CheckModel, results));
  return results;
}

}  // namespace heed
