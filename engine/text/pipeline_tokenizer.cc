#include "engine/text/pipeline_tokenizer.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/text/added_tokens.h"
#include "engine/text/byte_level.h"
#include "engine/text/decoders.h"
#include "engine/text/normalizers.h"
#include "engine/text/post_processors.h"
#include "engine/text/pre_tokenizers.h"
#include "engine/text/token_models.h"
#include "engine/text/vocabulary.h"

namespace heed {
namespace {

constexpr char kFile[] = "tokenizer.json";

// The longer of two texts gives way first: "longest_first" of transformers.
void Truncate(Tokens& first, Tokens* second, size_t room) {
  if (second == nullptr) {
    first.resize(std::min(first.size(), room));
    return;
  }
  Tokens& shorter = first.size() <= second->size() ? first : *second;
  Tokens& longer = &shorter == &first ? *second : first;
  if (first.size() + second->size() <= room) return;
  if (2 * shorter.size() <= room) {
    longer.resize(room - shorter.size());
  } else {
    shorter.resize(room / 2);
    longer.resize(room - room / 2);
  }
}

// Ours is what the request asks for; a file's own setting is only checked.
absl::Status CheckTruncation(const Json& truncation, const std::string& where) {
  if (truncation.is_null()) return absl::OkStatus();
  JsonFields fields(truncation, where);
  const int64_t max_length = fields.RequiredInt("max_length", 1, INT32_MAX);
  fields.Int("stride", 0, 0, std::max<int64_t>(max_length, 1) - 1);
  fields.Choice("strategy", {"LongestFirst", "OnlyFirst", "OnlySecond"});
  fields.Choice("direction", {"Right", "Left"});
  return fields.Finish();
}

// An added token where it was found, with the spaces that it took.
Token Found(int32_t id, CharSpan chars) {
  const auto solid = [](const Char& c) { return !IsSpaceOrItsByte(c.code); };
  const auto left = std::find_if(chars.begin(), chars.end(), solid) - chars.begin();
  const auto right = std::find_if(chars.rbegin(), chars.rend(), solid) - chars.rbegin();
  return {id, chars.front().begin, chars.back().end, static_cast<int32_t>(left), static_cast<int32_t>(right)};
}

class PipelineTokenizer : public Tokenizer {
 public:
  absl::Status Read(const Json& json, const std::string& file);

  absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options) const override;
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  std::string TokenBytes(int32_t id) const override;
  std::string Spelling(int32_t id) const override {
    return vocabulary_.Contains(id) ? vocabulary_.Token(id) : "";
  }
  bool DependsOnNext(int32_t id) const override;
  int32_t vocab_size() const override { return vocabulary_.size(); }
  int32_t TokenId(std::string_view token) const override { return vocabulary_.Find(token); }

 private:
  absl::Status ReadAdded(const Json& list, const std::string& where);
  absl::StatusOr<Tokens> Tokenize(std::string_view text) const;
  absl::Status TokenizePlain(Chars text, Tokens& tokens) const;
  absl::Status TokenizeWord(CharSpan text, Tokens& tokens) const;

  Vocabulary vocabulary_;
  std::unordered_set<int32_t> special_;  // ids that decoding may leave out
  bool encode_special_tokens_ = false;   // special tokens in a text are text like any other
  AddedTokenFinder as_it_came_, normalized_;
  std::unique_ptr<const Normalizer> normalizer_;       // may be null
  std::unique_ptr<const PreTokenizer> pre_tokenizer_;  // may be null
  std::unique_ptr<const TokenModel> model_;
  std::unique_ptr<const PostProcessor> post_processor_;
  std::unique_ptr<const Decoder> decoder_;
};

absl::Status PipelineTokenizer::Read(const Json& json, const std::string& file) {
  JsonFields fields(json, file);
  fields.Ignore("version");
  fields.Ignore("padding");  // nothing is padded here
  const Json& truncation = fields.Raw("truncation");
  const Json& added = fields.Raw("added_tokens");
  const Json& normalizer = fields.Raw("normalizer");
  const Json& pre_tokenizer = fields.Raw("pre_tokenizer");
  const Json& post_processor = fields.Raw("post_processor");
  const Json& decoder = fields.Raw("decoder");
  const Json& model = fields.Raw("model");
  encode_special_tokens_ = fields.Bool("encode_special_tokens", false);
  RETURN_IF_ERROR(fields.Finish());
  const auto where = [&](std::string_view stage) { return Cat(file, ": ", stage); };

  RETURN_IF_ERROR(CheckTruncation(truncation, where("truncation")));
  ASSIGN_OR_RETURN(normalizer_, NewNormalizer(normalizer, where("normalizer")));
  ASSIGN_OR_RETURN(pre_tokenizer_, NewPreTokenizer(pre_tokenizer, where("pre_tokenizer")));
  ASSIGN_OR_RETURN(decoder_, NewDecoder(decoder, where("decoder")));
  ASSIGN_OR_RETURN(model_, NewTokenModel(model, where("model"), vocabulary_));
  RETURN_IF_ERROR(ReadAdded(added, where("added_tokens")));
  RETURN_IF_ERROR(vocabulary_.Finish(where("vocabulary")));
  ASSIGN_OR_RETURN(post_processor_, NewPostProcessor(post_processor, where("post_processor"), vocabulary_));
  kind_ = TokenModelType(model);
  MeasureTokens();
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::ReadAdded(const Json& list, const std::string& where) {
  ASSIGN_OR_RETURN(const auto tokens, ReadAddedTokens(list, where, vocabulary_));
  for (const bool special : {true, false}) {  // of two that normalization makes equal, a special one is found
    for (const AddedToken& token : tokens) {
      if (token.special != special) continue;
      if (special) special_.insert(token.id);
      if (special && encode_special_tokens_) continue;
      RETURN_IF_ERROR((token.normalized ? normalized_ : as_it_came_).Add(token, normalizer_.get()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tokens> PipelineTokenizer::Tokenize(std::string_view text) const {
  if (!ValidUtf8(text)) return Invalid("the text is not valid UTF-8");
  const Chars chars = ToChars(text);
  Tokens tokens;
  for (const auto& part : as_it_came_.Split(chars)) {
    if (part.id >= 0) {
      tokens.push_back(Found(part.id, part.chars));
    } else {
      RETURN_IF_ERROR(TokenizePlain(Chars(part.chars.begin(), part.chars.end()), tokens));
    }
  }
  return tokens;
}

absl::Status PipelineTokenizer::TokenizePlain(Chars text, Tokens& tokens) const {
  if (normalizer_ != nullptr) RETURN_IF_ERROR(normalizer_->Normalize(text.front().begin, text));
  for (const auto& part : normalized_.Split(text)) {
    if (part.id >= 0) {
      tokens.push_back(Found(part.id, part.chars));
    } else {
      RETURN_IF_ERROR(TokenizeWord(part.chars, tokens));
    }
  }
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::TokenizeWord(CharSpan text, Tokens& tokens) const {
  if (pre_tokenizer_ == nullptr) return model_->Tokenize(text, tokens);
  Words words;
  RETURN_IF_ERROR(pre_tokenizer_->Split(text, words));
  for (size_t i = 0; i < words.size(); ++i) RETURN_IF_ERROR(model_->Tokenize(words[i], tokens));
  return absl::OkStatus();
}

absl::StatusOr<Encoding> PipelineTokenizer::Encode(std::string_view text,
                                                   std::optional<std::string_view> pair,
                                                   const EncodeOptions& options) const {
  ASSIGN_OR_RETURN(Tokens first, Tokenize(text));
  Tokens second;
  if (pair) {
    ASSIGN_OR_RETURN(second, Tokenize(*pair));
  }
  Tokens* const other = pair ? &second : nullptr;
  if (options.max_length > 0) {
    const int64_t special = options.add_special_tokens ? post_processor_->SpecialTokens(pair.has_value()) : 0;
    if (options.max_length < special) {
      return Invalid("max_length ", options.max_length, " is below the ", special,
                     " special tokens of every input");
    }
    Truncate(first, other, options.max_length - special);
  }
  return post_processor_->Join(std::move(first), other, options.add_special_tokens);
}

std::string PipelineTokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (int32_t id : ids) {
    if (!vocabulary_.Contains(id) || (skip_special_tokens && special_.contains(id))) continue;
    tokens.push_back(vocabulary_.Token(id));
  }
  decoder_->Decode(tokens);
  return absl::StrJoin(tokens, "");
}

std::string PipelineTokenizer::TokenBytes(int32_t id) const {
  return vocabulary_.Contains(id) ? decoder_->Bytes(vocabulary_.Token(id)) : "";
}

bool PipelineTokenizer::DependsOnNext(int32_t id) const {
  return vocabulary_.Contains(id) && decoder_->DependsOnNext(vocabulary_.Token(id));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> NewPipelineTokenizer(const Json& json,
                                                                      const std::string& file) {
  auto tokenizer = std::make_unique<PipelineTokenizer>();
  RETURN_IF_ERROR(tokenizer->Read(json, file));
  return tokenizer;
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> NewPipelineTokenizer(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text, kFile));
  return NewPipelineTokenizer(json, kFile);
}

}  // namespace heed
