#include "engine/text/sentencepiece_stages.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"

namespace heed {
namespace {

constexpr char kSpace[] = "\u2581";  // as pieces spell it

Json Sequence(std::string_view list, std::vector<Json> stages) {
  return {{"type", "Sequence"}, {std::string(list), std::move(stages)}};
}

Json Replace(std::string_view old_text, std::string_view new_text) {
  return {{"type", "Replace"},
          {"pattern", {{"String", std::string(old_text)}}},
          {"content", std::string(new_text)}};
}

Json OneSpace() { return {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}; }

Json Strip(bool left, bool right) {
  return {{"type", "Strip"}, {"strip_left", left}, {"strip_right", right}};
}

// `longest`: as SentencePiece applies it, and not Hugging Face's package.
void AddCharsmap(const SentencePieceModel& model, std::vector<Json>& stages, bool longest = false) {
  if (model.charsmap.empty()) return;
  Json& stage = stages.emplace_back(
      Json{{"type", "Precompiled"}, {"precompiled_charsmap", absl::Base64Escape(model.charsmap)}});
  if (longest) stage["longest"] = true;
}

// Quotes alike, without accents and capitals; what of these where tokenizer_config.json does not say.
Json PlainLetters(const SentencePieceSource& source, bool keep_accents, bool lower_case) {
  std::vector<Json> stages = {Replace("``", "\""), Replace("''", "\"")};
  if (!source.settings.Flag("keep_accents", keep_accents)) {
    stages.push_back({{"type", "NFKD"}});
    stages.push_back({{"type", "StripAccents"}});
  }
  if (source.settings.Flag("do_lower_case", lower_case)) stages.push_back({{"type", "Lowercase"}});
  AddCharsmap(source.model, stages);
  stages.push_back(OneSpace());
  return Sequence("normalizers", std::move(stages));
}

bool Legacy(const SentencePieceSource& source) { return source.settings.Flag("legacy", true); }
bool PrefixSpace(const SentencePieceSource& source) { return source.settings.Flag("add_prefix_space", true); }

// Bytes are joined to characters; the space before the text goes.
Json BytesDecoder(std::vector<Json> stages, bool bytes, bool strip) {
  stages.push_back(Replace(kSpace, " "));
  if (bytes) stages.push_back({{"type", "ByteFallback"}});
  stages.push_back({{"type", "Fuse"}});
  if (strip) stages.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return Sequence("decoders", std::move(stages));
}

}  // namespace

Json CommonNormalizer(const SentencePieceSource& source) {
  std::vector<Json> stages;
  AddCharsmap(source.model, stages);
  stages.push_back(Strip(false, true));
  stages.push_back(OneSpace());
  return Sequence("normalizers", std::move(stages));
}

Json OwnNormalizer(const SentencePieceSource& source) {
  std::vector<Json> stages;
  AddCharsmap(source.model, stages, /*longest=*/true);
  if (source.model.remove_extra_whitespaces) {
    stages.push_back(Strip(true, true));
    stages.push_back(OneSpace());
  }
  if (source.model.add_dummy_prefix) stages.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  stages.push_back(Replace(" ", kSpace));
  return Sequence("normalizers", std::move(stages));
}

Json AlbertNormalizer(const SentencePieceSource& source) { return PlainLetters(source, false, true); }
Json FnetNormalizer(const SentencePieceSource& source) { return PlainLetters(source, true, false); }
Json XlnetNormalizer(const SentencePieceSource& source) { return PlainLetters(source, false, false); }

Json DebertaNormalizer(const SentencePieceSource& source) {
  std::vector<Json> stages;
  if (source.settings.Flag("do_lower_case", false)) stages.push_back({{"type", "Lowercase"}});
  stages.push_back(Strip(true, true));
  AddCharsmap(source.model, stages);
  stages.push_back(OneSpace());
  return Sequence("normalizers", std::move(stages));
}

Json GemmaNormalizer(const SentencePieceSource&) { return Replace(" ", kSpace); }

Json LlamaNormalizer(const SentencePieceSource& source) {
  if (!Legacy(source)) return Json();
  std::vector<Json> stages;
  if (PrefixSpace(source)) stages.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  stages.push_back(Replace(" ", kSpace));
  return Sequence("normalizers", std::move(stages));
}

Json Metaspace(const SentencePieceSource& source) {
  const char* scheme = !PrefixSpace(source) ? "never" : Legacy(source) ? "always" : "first";
  return {{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", scheme}, {"split", true}};
}

Json PegasusWords(const SentencePieceSource& source) {
  return Sequence("pretokenizers", {{{"type", "WhitespaceSplit"}}, Metaspace(source)});
}

Json DebertaWords(const SentencePieceSource& source) {
  if (!source.settings.Flag("split_by_punct", false)) return Metaspace(source);
  return Sequence("pretokenizers", {{{"type", "Punctuation"}, {"behavior", "Isolated"}}, Metaspace(source)});
}

Json LlamaWords(const SentencePieceSource& source) {
  if (Legacy(source)) return Json();
  Json metaspace = Metaspace(source);
  metaspace["split"] = false;
  return metaspace;
}

Json NoStage(const SentencePieceSource&) { return Json(); }

Json LlamaDecoder(const SentencePieceSource& source) { return BytesDecoder({}, true, PrefixSpace(source)); }
Json GemmaDecoder(const SentencePieceSource&) { return BytesDecoder({}, true, false); }

Json OwnDecoder(const SentencePieceSource& source) {
  const SentencePieceModel& model = source.model;
  return BytesDecoder({Replace(model.pieces[model.unknown_id].text, model.unknown_surface)},
                      model.byte_fallback, model.add_dummy_prefix || model.remove_extra_whitespaces);
}

}  // namespace heed
