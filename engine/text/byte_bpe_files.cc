// vocab.json and merges.txt: as the converters of transformers for GPT-2, RoBERTa, ... read them.
#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/text/file_converters.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_draft.h"

namespace heed {
namespace {

constexpr char kVocabulary[] = "vocab.json";
constexpr char kMerges[] = "merges.txt";
constexpr int64_t kMaxMerges = 4'000'000;

struct Kind {
  std::string_view tokenizer_class;
  std::vector<Role> roles;
  std::string_view single, pair;  // empty: what else the kind does
};

const std::vector<Role> kSentences = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},        {"sep_token", "</s>"},
    {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>", true}};
const std::vector<Role> kBertLike = {
    {"bos_token", "[CLS]"}, {"eos_token", "[SEP]"}, {"unk_token", "[UNK]"},        {"sep_token", "[SEP]"},
    {"pad_token", "[PAD]"}, {"cls_token", "[CLS]"}, {"mask_token", "[MASK]", true}};
constexpr std::string_view kEnd = "<|endoftext|>";

const Kind kKinds[] = {
    {"GPT2Tokenizer", {{"bos_token", kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}}, "", ""},
    {"RobertaTokenizer", kSentences, "", ""},
    {"BlenderbotTokenizer", kSentences, "A eos", "A B:1"},
    {"DebertaTokenizer", kBertLike, "cls A sep", "cls A sep B:1 sep:1"},
    {"Qwen2Tokenizer", {{"eos_token", kEnd}, {"unk_token", kEnd}, {"pad_token", kEnd}}, "", ""},
};

// Qwen 2's words: contractions, letters with what stands before them, single digits, signs, spaces.
constexpr char kQwenWords[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// "Ġ t" a line; the first may be "#version: 0.2".
absl::StatusOr<Json> ReadMerges(std::string_view text) {
  if (!ValidUtf8(text)) return Invalid(kMerges, ": is not valid UTF-8");
  Json merges = Json::array();
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == 0 || space == line.npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != line.npos) {
      return Invalid(kMerges, ": line ", number, ": ", Shown(std::string(line)), " is not two tokens");
    }
    if (std::ssize(merges) == kMaxMerges) return Invalid(kMerges, ": more than ", kMaxMerges, " merges");
    Json& merge = merges.emplace_back(Json::array());
    merge.push_back(std::string(line.substr(0, space)));
    merge.push_back(std::string(line.substr(space + 1)));
  }
  return merges;
}

absl::StatusOr<Json> ReadVocabulary(std::string_view text, TokenizerDraft& draft) {
  ASSIGN_OR_RETURN(Json vocabulary, ParseJson(text, kVocabulary));
  JsonFields fields(vocabulary, kVocabulary);
  for (const auto& [token, id] : vocabulary.items())
    draft.Define(token, fields.RequiredInt(token, 0, INT32_MAX));
  RETURN_IF_ERROR(fields.Finish());
  return vocabulary;
}

Json ByteLevel(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", use_regex}};
}

// What comes around the text, of the kinds that have no template of their own.
Json PostProcessor(const TokenizerSettings& settings, bool roberta, bool prefix_space,
                   TokenizerDraft& draft) {
  if (roberta) {
    return {{"type", "RobertaProcessing"},
            {"sep", Json::array({draft.Token("sep_token"), draft.Id("sep_token")})},
            {"cls", Json::array({draft.Token("cls_token"), draft.Id("cls_token")})},
            {"trim_offsets", true},
            {"add_prefix_space", prefix_space}};
  }
  if (settings.Flag("add_bos_token", false)) return draft.Template("bos A", "bos A B:1");
  return ByteLevel(true, /*trim_offsets=*/false, true);
}

}  // namespace

absl::StatusOr<Json> ConvertByteBpe(std::string_view vocab_json, std::string_view merges_txt,
                                    const TokenizerSettings& settings) {
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) {
    return settings.tokenizer_class.empty() || k.tokenizer_class == settings.tokenizer_class;
  });
  if (kind == std::end(kKinds)) {
    return Invalid(kVocabulary, ": Heed reads no tokenizer of class ", Shown(settings.tokenizer_class),
                   " from it");
  }
  TokenizerDraft draft(kVocabulary, settings, kind->roles);
  ASSIGN_OR_RETURN(Json vocabulary, ReadVocabulary(vocab_json, draft));
  ASSIGN_OR_RETURN(Json merges, ReadMerges(merges_txt));
  draft.model = {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
  const bool prefix_space = settings.Flag("add_prefix_space", false);
  const bool qwen = kind->tokenizer_class == "Qwen2Tokenizer";
  draft.pre_tokenizer = ByteLevel(prefix_space, true, /*use_regex=*/!qwen);
  if (qwen) {
    Json split = {
        {"type", "Split"}, {"pattern", {{"Regex", kQwenWords}}}, {"behavior", "Isolated"}, {"invert", false}};
    draft.normalizer = {{"type", "NFC"}};
    draft.pre_tokenizer = {
        {"type", "Sequence"},
        {"pretokenizers", Json::array({std::move(split), std::move(draft.pre_tokenizer)})}};
  }
  draft.decoder = ByteLevel(true, true, true);
  draft.AddSpecialTokens();
  draft.post_processor =
      kind->single.empty()
          ? PostProcessor(settings, kind->tokenizer_class == "RobertaTokenizer", prefix_space, draft)
          : draft.Template(kind->single, kind->pair);
  return draft.Finish();
}

}  // namespace heed
