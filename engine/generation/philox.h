// Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): ten rounds that turn a
// counter and a key into four random words. There is no state: who knows the counter knows the number.
#ifndef HEED_ENGINE_GENERATION_PHILOX_H_
#define HEED_ENGINE_GENERATION_PHILOX_H_

#include <array>
#include <cstdint>

namespace heed {

inline std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * counter[0], b = uint64_t{0xcd9e8d57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9e3779b9, key[1] + 0xbb67ae85};
  }
  return counter;
}

}  // namespace heed

#endif  // HEED_ENGINE_GENERATION_PHILOX_H_
