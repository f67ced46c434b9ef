// The tables are those of transformers' converters; that these tokens stand there is how the models were
// trained.
#include "engine/text/sentencepiece_tokens.h"

#include <algorithm>
#include <cfloat>
#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "engine/text/chars.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

using Settings = TokenizerSettings;
using Names = std::span<const std::string_view>;

// Mbart50 has these first, and more.
constexpr std::string_view kLanguages[] = {
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT",
    "ja_XX", "kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK",
    "tr_TR", "vi_VN", "zh_CN", "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE",
    "km_KH", "mk_MK", "ml_IN", "mn_MN", "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN",
    "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK", "xh_ZA", "gl_ES", "sl_SI"};
constexpr size_t kMbartLanguages = 25;

// fairseq's own four, which stand in the place of the first three pieces.
constexpr std::string_view kFairseq[] = {"<s>", "<pad>", "</s>", "<unk>"};
constexpr std::string_view kCamembert[] = {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"};
constexpr std::string_view kXglm[] = {"<madeupword0>", "<madeupword1>", "<madeupword2>", "<madeupword3>",
                                      "<madeupword4>", "<madeupword5>", "<madeupword6>"};
constexpr std::string_view kMask[] = {"<mask>"};

void Append(Names names, ScoredTokens& tokens) {
  for (std::string_view name : names) tokens.list.push_back({std::string(name), 0, SentencePiece::kControl});
}

// Tokens `before`, the pieces from the first on that counts, tokens `after`.
ScoredTokens Around(Names before, const SentencePieceModel& model, int64_t first, Names after) {
  ScoredTokens tokens;
  Append(before, tokens);
  const auto own_unknown = std::find(before.begin(), before.end(), "<unk>");
  if (model.unknown_id >= first) {
    tokens.unknown_id = model.unknown_id - first + std::ssize(before);
  } else if (own_unknown != before.end()) {
    tokens.unknown_id = own_unknown - before.begin();
  }
  for (int64_t id = first; id < std::ssize(model.pieces); ++id) {
    const SentencePiece& piece = model.pieces[id];
    tokens.list.push_back({piece.text, piece.score, piece.type});
  }
  Append(after, tokens);
  return tokens;
}

bool Has(const SentencePieceModel& model, std::string_view text) {
  return std::any_of(model.pieces.begin(), model.pieces.end(),
                     [&](const SentencePiece& piece) { return piece.text == text; });
}

// "2015," and the like.
bool EndsInDigitAndComma(std::string_view text) {
  const Chars chars = ToChars(text);
  return chars.size() >= 2 && chars.back().code == ',' && IsNumeric(chars[chars.size() - 2].code);
}

}  // namespace

ScoredTokens PlainTokens(const SentencePieceModel& model, const Settings&) {
  return Around({}, model, 0, {});
}

ScoredTokens OwnTokens(const SentencePieceModel& model, const Settings& settings) {
  ScoredTokens tokens = PlainTokens(model, settings);
  double highest = FLT_MIN;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type == SentencePiece::kNormal) highest = std::max<double>(highest, piece.score);
  }
  if (model.type != SentencePieceModel::kUnigram) return tokens;
  for (ScoredToken& token : tokens.list) {
    if (token.type == SentencePiece::kUserDefined)
      token = {token.text, static_cast<double>(CodePoints(token.text)) * highest - 0.1};
    if (token.type == SentencePiece::kUnused) token.type = SentencePiece::kByte;  // BPE merges through them
  }
  return tokens;
}

ScoredTokens T5Tokens(const SentencePieceModel& model, const Settings& settings) {
  ScoredTokens tokens = PlainTokens(model, settings);
  for (int64_t i = settings.Int("extra_ids", 100) - 1; i >= 0; --i) {
    const std::string name = Cat("<extra_id_", i, ">");
    if (!Has(model, name)) tokens.list.push_back({name, 0, SentencePiece::kControl});
  }
  return tokens;
}

ScoredTokens CommaTokens(const SentencePieceModel& model, const Settings& settings) {
  ScoredTokens tokens = PlainTokens(model, settings);
  for (ScoredToken& token : tokens.list) {
    if (EndsInDigitAndComma(token.text)) token.score -= 100;
  }
  return tokens;
}

ScoredTokens XlmRobertaTokens(const SentencePieceModel& model, const Settings&) {
  return Around(kFairseq, model, 3, kMask);
}

ScoredTokens CamembertTokens(const SentencePieceModel& model, const Settings&) {
  ScoredTokens tokens = Around(kCamembert, model, 1, kMask);
  tokens.list[std::size(kCamembert) - 1].score = -100;
  return tokens;
}

ScoredTokens XglmTokens(const SentencePieceModel& model, const Settings&) {
  return Around(kFairseq, model, 3, kXglm);
}

ScoredTokens MbartTokens(const SentencePieceModel& model, const Settings&) {
  ScoredTokens tokens = Around(kFairseq, model, 3, Names(kLanguages).first(kMbartLanguages));
  Append(kMask, tokens);
  return tokens;
}

ScoredTokens Mbart50Tokens(const SentencePieceModel& model, const Settings&) {
  ScoredTokens tokens = Around(kFairseq, model, 3, kLanguages);
  Append(kMask, tokens);
  return tokens;
}

// <pad> and </s>, two masks where there are such, then tokens that nothing uses, up to the offset; and the
// pieces from the third on.
ScoredTokens PegasusTokens(const SentencePieceModel& model, const Settings& settings) {
  const int64_t offset = settings.Int("offset", 103);
  const auto named = [&](std::string_view key, std::string_view usual) {
    const auto told = settings.config.find(key);
    if (told == settings.config.end()) return std::string(usual);
    return told->is_string() ? told->get<std::string>() : std::string();
  };
  const auto special = [&](std::string_view role, std::string_view usual) {
    const auto told = settings.special.find(role);
    return told == settings.special.end() ? std::string(usual) : told->second.token.content;
  };
  std::vector<std::string> before = {special("pad_token", "<pad>"), special("eos_token", "</s>")};
  if (const std::string mask = named("mask_token_sent", "<mask_1>"); !mask.empty()) {
    before.push_back(mask);
    if (const std::string word = special("mask_token", "<mask_2>"); !word.empty()) before.push_back(word);
  }
  for (int64_t i = 2; i < offset; ++i) before.push_back(Cat("<unk_", i, ">"));
  return Around(std::vector<std::string_view>(before.begin(), before.end()), model, 2, {});
}

ScoredTokens DebertaTokens(const SentencePieceModel& model, const Settings& settings) {
  ScoredTokens tokens = PlainTokens(model, settings);
  constexpr std::string_view kBertMask[] = {"[MASK]"};
  if (!Has(model, kBertMask[0])) Append(kBertMask, tokens);
  return tokens;
}

// Where the file has a byte for the tab, the tab itself is the token. Turns of a chat are special.
ScoredTokens GemmaTokens(const SentencePieceModel& model, const Settings& settings) {
  ScoredTokens tokens = PlainTokens(model, settings);
  for (ScoredToken& token : tokens.list) {
    if (token.text == "<start_of_turn>" || token.text == "<end_of_turn>")
      token.type = SentencePiece::kControl;
    if (token.text == "<0x09>" && !Has(model, "\t")) token = {"\t", token.score};
  }
  return tokens;
}

}  // namespace heed
