#include "server/api/tokenize.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"
#include "server/api/answer_bytes.h"
#include "server/api/chat_inputs.h"
#include "server/api/inputs.h"
#include "server/api/one_by_one.h"
#include "server/error.h"

namespace heed {
namespace {

v1::TokenOrigin OriginOf(int8_t text) {
  if (text == kNoText) return v1::TOKEN_ORIGIN_ADDED;
  return text == 0 ? v1::TOKEN_ORIGIN_TEXT : v1::TOKEN_ORIGIN_SECOND;
}

class TokenizeInputs final : public OneByOne<v1::TokenizeRequest, v1::TokenizeResponse> {
 public:
  TokenizeInputs(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model)
      : OneByOne(api, std::move(call), model),
        metrics_(api.metrics->Of(*model)),
        text_bytes_(api.limits().text_bytes()),
        options_{.add_special_tokens = !request().text().without_special_tokens(),
                 .max_length = MaxLength(api.limits())} {}

 private:
  // The shorter of what is asked for and, with truncate, what the model reads; 0: nothing is cut.
  int64_t MaxLength(const config::v1::LimitsConfig& limits) const {
    const int64_t asked = request().options().max_tokens();
    if (!request().text().truncate()) return asked;
    const int64_t longest = MaxInputTokens(model().info(), limits);
    return asked == 0 ? longest : std::min(asked, longest);
  }

  absl::StatusOr<v1::Tokenized> Answer(int i) override {
    const v1::Input& input = request().inputs(i);
    const std::string where = Cat("inputs[", i, "]");
    v1::Tokenized answer;
    if (input.has_chat()) {
      ASSIGN_OR_RETURN(*answer.mutable_text(), TextOfChat(input, where + ".chat"));
    }
    ASSIGN_OR_RETURN(const Encoding encoding, Encode(input, answer.text(), where));
    RETURN_IF_ERROR(
        Reserve(TokenizedBytes(std::ssize(encoding.ids), PieceBytes(encoding), std::ssize(answer.text()))));
    call().record().Add({.tokens_read = std::ssize(encoding.ids)});
    answer.mutable_tokens()->mutable_ids()->Add(encoding.ids.begin(), encoding.ids.end());
    if (model().info().type_vocab_size > 1)
      answer.mutable_tokens()->mutable_types()->Add(encoding.type_ids.begin(), encoding.type_ids.end());
    if (request().options().pieces()) AddPieces(encoding, &answer);
    return answer;
  }

  absl::StatusOr<std::string> TextOfChat(const v1::Input& input, const std::string& where) const {
    if (model().chat_template() == nullptr) return AtField(NotRead(input), where);
    return TextOf(input.chat(), *model().chat_template(), text_bytes_, where);
  }

  absl::Status NotRead(const v1::Input& input) const {
    return Error(ErrorReason::kInputKindUnsupported, "Tokenize does not read ", KindOf(input),
                 ", it reads text, pair", model().chat_template() == nullptr ? "" : ", chat");
  }

  // `chat`: the text of a conversation, whose special tokens stand in it.
  absl::StatusOr<Encoding> Encode(const v1::Input& input, std::string_view chat,
                                  const std::string& where) const {
    switch (input.kind_case()) {
      case v1::Input::kText:
        if (absl::Status status = CheckTextBytes(std::ssize(input.text()), text_bytes_); !status.ok())
          return AtField(status, where + ".text");
        return Encode(input.text(), std::nullopt, options_, where + ".text");
      case v1::Input::kPair:
        if (absl::Status status = CheckTextBytes(std::ssize(input.pair().first()), text_bytes_); !status.ok())
          return AtField(status, where + ".pair.first");
        if (absl::Status status = CheckTextBytes(std::ssize(input.pair().second()), text_bytes_);
            !status.ok())
          return AtField(status, where + ".pair.second");
        return Encode(input.pair().first(), input.pair().second(), options_, where + ".pair");
      case v1::Input::kChat:
        return Encode(chat, std::nullopt,
                      {.add_special_tokens = false, .max_length = int64_t{request().options().max_tokens()}},
                      where + ".chat");
      case v1::Input::KIND_NOT_SET:
        return AtField(Error(ErrorReason::kInputEmpty, "the input is empty: it is neither text nor pair"),
                       where);
      default:
        return AtField(NotRead(input), Cat(where, ".", KindOf(input)));
    }
  }

  absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options, const std::string& where) const {
    const Time begin = edge().clock().Now();
    auto encoding = model().tokenizer()->Encode(text, pair, options);
    if (!encoding.ok()) return AtField(encoding.status(), where);
    metrics_->Tokenized(edge().clock().Now() - begin);
    return encoding;
  }

  // Of all texts that tell what the tokens are, if that is asked for.
  std::optional<int64_t> PieceBytes(const Encoding& encoding) const {
    if (!request().options().pieces()) return std::nullopt;
    int64_t bytes = 0;
    for (const int32_t id : encoding.ids)
      bytes +=
          std::ssize(model().tokenizer()->Spelling(id)) + std::ssize(model().tokenizer()->TokenBytes(id));
    return bytes;
  }

  void AddPieces(const Encoding& encoding, v1::Tokenized* answer) const {
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      v1::TokenPiece* piece = answer->add_pieces();
      piece->set_spelling(ReplaceInvalidUtf8(model().tokenizer()->Spelling(encoding.ids[i])));
      piece->set_bytes(model().tokenizer()->TokenBytes(encoding.ids[i]));
      piece->set_begin(encoding.offsets[i].first);
      piece->set_end(encoding.offsets[i].second);
      piece->set_origin(OriginOf(encoding.texts[i]));
    }
  }

  ModelMetrics* const metrics_;
  const int64_t text_bytes_;
  const EncodeOptions options_;
};

class DetokenizeInputs final : public OneByOne<v1::DetokenizeRequest, v1::DetokenizeResponse> {
 public:
  DetokenizeInputs(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model)
      : OneByOne(api, std::move(call), model), most_(api.limits().text_bytes()) {}

 private:
  absl::StatusOr<v1::Detokenized> Answer(int i) override {
    const std::vector<int32_t> ids(request().inputs(i).ids().begin(), request().inputs(i).ids().end());
    if (absl::Status status = CheckIds(ids); !status.ok()) return AtField(status, Cat("inputs[", i, "]"));
    int64_t spelled = 0;
    for (const int32_t id : ids) spelled += std::ssize(model().tokenizer()->Spelling(id));
    RETURN_IF_ERROR(Reserve(DetokenizedBytes(std::ssize(ids), spelled)));
    call().record().Add({.tokens_read = std::ssize(ids)});
    v1::Detokenized answer;
    answer.set_text(model().tokenizer()->Decode(ids, request().options().skip_special_tokens()));
    return answer;
  }

  absl::Status CheckIds(const std::vector<int32_t>& ids) const {
    const int64_t vocabulary = model().info().vocab_size, count = std::ssize(ids);
    if (count > most_) {
      return Beyond(
          Error(ErrorReason::kInputTooLong, "there are ", count, " ids, at most ", most_, " are read"), count,
          most_);
    }
    for (int64_t i = 0; i < count; ++i) {
      if (ids[i] < 0 || ids[i] >= vocabulary)
        return Invalid("ids[", i, "] is ", ids[i], ", ids are 0 to ", vocabulary - 1);
    }
    return absl::OkStatus();
  }

  const int64_t most_;  // ids of an input
};

}  // namespace

absl::Status Tokenize(const ApiContext& api, std::shared_ptr<TokenizeCall> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, ModelFor("Tokenize", api, *call));
  if (const int32_t most = call->request().options().max_tokens(); most < 0)
    return AtField(Invalid("the value is ", most, ", it must be at least 0"), "options.max_tokens");
  std::make_shared<TokenizeInputs>(api, std::move(call), model)->Begin();
  return absl::OkStatus();
}

absl::Status Detokenize(const ApiContext& api, std::shared_ptr<DetokenizeCall> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, ModelFor("Detokenize", api, *call));
  std::make_shared<DetokenizeInputs>(api, std::move(call), model)->Begin();
  return absl::OkStatus();
}

}  // namespace heed
