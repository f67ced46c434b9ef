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

// The tensors of a whole file in memory; they point into it, wherever the file put them: data may be
// unaligned. Messages begin with `what`, the file's name.
absl::StatusOr<std::map<std::string, Tensor>> ParseSafetensors(std::string_view file, std::string_view what);

}  // namespace heed

#endif  // HEED_ENGINE_WEIGHTS_SAFETENSORS_H_
