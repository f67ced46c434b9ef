// spiece.model and the like: as SpmConverter of transformers and its kin read them, and as SentencePiece
// does.
#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/text/file_converters.h"
#include "engine/text/sentencepiece_stages.h"
#include "engine/text/sentencepiece_tokens.h"
#include "engine/text/tokenizer_draft.h"

namespace heed {
namespace {

struct Kind {
  std::string_view tokenizer_class;
  std::vector<Role> roles = {};
  std::string_view single = {}, pair = {};  // empty: nothing comes around the text
  MakeTokens tokens = PlainTokens;
  MakeStage normalizer = CommonNormalizer, pre_tokenizer = Metaspace, decoder = Metaspace;
  bool bytes = false;          // byte_fallback
  bool begin_and_end = false;  // what comes around the text is told by add_bos_token and add_eos_token
};

const std::vector<Role> kFairseq = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},        {"sep_token", "</s>"},
    {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>", true}};
const std::vector<Role> kAlbert = {
    {"bos_token", "[CLS]"}, {"eos_token", "[SEP]"}, {"unk_token", "<unk>"},        {"sep_token", "[SEP]"},
    {"pad_token", "<pad>"}, {"cls_token", "[CLS]"}, {"mask_token", "[MASK]", true}};
const std::vector<Role> kBigBird = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"},  {"unk_token", "<unk>"},        {"sep_token", "[SEP]"},
    {"pad_token", "<pad>"}, {"cls_token", "[CLS]"}, {"mask_token", "[MASK]", true}};
const std::vector<Role> kDeberta = {{"bos_token", "[CLS]"},  {"eos_token", "[SEP]"}, {"unk_token", "[UNK]"},
                                    {"sep_token", "[SEP]"},  {"pad_token", "[PAD]"}, {"cls_token", "[CLS]"},
                                    {"mask_token", "[MASK]"}};
const std::vector<Role> kXlnet = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"},  {"unk_token", "<unk>"},        {"sep_token", "<sep>"},
    {"pad_token", "<pad>"}, {"cls_token", "<cls>"}, {"mask_token", "<mask>", true}};
const std::vector<Role> kLlama = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
const std::vector<Role> kT5 = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
const std::vector<Role> kPegasus = {
    {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask_2>"}};
const std::vector<Role> kGemma = {
    {"bos_token", "<bos>"}, {"eos_token", "<eos>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};

constexpr std::string_view kOne = "cls A sep", kTwo = "cls A sep B:1 sep:1",
                           kTwoFairseq = "cls A sep sep B sep";

const Kind kKinds[] = {
    {.tokenizer_class = "",
     .tokens = OwnTokens,
     .normalizer = OwnNormalizer,
     .pre_tokenizer = NoStage,
     .decoder = OwnDecoder},
    {.tokenizer_class = "T5Tokenizer",
     .roles = kT5,
     .single = "A eos",
     .pair = "A eos B eos",
     .tokens = T5Tokens},
    {.tokenizer_class = "AlbertTokenizer",
     .roles = kAlbert,
     .single = kOne,
     .pair = kTwo,
     .tokens = CommaTokens,
     .normalizer = AlbertNormalizer},
    {.tokenizer_class = "FNetTokenizer",
     .roles = kAlbert,
     .single = kOne,
     .pair = kTwo,
     .tokens = CommaTokens,
     .normalizer = FnetNormalizer},
    {.tokenizer_class = "XLNetTokenizer",
     .roles = kXlnet,
     .single = "A sep cls:2",
     .pair = "A sep B:1 sep:1 cls:2",
     .tokens = CommaTokens,
     .normalizer = XlnetNormalizer},
    {.tokenizer_class = "XLMRobertaTokenizer",
     .roles = kFairseq,
     .single = kOne,
     .pair = kTwoFairseq,
     .tokens = XlmRobertaTokens},
    {.tokenizer_class = "CamembertTokenizer",
     .roles = kFairseq,
     .single = kOne,
     .pair = kTwoFairseq,
     .tokens = CamembertTokens},
    {.tokenizer_class = "XGLMTokenizer",
     .roles = kFairseq,
     .single = "sep A",
     .pair = "sep A sep sep B",
     .tokens = XglmTokens},
    {.tokenizer_class = "MBartTokenizer",
     .roles = kFairseq,
     .single = "A eos language",
     .pair = "A B eos language",
     .tokens = MbartTokens},
    {.tokenizer_class = "MBart50Tokenizer",
     .roles = kFairseq,
     .single = "language A eos",
     .pair = "language A B eos",
     .tokens = Mbart50Tokens},
    {.tokenizer_class = "PegasusTokenizer",
     .roles = kPegasus,
     .single = "A eos",
     .pair = "A B eos",
     .tokens = PegasusTokens,
     .pre_tokenizer = PegasusWords},
    {.tokenizer_class = "BigBirdTokenizer", .roles = kBigBird, .single = kOne, .pair = kTwo},
    {.tokenizer_class = "DebertaV2Tokenizer",
     .roles = kDeberta,
     .single = kOne,
     .pair = kTwo,
     .tokens = DebertaTokens,
     .normalizer = DebertaNormalizer,
     .pre_tokenizer = DebertaWords},
    {.tokenizer_class = "ReformerTokenizer", .roles = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}}},
    {.tokenizer_class = "LlamaTokenizer",
     .roles = kLlama,
     .normalizer = LlamaNormalizer,
     .pre_tokenizer = LlamaWords,
     .decoder = LlamaDecoder,
     .bytes = true,
     .begin_and_end = true},
    // Its converter also splits at spaces, of which the normalizer leaves none.
    {.tokenizer_class = "GemmaTokenizer",
     .roles = kGemma,
     .tokens = GemmaTokens,
     .normalizer = GemmaNormalizer,
     .pre_tokenizer = NoStage,
     .decoder = GemmaDecoder,
     .bytes = true,
     .begin_and_end = true},
};

// Tokens that text never becomes piece by piece are `unused_ids`, which is Heed's own.
Json UnigramModel(const ScoredTokens& tokens, bool bytes) {
  Json vocabulary = Json::array(), unused = Json::array();
  for (const ScoredToken& token : tokens.list) {
    if (!token.InText()) unused.push_back(vocabulary.size());
    Json& entry = vocabulary.emplace_back(Json::array());
    entry.push_back(token.text);
    entry.push_back(token.score);
  }
  return {{"type", "Unigram"},
          {"unk_id", tokens.unknown_id},
          {"byte_fallback", bytes},
          {"unused_ids", std::move(unused)},
          {"vocab", std::move(vocabulary)}};
}

absl::StatusOr<Json> BpeModel(const ScoredTokens& tokens, bool bytes, const std::string& file) {
  ASSIGN_OR_RETURN(Json merges, MergesOf(tokens, file));
  Json vocabulary = Json::object();
  for (size_t id = 0; id < tokens.list.size(); ++id) vocabulary[tokens.list[id].text] = id;
  return Json{{"type", "BPE"},
              {"unk_token", tokens.list[tokens.unknown_id].text},
              {"fuse_unk", true},
              {"byte_fallback", bytes},
              {"vocab", std::move(vocabulary)},
              {"merges", std::move(merges)}};
}

// Those that are looked for in text before all else.
void AddFound(const ScoredTokens& tokens, TokenizerDraft& draft) {
  for (const ScoredToken& scored : tokens.list) {
    if (scored.type != SentencePiece::kControl && scored.type != SentencePiece::kUserDefined) continue;
    AddedToken token;
    token.id = -1;
    token.content = scored.text;
    token.special = scored.type == SentencePiece::kControl;
    draft.Add(std::move(token));
  }
}

Json BeginAndEnd(const TokenizerSettings& settings, TokenizerDraft& draft) {
  const bool begin = settings.Flag("add_bos_token", true), end = settings.Flag("add_eos_token", false);
  const std::string single = Cat(begin ? "bos " : "", "A", end ? " eos" : "");
  return draft.Template(single, Cat(single, begin ? " bos:1" : "", " B:1", end ? " eos:1" : ""));
}

}  // namespace

absl::StatusOr<Json> ConvertSentencePiece(const SentencePieceModel& model, const std::string& file,
                                          const TokenizerSettings& settings) {
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) {
    return k.tokenizer_class == settings.tokenizer_class;
  });
  if (kind == std::end(kKinds)) {
    return Invalid(file, ": Heed reads no tokenizer of class ", Shown(settings.tokenizer_class), " from it");
  }
  const ScoredTokens tokens = kind->tokens(model, settings);
  if (tokens.unknown_id < 0) {
    return Invalid(file, ": piece ", model.unknown_id, " is the unknown one, where class ",
                   Shown(settings.tokenizer_class), " has others");
  }
  std::string_view language = settings.source_language;
  if (language.empty()) language = "en_XX";
  std::vector<Role> roles = kind->roles;
  roles.push_back({"language_token", language});
  TokenizerDraft draft(file, settings, roles);
  for (size_t id = 0; id < tokens.list.size(); ++id) draft.Define(tokens.list[id].text, id);

  const bool own = settings.tokenizer_class.empty();
  const bool bytes = own ? model.byte_fallback : kind->bytes;
  if (model.type == SentencePieceModel::kBpe) {
    ASSIGN_OR_RETURN(draft.model, BpeModel(tokens, bytes, file));
  } else {
    draft.model = UnigramModel(tokens, bytes);
  }
  const SentencePieceSource source{model, settings};
  draft.normalizer = kind->normalizer(source);
  draft.pre_tokenizer = kind->pre_tokenizer(source);
  draft.decoder = kind->decoder(source);
  draft.AddSpecialTokens();
  AddFound(tokens, draft);
  if (kind->begin_and_end) draft.post_processor = BeginAndEnd(settings, draft);
  if (!kind->single.empty()) draft.post_processor = draft.Template(kind->single, kind->pair);
  ASSIGN_OR_RETURN(Json json, draft.Finish());
  if (own) json["encode_special_tokens"] = true;
  return json;
}

}  // namespace heed
