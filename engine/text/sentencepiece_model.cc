// The numbers of the fields are those of sentencepiece_model.proto.
#include "engine/text/sentencepiece_model.h"

#include <cmath>
#include <unordered_set>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/text/protobuf_reader.h"
#include "engine/text/tokenizer.h"

namespace heed {
namespace {

constexpr int64_t kMaxPieces = 1 << 21;
constexpr size_t kMaxPieceBytes = 512;

absl::StatusOr<SentencePiece> ReadPiece(std::string_view bytes, const std::string& where) {
  ProtobufReader fields(bytes, where);
  SentencePiece piece;
  while (fields.Next()) {
    if (fields.number() == 1) piece.text = fields.Bytes("piece");
    if (fields.number() == 2) piece.score = fields.Float("score");
    if (fields.number() == 3) {
      piece.type =
          static_cast<SentencePiece::Type>(fields.Int("type", SentencePiece::kNormal, SentencePiece::kByte));
    }
  }
  RETURN_IF_ERROR(fields.status());
  if (piece.text.empty()) return Invalid(where, ": piece is missing or empty");
  if (piece.text.size() > kMaxPieceBytes) {
    return Invalid(where, ": piece: ", piece.text.size(), " bytes are above ", kMaxPieceBytes);
  }
  if (!ValidUtf8(piece.text)) return Invalid(where, ": piece is not valid UTF-8");
  if (!std::isfinite(piece.score)) return Invalid(where, ": score is not a finite number");
  return piece;
}

absl::Status ReadTrainerSpec(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  ProtobufReader fields(bytes, where);
  while (fields.Next()) {
    if (fields.number() == 3) {
      const int64_t type = fields.Int("model_type", 1, 4);
      if (type > SentencePieceModel::kBpe) {
        return Invalid(where, ": model_type: ", type, " is neither 1 (Unigram) nor 2 (BPE)");
      }
      model.type = static_cast<SentencePieceModel::Type>(type);
    }
    if (fields.number() == 24 && fields.Bool("treat_whitespace_as_suffix")) {
      return Invalid(where, ": treat_whitespace_as_suffix is true, which Heed does not read");
    }
    if (fields.number() == 35) model.byte_fallback = fields.Bool("byte_fallback");
    if (fields.number() == 44) model.unknown_surface = fields.Bytes("unk_surface");
  }
  RETURN_IF_ERROR(fields.status());
  if (!ValidUtf8(model.unknown_surface)) return Invalid(where, ": unk_surface is not valid UTF-8");
  return absl::OkStatus();
}

absl::Status ReadNormalizerSpec(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  ProtobufReader fields(bytes, where);
  while (fields.Next()) {
    if (fields.number() == 2) model.charsmap = fields.Bytes("precompiled_charsmap");
    if (fields.number() == 3) model.add_dummy_prefix = fields.Bool("add_dummy_prefix");
    if (fields.number() == 4) model.remove_extra_whitespaces = fields.Bool("remove_extra_whitespaces");
    if (fields.number() == 5 && !fields.Bool("escape_whitespaces") && fields.status().ok()) {
      return Invalid(where, ": escape_whitespaces is false, which Heed does not read");
    }
  }
  return fields.status();
}

// All pieces differ, and exactly one is the unknown one.
absl::Status CheckPieces(const std::string& file, SentencePieceModel& model) {
  std::unordered_set<std::string_view> seen;
  int64_t unknown = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (!seen.insert(piece.text).second) {
      return Invalid(file, ": pieces[", id, "]: ", Shown(piece.text), " appears twice");
    }
    if (piece.type != SentencePiece::kUnknown) continue;
    model.unknown_id = static_cast<int32_t>(id);
    ++unknown;
  }
  if (unknown == 1) return absl::OkStatus();
  return Invalid(file, ": ", unknown, " of ", model.pieces.size(), " pieces are unknown pieces, must be one");
}

}  // namespace

absl::StatusOr<SentencePieceModel> ReadSentencePieceModel(std::string_view bytes, const std::string& file) {
  ProtobufReader fields(bytes, file);
  SentencePieceModel model;
  while (fields.Next()) {
    if (fields.number() == 1) {
      const int64_t id = std::ssize(model.pieces);
      if (id == kMaxPieces) return Invalid(file, ": more than ", kMaxPieces, " pieces");
      ASSIGN_OR_RETURN(SentencePiece piece,
                       ReadPiece(fields.Bytes("pieces"), Cat(file, ": pieces[", id, "]")));
      model.pieces.push_back(std::move(piece));
    }
    if (fields.number() == 2)
      RETURN_IF_ERROR(ReadTrainerSpec(fields.Bytes("trainer_spec"), file + ": trainer_spec", model));
    if (fields.number() == 3)
      RETURN_IF_ERROR(ReadNormalizerSpec(fields.Bytes("normalizer_spec"), file + ": normalizer_spec", model));
  }
  RETURN_IF_ERROR(fields.status());
  RETURN_IF_ERROR(CheckPieces(file, model));
  return model;
}

}  // namespace heed
