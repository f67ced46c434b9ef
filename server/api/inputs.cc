#include "server/api/inputs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "server/error.h"

namespace heed {
namespace {

bool Blank(std::string_view text) { return text.find_first_not_of(" \t\n\v\f\r") == text.npos; }

// Whether any token comes from the text, and not from the tokenizer's special tokens alone.
bool HasContent(const Offsets& offsets) {
  return std::any_of(offsets.begin(), offsets.end(),
                     [](const auto& offset) { return offset.first < offset.second; });
}

// "image": the field of Input that is set.
std::string KindOf(const v1::Input& input) {
  return v1::Input::descriptor()->FindFieldByNumber(input.kind_case())->name();
}

}  // namespace

int64_t MaxTokens(const ModelInfo& info, const config::v1::LimitsConfig& limits) {
  return info.max_tokens > 0 ? std::min(info.max_tokens, limits.tokens()) : limits.tokens();
}

int64_t MaxInputTokens(const ModelInfo& info, const config::v1::LimitsConfig& limits) {
  if (info.architecture != Architecture::kEncoderDecoder) return MaxTokens(info, limits);
  return info.max_source_tokens > 0 ? std::min(info.max_source_tokens, limits.tokens()) : limits.tokens();
}

std::vector<v1::InputKind> KindsOf(const ServedModel& model) {
  if (model.tokenizer() == nullptr) return {v1::INPUT_KIND_TOKENS};
  const bool pairs = model.tokenizer()->Encode("a", "b", {}).ok();
  if (!pairs) return {v1::INPUT_KIND_TEXT, v1::INPUT_KIND_TOKENS};
  return {v1::INPUT_KIND_TEXT, v1::INPUT_KIND_TOKENS, v1::INPUT_KIND_PAIR};
}

InputReader::InputReader(const ServedModel* model, ModelMetrics* metrics, const Clock* clock,
                         const config::v1::LimitsConfig& limits, const v1::TextOptions& options,
                         int64_t longest)
    : model_(model),
      metrics_(metrics),
      clock_(clock),
      text_bytes_(limits.text_bytes()),
      longest_(longest),
      options_{.add_special_tokens = !options.without_special_tokens(),
               .max_length = options.truncate() ? longest : 0} {}

absl::StatusOr<TokenInput> InputReader::Read(const v1::Input& input, const std::string& where) const {
  ASSIGN_OR_RETURN(TokenInput read, ReadIds(input, where, options_));
  if (!input.has_global_tokens()) return read;
  ASSIGN_OR_RETURN(read.labels,
                   ReadGlobalTokens(input.global_tokens(), std::ssize(read.ids), where + ".global_tokens"));
  return read;
}

absl::StatusOr<TokenInput> InputReader::ReadContinuation(const v1::Input& input,
                                                         const std::string& where) const {
  if (input.has_global_tokens()) {
    return AtField(Invalid("a continuation has no global tokens: they are of what an encoder reads"),
                   where + ".global_tokens");
  }
  return ReadIds(input, where, {.add_special_tokens = false});
}

absl::StatusOr<TokenInput> InputReader::ReadIds(const v1::Input& input, const std::string& where,
                                                const EncodeOptions& options) const {
  switch (input.kind_case()) {
    case v1::Input::kText:
      return ReadText(input, where + ".text", options);
    case v1::Input::kTokens:
      return ReadTokens(input.tokens(), where + ".tokens", options);
    case v1::Input::kPair:
      return ReadPair(input, where + ".pair", options);
    case v1::Input::KIND_NOT_SET:
      return AtField(Error(ErrorReason::kInputEmpty,
                           "the input is empty: it is neither text nor tokens nor of any other kind"),
                     where);
    default:
      return AtField(NotRead(input), Cat(where, ".", KindOf(input)));
  }
}

absl::StatusOr<TokenInput> InputReader::ReadText(const v1::Input& input, const std::string& where,
                                                 const EncodeOptions& options) const {
  if (model_->tokenizer() == nullptr) return AtField(NotRead(input), where);
  if (absl::Status status = CheckText(input.text()); !status.ok()) return AtField(status, where);
  auto read = Encode(input.text(), std::nullopt, options);
  return read.ok() ? std::move(read) : AtField(read.status(), where);
}

absl::StatusOr<TokenInput> InputReader::ReadPair(const v1::Input& input, const std::string& where,
                                                 const EncodeOptions& options) const {
  if (model_->tokenizer() == nullptr) return AtField(NotRead(input), where);
  const v1::Pair& pair = input.pair();
  if (absl::Status status = CheckText(pair.first()); !status.ok()) return AtField(status, where + ".first");
  if (absl::Status status = CheckText(pair.second()); !status.ok()) return AtField(status, where + ".second");
  auto read = Encode(pair.first(), pair.second(), options);
  return read.ok() ? std::move(read) : AtField(read.status(), where);
}

absl::StatusOr<TokenInput> InputReader::ReadTokens(const v1::Tokens& tokens, const std::string& where,
                                                   const EncodeOptions& options) const {
  int64_t count = tokens.ids_size();
  if (count == 0) return AtField(Error(ErrorReason::kInputEmpty, "the input has no tokens"), where);
  if (options.max_length > 0) count = std::min(count, options.max_length);
  if (absl::Status status = CheckLength(count); !status.ok()) return AtField(status, where);
  const int64_t vocabulary = model_->info().vocab_size;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t id = tokens.ids(static_cast<int>(i));
    if (id < 0 || id >= vocabulary)
      return AtField(Invalid("ids[", i, "] is ", id, ", ids are 0 to ", vocabulary - 1), where);
  }
  return TokenInput{.ids = {tokens.ids().begin(), tokens.ids().begin() + count}, .offsets = {}};
}

absl::StatusOr<std::vector<int32_t>> InputReader::ReadGlobalTokens(const v1::GlobalTokens& named,
                                                                   int64_t tokens,
                                                                   const std::string& where) const {
  const int64_t most = model_->info().max_global_tokens, count = named.positions_size();
  if (most == 0) {
    return AtField(
        Invalid("'", model_->spec.name, "' takes no global tokens: it has no encoder whose layers read them"),
        where);
  }
  if (count > most) {
    return AtField(
        Beyond(Invalid("there are ", count, " global tokens, '", model_->spec.name, "' takes at most ", most),
               count, most),
        where);
  }
  std::vector<int32_t> labels(tokens);
  for (int i = 0; i < count; ++i) {
    const int32_t position = named.positions(i);
    if (position < 0 || position >= tokens)
      return AtField(
          Invalid("positions[", i, "] is ", position, ", the input's tokens are 0 to ", tokens - 1), where);
    if (std::exchange(labels[position], 1) == 1)
      return AtField(
          Invalid("positions[", i, "] is ", position, ", which is there already; each is named once"), where);
  }
  return labels;
}

absl::StatusOr<TokenInput> InputReader::Encode(std::string_view text, std::optional<std::string_view> pair,
                                               const EncodeOptions& options) const {
  const Time begin = clock_->Now();
  ASSIGN_OR_RETURN(Encoding encoding, model_->tokenizer()->Encode(text, pair, options));
  metrics_->Tokenized(clock_->Now() - begin);
  if (!HasContent(encoding.offsets)) return Error(ErrorReason::kInputEmpty, "the text gives no tokens");
  RETURN_IF_ERROR(CheckLength(static_cast<int64_t>(encoding.ids.size())));
  return TokenInput{.ids = std::move(encoding.ids), .offsets = std::move(encoding.offsets)};
}

absl::Status InputReader::CheckText(std::string_view text) const {
  const int64_t bytes = static_cast<int64_t>(text.size());
  if (bytes > text_bytes_)
    return Beyond(Error(ErrorReason::kTextTooLarge, "the text has ", bytes, " bytes, at most ", text_bytes_,
                        " are read"),
                  bytes, text_bytes_);
  if (Blank(text)) return Error(ErrorReason::kInputEmpty, "the text is empty or white space");
  return absl::OkStatus();
}

absl::Status InputReader::CheckLength(int64_t tokens) const {
  if (tokens <= longest_) return absl::OkStatus();
  return Beyond(Error(ErrorReason::kInputTooLong, "the input has ", tokens, " tokens, '", model_->spec.name,
                      "' reads at most ", longest_),
                tokens, longest_);
}

absl::Status InputReader::NotRead(const v1::Input& input) const {
  return Error(ErrorReason::kInputKindUnsupported, "'", model_->spec.name, "' does not read ", KindOf(input),
               ", it reads ", absl::StrJoin(KindsOf(*model_), ", ", [](std::string* out, v1::InputKind kind) {
                 *out += v1::Input::descriptor()->FindFieldByNumber(kind)->name();
               }));
}

}  // namespace heed
