// Models of SentencePiece as bytes, for tests: what its trainer would write.
#ifndef HEED_TESTS_ENGINE_TEXT_SENTENCEPIECE_BYTES_H_
#define HEED_TESTS_ENGINE_TEXT_SENTENCEPIECE_BYTES_H_

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed {

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

inline std::string NumberField(int number, uint64_t value) { return Varint(number << 3) + Varint(value); }

inline std::string BytesField(int number, std::string_view value) {
  return Varint(number << 3 | 2) + Varint(value.size()) + std::string(value);
}

inline std::string FloatField(int number, float value) {
  std::string bytes = Varint(number << 3 | 5);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> 8 * i));
  return bytes;
}

// Types: 1 normal, 2 unknown, 3 control, 4 the user's, 5 unused, 6 a byte.
inline std::string PieceField(std::string_view text, float score, int type = 1) {
  return BytesField(1, BytesField(1, text) + FloatField(2, score) + NumberField(3, type));
}

// model_type: 1 Unigram, 2 BPE.
inline std::string TrainerField(int model_type, std::string_view more = "") {
  return BytesField(2, NumberField(3, model_type) + std::string(more));
}

inline std::string NormalizerField(bool add_dummy_prefix, bool remove_extra_whitespaces) {
  return BytesField(3, NumberField(3, add_dummy_prefix) + NumberField(4, remove_extra_whitespaces));
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_TEXT_SENTENCEPIECE_BYTES_H_
