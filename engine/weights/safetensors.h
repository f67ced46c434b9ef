// The safetensors format: 8 bytes of header length N (little endian), N bytes of JSON that says of each
// tensor its dtype, shape and [begin, end) in the data, then the data. Nothing of it is trusted: every tensor
// lies inside the file, has exactly the bytes its shape needs, none overlap, and together they fill the data
// without a hole.
#ifndef HEED_ENGINE_WEIGHTS_SAFETENSORS_H_
#define HEED_ENGINE_WEIGHTS_SAFETENSORS_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tensor/tensor.h"

namespace heed {

// Where a tensor lies in its file: anywhere, unaligned too.
struct StoredTensor {
  Tensor form;  // without numbers
  int64_t begin = 0;
  int64_t bytes = 0;
};

// The first kHeadStart bytes of a file of `size` bytes, or all if it has fewer, say how many its head has.
inline constexpr int64_t kHeadStart = 8;
absl::StatusOr<int64_t> HeadBytes(std::string_view start, int64_t size, std::string_view what);
// The tensors of a file of `size` bytes with this head. Messages begin with `what`, the file's name.
absl::StatusOr<std::map<std::string, StoredTensor>> ParseSafetensors(std::string_view head, int64_t size,
                                                                     std::string_view what);

}  // namespace heed

#endif  // HEED_ENGINE_WEIGHTS_SAFETENSORS_H_
