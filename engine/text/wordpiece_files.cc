// vocab.txt: as BertConverter of transformers reads it.
#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/text/file_converters.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_draft.h"

namespace heed {
namespace {

constexpr char kFile[] = "vocab.txt";

struct Kind {
  std::string_view tokenizer_class;
  std::vector<Role> roles;
  std::string_view single, pair;
};

const Kind kKinds[] = {
    {"BertTokenizer",
     {{"unk_token", "[UNK]"},
      {"sep_token", "[SEP]"},
      {"pad_token", "[PAD]"},
      {"cls_token", "[CLS]"},
      {"mask_token", "[MASK]"}},
     "cls A sep",
     "cls A sep B:1 sep:1"},
    {"MPNetTokenizer",
     {{"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"unk_token", "[UNK]"},
      {"sep_token", "</s>"},
      {"pad_token", "<pad>"},
      {"cls_token", "<s>"},
      {"mask_token", "<mask>", true}},
     "cls A sep",
     "cls A sep sep B:1 sep:1"},
    {"FunnelTokenizer",
     {{"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"unk_token", "<unk>"},
      {"sep_token", "<sep>"},
      {"pad_token", "<pad>"},
      {"cls_token", "<cls>"},
      {"mask_token", "<mask>"}},
     "cls:2 A sep",
     "cls:2 A sep B:1 sep:1"},
};

// Lines as Python's text files have them: \n, \r\n and \r end one.
std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(text.starts_with("\r\n") ? 2 : std::min<size_t>(text.size(), 1));
  }
  return lines;
}

// Of a token on several lines the last counts. The others' ids are kept, as U+FFFD and the line's number,
// which no text becomes: the normalizer drops that character.
Json ReadVocabulary(std::string_view vocab_txt, TokenizerDraft& draft) {
  Json vocabulary = Json::object();
  const auto lines = Lines(vocab_txt);
  for (int64_t id = std::ssize(lines) - 1; id >= 0; --id) {
    std::string token(lines[id]);
    if (vocabulary.contains(token)) token = Cat("\ufffd", id + 1);
    draft.Define(token, id);
    vocabulary[token] = static_cast<uint64_t>(id);
  }
  return vocabulary;
}

}  // namespace

absl::StatusOr<Json> ConvertVocabTxt(std::string_view vocab_txt, const TokenizerSettings& settings) {
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) {
    return settings.tokenizer_class.empty() || k.tokenizer_class == settings.tokenizer_class;
  });
  if (kind == std::end(kKinds)) {
    return Invalid(kFile, ": Heed reads no tokenizer of class ", Shown(settings.tokenizer_class), " from it");
  }
  if (!ValidUtf8(vocab_txt)) return Invalid(kFile, ": is not valid UTF-8");
  TokenizerDraft draft(kFile, settings, kind->roles);
  draft.model = {{"type", "WordPiece"},
                 {"unk_token", draft.Token("unk_token")},
                 {"continuing_subword_prefix", "##"},
                 {"max_input_chars_per_word", 100},
                 {"vocab", ReadVocabulary(vocab_txt, draft)}};
  const bool basic = settings.Flag("do_basic_tokenize", true);
  const auto strip = settings.config.find("strip_accents");
  draft.normalizer = {{"type", "BertNormalizer"},
                      {"clean_text", true},
                      {"handle_chinese_chars", basic && settings.Flag("tokenize_chinese_chars", true)},
                      {"strip_accents", basic && strip != settings.config.end() ? *strip : Json()},
                      {"lowercase", basic && settings.Flag("do_lower_case", true)}};
  draft.pre_tokenizer = {{"type", "BertPreTokenizer"}};
  draft.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  draft.AddSpecialTokens();
  draft.post_processor = draft.Template(kind->single, kind->pair);
  return draft.Finish();
}

}  // namespace heed
