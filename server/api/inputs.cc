#include "server/api/inputs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "engine/models/patches.h"
#include "server/api/chat_inputs.h"
#include "server/api/table_inputs.h"
#include "server/error.h"

namespace heed {
namespace {

bool Blank(std::string_view text) { return text.find_first_not_of(" \t\n\v\f\r") == text.npos; }

// Whether any token comes from the text, and not from the tokenizer's special tokens alone.
bool HasContent(const Offsets& offsets) {
  return std::any_of(offsets.begin(), offsets.end(),
                     [](const auto& offset) { return offset.first < offset.second; });
}

// A row that names few columns takes room for all of them.
constexpr int64_t kMostCells = 1 << 24;

absl::Status CheckCells(int64_t rows, const InputRow& row) {
  const int64_t columns = row.ids + row.numbers;
  if (rows <= kMostCells / columns) return absl::OkStatus();
  return Beyond(Error(ErrorReason::kInputTooLong, "the table has ", rows, " rows of ", columns, " columns, ",
                      kMostCells, " cells are read at most"),
                rows * columns, kMostCells);
}

absl::Status CheckFinite(const google::protobuf::RepeatedField<float>& values) {
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return absl::OkStatus();
  return Invalid("values[", bad - values.begin(), "] is ", *bad, ", which is not finite");
}

}  // namespace

int64_t MaxTokens(const ModelInfo& info, const config::v1::LimitsConfig& limits) {
  return info.max_tokens > 0 ? std::min(info.max_tokens, limits.tokens()) : limits.tokens();
}

int64_t MaxInputTokens(const ModelInfo& info, const config::v1::LimitsConfig& limits) {
  if (info.architecture != Architecture::kEncoderDecoder) return MaxTokens(info, limits);
  return info.max_source_tokens > 0 ? std::min(info.max_source_tokens, limits.tokens()) : limits.tokens();
}

bool Draws(const ServedModel& model) {
  const ModelInfo& info = model.info();
  return info.drawn.height > 0 && (info.start_row || model.tokenizer() == nullptr);
}

absl::Status BeginImage(const ServedModel& model, JobInput* input) {
  if (!Draws(model)) return absl::OkStatus();
  const DrawnImage& drawn = model.info().drawn;
  std::vector<int32_t>& ids = input->ids;
  input->drawn = true;
  input->start_put = drawn.start >= 0 && (ids.empty() || ids[0] < drawn.levels);
  for (int64_t i = input->start_put ? 0 : drawn.front(); i < std::ssize(ids); ++i) {
    if (ids[i] >= drawn.levels)
      return Invalid("token ", i, " is ", ids[i], ", a pixel is 0 to ", drawn.levels - 1);
  }
  if (input->start_put) ids.insert(ids.begin(), drawn.start);
  return absl::OkStatus();
}

std::string KindOf(const v1::Input& input) {
  return v1::Input::descriptor()->FindFieldByNumber(input.kind_case())->name();
}

absl::Status CheckTextBytes(int64_t bytes, int64_t most) {
  if (bytes <= most) return absl::OkStatus();
  return Beyond(
      Error(ErrorReason::kTextTooLarge, "the text has ", bytes, " bytes, at most ", most, " are read"), bytes,
      most);
}

absl::Status CheckText(std::string_view text, int64_t most) {
  RETURN_IF_ERROR(CheckTextBytes(std::ssize(text), most));
  if (Blank(text)) return Error(ErrorReason::kInputEmpty, "the text is empty or white space");
  return absl::OkStatus();
}

std::vector<v1::InputKind> KindsOf(const ServedModel& model) {
  switch (model.info().input.kind) {
    case InputRow::Kind::kPatch:
      return {v1::INPUT_KIND_IMAGE};
    case InputRow::Kind::kVector:
      return {v1::INPUT_KIND_VECTORS};
    case InputRow::Kind::kTableRow:
      if (model.info().schema.empty()) return {};
      return {v1::INPUT_KIND_ROW, v1::INPUT_KIND_TABLE};
    case InputRow::Kind::kToken:
      break;
  }
  if (model.tokenizer() == nullptr) return {v1::INPUT_KIND_TOKENS};
  std::vector<v1::InputKind> kinds = {v1::INPUT_KIND_TEXT, v1::INPUT_KIND_TOKENS};
  if (model.tokenizer()->Encode("a", "b", {}).ok()) kinds.push_back(v1::INPUT_KIND_PAIR);
  if (model.chat_template() != nullptr) kinds.push_back(v1::INPUT_KIND_CHAT);
  return kinds;
}

InputReader::InputReader(const ServedModel* model, const ApiContext& api, const v1::TextOptions& options,
                         int64_t longest)
    : model_(model),
      metrics_(api.metrics->Of(*model)),
      clock_(&api.edge->clock()),
      memory_(api.answer_memory),
      text_bytes_(api.limits().text_bytes()),
      longest_(longest),
      options_{.add_special_tokens = !options.without_special_tokens(),
               .max_length = options.truncate() ? longest : 0} {}

absl::StatusOr<ReadInput> InputReader::Read(const v1::Input& input, const std::string& where) const {
  ASSIGN_OR_RETURN(ReadInput read, ReadIds(input, where, options_));
  if (model_->info().global_input.read || input.has_global_input())
    RETURN_IF_ERROR(ReadGlobalInput(input.global_input(), where + ".global_input", read));
  if (!input.has_global_tokens()) return read;
  ASSIGN_OR_RETURN(read.labels,
                   ReadGlobalTokens(input.global_tokens(), std::ssize(read.ids), where + ".global_tokens"));
  return read;
}

absl::StatusOr<ReadInput> InputReader::ReadContinuation(const v1::Input& input,
                                                        const std::string& where) const {
  if (input.has_global_tokens()) {
    return AtField(Invalid("a continuation has no global tokens: they are of what an encoder reads"),
                   where + ".global_tokens");
  }
  if (input.has_global_input()) {
    return AtField(Invalid("a continuation has no global input: it is of what an encoder reads"),
                   where + ".global_input");
  }
  if (input.has_chat()) {
    return AtField(Invalid("a continuation is no conversation: it is text or tokens, as they are"),
                   where + ".chat");
  }
  if (!input.tokens().types().empty())
    return AtField(Invalid("a continuation's tokens have no types: all are 0"), where + ".tokens.types");
  return ReadIds(input, where, {.add_special_tokens = false});
}

absl::StatusOr<ReadInput> InputReader::ReadIds(const v1::Input& input, const std::string& where,
                                               const EncodeOptions& options) const {
  switch (input.kind_case()) {
    case v1::Input::kText:
      return ReadText(input, where + ".text", options);
    case v1::Input::kTokens:
      if (model_->info().input.kind != InputRow::Kind::kToken)
        return AtField(NotRead(input), where + ".tokens");
      return ReadTokens(input.tokens(), where + ".tokens", options);
    case v1::Input::kPair:
      if (model_->tokenizer() == nullptr) return AtField(NotRead(input), where + ".pair");
      return ReadPair({.first = input.pair().first(),
                       .second = input.pair().second(),
                       .first_field = where + ".pair.first",
                       .second_field = where + ".pair.second",
                       .field = where + ".pair"},
                      options);
    case v1::Input::kChat:
      if (model_->chat_template() == nullptr) return AtField(NotRead(input), where + ".chat");
      return ReadChat(input.chat(), where + ".chat");
    case v1::Input::KIND_NOT_SET:
      return AtField(Error(ErrorReason::kInputEmpty,
                           "the input is empty: it is neither text nor tokens nor of any other kind"),
                     where);
    default:
      return ReadNumbers(input, Cat(where, ".", KindOf(input)));
  }
}

absl::StatusOr<ReadInput> InputReader::ReadNumbers(const v1::Input& input, const std::string& where) const {
  if (!Reads(static_cast<v1::InputKind>(input.kind_case()))) return AtField(NotRead(input), where);
  if (input.has_vectors()) return ReadVectors(input.vectors(), where);
  if (input.has_row()) return ReadRow(input.row(), where);
  if (input.has_table()) return ReadTable(input.table(), where);
  return ReadImage(input.image(), where);
}

absl::StatusOr<ReadInput> InputReader::ReadVectors(const v1::Vectors& vectors,
                                                   const std::string& where) const {
  const int64_t size = model_->info().input.numbers, values = vectors.values_size();
  if (vectors.size() != size)
    return AtField(Invalid("size is ", vectors.size(), ", '", model_->spec.name, "' reads vectors of ", size),
                   where);
  if (values == 0) return AtField(Error(ErrorReason::kInputEmpty, "there are no values"), where);
  if (values % size != 0)
    return AtField(Invalid("there are ", values, " values, no multiple of size ", size), where);
  RETURN_IF_ERROR(AtField(CheckRows(values / size, "vectors"), where));
  RETURN_IF_ERROR(AtField(CheckFinite(vectors.values()), where));
  return ReadInput{.numbers = {vectors.values().begin(), vectors.values().end()}};
}

absl::StatusOr<ReadInput> InputReader::ReadImage(const v1::Image& image, const std::string& where) const {
  if (image.has_pixels()) return ReadPixels(image.pixels(), where + ".pixels");
  if (image.has_encoded()) {
    auto read = ReadFile(image.encoded());
    return read.ok() ? std::move(read) : AtField(read.status(), where + ".encoded");
  }
  return AtField(Error(ErrorReason::kInputEmpty, "the image has no content"), where);
}

absl::StatusOr<ReadInput> InputReader::ReadFile(const std::string& file) const {
  if (file.empty()) return Error(ErrorReason::kInputEmpty, "the file has no bytes");
  if (model_->preprocessing() == nullptr)
    return Invalid("'", model_->spec.name,
                   "' takes pixels only: its preprocessor_config.json, which says how files "
                   "become pixels, is missing");
  ASSIGN_OR_RETURN(const ByteImage decoded, model_->preprocessing()->Decode(file));
  RETURN_IF_ERROR(PatchesOf(decoded.height, decoded.width).status());
  const auto held = std::make_shared<ReservedAnswer>(memory_);
  // Its job's, and a pass's.
  RETURN_IF_ERROR(held->AddImage(2 * std::ssize(decoded.values) * static_cast<int64_t>(sizeof(float))));
  const FloatImage image = model_->preprocessing()->Normalized(decoded);
  const ImageInput& read = model_->info().image;
  return ReadInput{
      .numbers = Patches(image.values, read.channels, image.height, image.width, read.patch_size),
      .columns = image.width / read.patch_size,
      .image = held};
}

absl::StatusOr<int64_t> InputReader::PatchesOf(int64_t height, int64_t width) const {
  const ImageInput& image = model_->info().image;
  const int64_t patch = image.patch_size;
  if (image.fixed && (height != image.height || width != image.width))
    return Invalid("the image has height ", height, " and width ", width, ", '", model_->spec.name,
                   "' reads images of ", image.height, " by ", image.width);
  if (height < 1 || width < 1 || height % patch != 0 || width % patch != 0)
    return Invalid("the image has height ", height, " and width ", width, ", which must be multiples of ",
                   patch);
  const int64_t patches = height / patch * (width / patch);
  RETURN_IF_ERROR(CheckRows(patches, "patches"));
  return patches;
}

absl::StatusOr<ReadInput> InputReader::ReadPixels(const v1::Pixels& pixels, const std::string& where) const {
  const ImageInput& image = model_->info().image;
  if (pixels.channels() != image.channels)
    return AtField(Invalid("channels is ", pixels.channels(), ", '", model_->spec.name, "' reads images of ",
                           image.channels),
                   where);
  const absl::StatusOr<int64_t> patches = PatchesOf(pixels.height(), pixels.width());
  if (!patches.ok()) return AtField(patches.status(), where);
  const int64_t numbers = *patches * model_->info().input.numbers;
  if (pixels.values_size() != numbers)
    return AtField(
        Invalid("there are ", pixels.values_size(), " values, channels * height * width is ", numbers),
        where);
  RETURN_IF_ERROR(AtField(CheckFinite(pixels.values()), where));
  const std::span values(pixels.values().data(), pixels.values_size());
  return ReadInput{
      .numbers = Patches(values, image.channels, pixels.height(), pixels.width(), image.patch_size),
      .columns = pixels.width() / image.patch_size};
}

absl::StatusOr<ReadInput> InputReader::ReadRow(const v1::Row& row, const std::string& where) const {
  TableCells cells;
  RETURN_IF_ERROR(AppendRow(row, model_->info().schema, where, &cells));
  return ReadInput{.ids = std::move(cells.ids), .numbers = std::move(cells.numbers)};
}

absl::StatusOr<ReadInput> InputReader::ReadTable(const v1::Table& table, const std::string& where) const {
  if (table.rows().empty()) return AtField(Error(ErrorReason::kInputEmpty, "the table has no rows"), where);
  RETURN_IF_ERROR(AtField(CheckRows(table.rows_size(), "rows"), where));
  RETURN_IF_ERROR(AtField(CheckCells(table.rows_size(), model_->info().input), where));
  TableCells cells;
  for (int r = 0; r < table.rows_size(); ++r)
    RETURN_IF_ERROR(AppendRow(table.rows(r), model_->info().schema, Cat(where, ".rows[", r, "]"), &cells));
  return ReadInput{.ids = std::move(cells.ids), .numbers = std::move(cells.numbers)};
}

absl::StatusOr<ReadInput> InputReader::ReadText(const v1::Input& input, const std::string& where,
                                                const EncodeOptions& options) const {
  if (model_->tokenizer() == nullptr) return AtField(NotRead(input), where);
  if (absl::Status status = CheckText(input.text(), text_bytes_); !status.ok()) return AtField(status, where);
  auto read = prompt_.empty() ? Encode(input.text(), std::nullopt, options)
                              : Encode(prompt_ + input.text(), std::nullopt, options);
  return read.ok() ? std::move(read) : AtField(read.status(), where);
}

absl::StatusOr<ReadInput> InputReader::ReadPair(const NamedPair& pair) const {
  ASSIGN_OR_RETURN(ReadInput read, ReadPair(pair, options_));
  if (model_->info().global_input.read) RETURN_IF_ERROR(ReadGlobalInput({}, pair.field, read));
  return read;
}

absl::StatusOr<ReadInput> InputReader::ReadPair(const NamedPair& pair, const EncodeOptions& options) const {
  if (absl::Status status = CheckText(pair.first, text_bytes_); !status.ok())
    return AtField(status, pair.first_field);
  if (absl::Status status = CheckText(pair.second, text_bytes_); !status.ok())
    return AtField(status, pair.second_field);
  auto read = Encode(pair.first, pair.second, options);
  return read.ok() ? std::move(read) : AtField(read.status(), pair.field);
}

// By the model's own template, whose special tokens are those of the text: none is added.
absl::StatusOr<ReadInput> InputReader::ReadChat(const v1::Chat& chat, const std::string& where) const {
  ASSIGN_OR_RETURN(const std::string text, TextOf(chat, *model_->chat_template(), text_bytes_, where));
  if (absl::Status status = CheckText(text, text_bytes_); !status.ok()) return AtField(status, where);
  auto read = Encode(text, std::nullopt, {.add_special_tokens = false});
  return read.ok() ? std::move(read) : AtField(read.status(), where);
}

absl::StatusOr<ReadInput> InputReader::ReadTokens(const v1::Tokens& tokens, const std::string& where,
                                                  const EncodeOptions& options) const {
  int64_t count = tokens.ids_size();
  const bool begins = Draws(*model_) && model_->info().drawn.front() > 0;  // an image from its first pixel on
  if (count == 0 && !begins)
    return AtField(Error(ErrorReason::kInputEmpty, "the input has no tokens"), where);
  if (options.max_length > 0) count = std::min(count, options.max_length);
  if (absl::Status status = CheckLength(count); !status.ok()) return AtField(status, where);
  const int64_t vocabulary = model_->info().vocab_size;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t id = tokens.ids(static_cast<int>(i));
    if (id < 0 || id >= vocabulary)
      return AtField(Invalid("ids[", i, "] is ", id, ", ids are 0 to ", vocabulary - 1), where);
  }
  if (absl::Status status = CheckTypes(tokens); !status.ok()) return AtField(status, where + ".types");
  ReadInput read{.ids = {tokens.ids().begin(), tokens.ids().begin() + count}, .offsets = {}};
  if (!tokens.types().empty()) read.types.assign(tokens.types().begin(), tokens.types().begin() + count);
  return read;
}

absl::Status InputReader::CheckTypes(const v1::Tokens& tokens) const {
  const int64_t known = model_->info().type_vocab_size;
  const int count = tokens.types_size();
  if (count == 0) return absl::OkStatus();
  if (known == 0) return Invalid("'", model_->spec.name, "' knows no types of tokens");
  if (count != tokens.ids_size())
    return Invalid("there are ", count, " types for ", tokens.ids_size(), " ids, each has one");
  for (int i = 0; i < count; ++i) {
    if (tokens.types(i) < 0 || tokens.types(i) >= known)
      return Invalid("types[", i, "] is ", tokens.types(i), ", types are 0 to ", known - 1);
  }
  return absl::OkStatus();
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

// Completed with the model's own.
absl::Status InputReader::ReadGlobalInput(const v1::GlobalInput& given, const std::string& where,
                                          ReadInput& read) const {
  const GlobalInput& own = model_->info().global_input;
  if (!own.read) return AtField(Invalid("'", model_->spec.name, "' reads no global input"), where);
  if (absl::Status status = CheckGlobalIds(given); !status.ok()) return AtField(status, where + ".ids");
  const int64_t tokens = std::ssize(read.ids),
                globals = given.ids().empty() ? own.DefaultCount(tokens) : given.ids_size();
  if (absl::Status status = CheckMembership(given, globals, tokens); !status.ok())
    return AtField(status, where + ".membership");
  read.global_ids.assign(given.ids().begin(), given.ids().end());
  for (const int32_t member : given.membership()) read.labels.push_back(member + 1);
  CompleteGlobalInput(own, tokens, read.global_ids, read.labels);
  return absl::OkStatus();
}

absl::Status InputReader::CheckGlobalIds(const v1::GlobalInput& given) const {
  const ModelInfo& info = model_->info();
  const int64_t count = given.ids_size(),
                most = info.max_source_tokens > 0 ? std::min(info.max_source_tokens, longest_) : longest_;
  if (count == 0 && !info.global_input.has_default())
    return Invalid("'", model_->spec.name, "' has no global ids of its own: the input must give some");
  if (count > most) {
    return Beyond(Error(ErrorReason::kInputTooLong, "there are ", count, " global ids, '", model_->spec.name,
                        "' reads at most ", most),
                  count, most);
  }
  for (int i = 0; i < count; ++i) {
    if (given.ids(i) < 0 || given.ids(i) >= info.vocab_size)
      return Invalid("ids[", i, "] is ", given.ids(i), ", ids are 0 to ", info.vocab_size - 1);
  }
  return absl::OkStatus();
}

absl::Status InputReader::CheckMembership(const v1::GlobalInput& given, int64_t globals,
                                          int64_t tokens) const {
  const int64_t count = given.membership_size();
  if (count > 0 && count != tokens)
    return Invalid("there are ", count, " places for the input's ", tokens, " tokens, each has one");
  for (int i = 0; i < count; ++i) {
    const int32_t member = given.membership(i);
    if (member < -1 || member >= globals)
      return Invalid("membership[", i, "] is ", member, ", the global ids are 0 to ", globals - 1,
                     ", and -1 is none");
  }
  return absl::OkStatus();
}

absl::StatusOr<ReadInput> InputReader::Encode(std::string_view text, std::optional<std::string_view> pair,
                                              const EncodeOptions& options) const {
  const Time begin = clock_->Now();
  ASSIGN_OR_RETURN(Encoding encoding, model_->tokenizer()->Encode(text, pair, options));
  metrics_->Tokenized(clock_->Now() - begin);
  if (!HasContent(encoding.offsets)) return Error(ErrorReason::kInputEmpty, "the text gives no tokens");
  RETURN_IF_ERROR(CheckLength(static_cast<int64_t>(encoding.ids.size())));
  ReadInput read{.ids = std::move(encoding.ids),
                 .offsets = std::move(encoding.offsets),
                 .texts = std::move(encoding.texts)};
  // Where all tokens are of one type, it does not matter what the tokenizer says.
  if (model_->info().type_vocab_size > 1) read.types = std::move(encoding.type_ids);
  return read;
}

absl::Status InputReader::CheckLength(int64_t tokens) const { return CheckRows(tokens, "tokens"); }

absl::Status InputReader::CheckRows(int64_t rows, std::string_view what) const {
  if (rows <= longest_) return absl::OkStatus();
  return Beyond(Error(ErrorReason::kInputTooLong, "the input has ", rows, " ", what, ", '", model_->spec.name,
                      "' reads at most ", longest_),
                rows, longest_);
}

bool InputReader::Reads(v1::InputKind kind) const {
  const std::vector<v1::InputKind> kinds = KindsOf(*model_);
  return std::ranges::find(kinds, kind) != kinds.end();
}

absl::Status InputReader::NotRead(const v1::Input& input) const {
  return Error(ErrorReason::kInputKindUnsupported, "'", model_->spec.name, "' does not read ", KindOf(input),
               ", it reads ", absl::StrJoin(KindsOf(*model_), ", ", [](std::string* out, v1::InputKind kind) {
                 *out += v1::Input::descriptor()->FindFieldByNumber(kind)->name();
               }));
}

}  // namespace heed
