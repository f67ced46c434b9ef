#include "engine/weights/safetensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/json.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr uint64_t kMaxHeader =
    16 << 20;  // 65,536 tensors of 256 bytes each; the reference reads up to 100,000,000
constexpr size_t kMaxTensors = 65'536;
constexpr size_t kMaxRank = 8;
constexpr int kMaxDepth = 4;
constexpr uint64_t kMaxNumber = uint64_t{1} << 53;  // beyond it JSON readers differ

absl::Status CheckMetadata(const Json& metadata, std::string_view what) {
  if (!metadata.is_object()) return Invalid(what, ": __metadata__ is not an object");
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) return Invalid(what, ": __metadata__: ", Shown(key), " is not a string");
  }
  return absl::OkStatus();
}

DType ReadDType(JsonFields& fields) {
  const std::string name = fields.String("dtype", "");
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBf16, DType::kF16, DType::kI64, DType::kI32,
                      DType::kS8, DType::kU8, DType::kBool}) {
    if (name == Name(dtype)) return dtype;
  }
  fields.Fail(Cat("dtype ", Shown(name), " is none that Heed reads"));
  return DType::kF32;
}

std::vector<int64_t> ReadNumbers(JsonFields& fields, std::string_view key, size_t min_count,
                                 size_t max_count) {
  const Json& list = fields.Raw(key);
  if (!list.is_array() || list.size() < min_count || list.size() > max_count) {
    fields.Fail(Cat(key, " is not a list of ", min_count, " to ", max_count, " numbers"));
    return std::vector<int64_t>(min_count);
  }
  std::vector<int64_t> numbers(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_number_unsigned() && list[i].get<uint64_t>() <= kMaxNumber) {
      numbers[i] = list[i].get<int64_t>();
    } else {
      fields.Fail(Cat(key, ": ", Shown(list[i]), " is not a whole number from 0 to 2^53"));
    }
  }
  return numbers;
}

// Bytes of the tensor's numbers; -1 beyond what 63 bits count.
int64_t BytesOf(const Tensor& tensor) {
  int64_t bytes = SizeOf(tensor.dtype);
  bool empty = false, overflow = false;
  for (int64_t dim : tensor.shape) {
    empty |= dim == 0;
    overflow |= __builtin_mul_overflow(bytes, dim == 0 ? 1 : dim, &bytes);
  }
  if (overflow) return -1;  // also where another dimension is 0: nobody made such a tensor
  return empty ? 0 : bytes;
}

struct Place {
  std::string name;
  Tensor tensor;
  int64_t begin = 0;  // in the data
  int64_t end = 0;
};

absl::StatusOr<Place> ReadPlace(const std::string& name, const Json& entry, int64_t data_bytes,
                                std::string_view what) {
  JsonFields fields(entry, Cat(what, ": tensor ", Shown(name)));
  Place place{name};
  place.tensor.dtype = ReadDType(fields);
  place.tensor.shape = ReadNumbers(fields, "shape", 0, kMaxRank);
  const std::vector<int64_t> offsets = ReadNumbers(fields, "data_offsets", 2, 2);
  RETURN_IF_ERROR(fields.Finish());
  place.begin = offsets[0];
  place.end = offsets[1];
  const int64_t bytes = BytesOf(place.tensor);
  const std::string wanted = Cat(Name(place.tensor.dtype), " ", ShapeText(place.tensor.shape));
  if (place.begin > place.end) {
    fields.Fail(Cat("data_offsets: ", place.begin, " is beyond ", place.end));
  } else if (place.end > data_bytes) {
    fields.Fail(Cat("ends at byte ", place.end, " of data that has ", data_bytes));
  } else if (bytes < 0) {
    fields.Fail(Cat(wanted, " has more bytes than 63 bits count"));
  } else if (place.end - place.begin != bytes) {
    fields.Fail(Cat(wanted, " needs ", bytes, " bytes, not ", place.end - place.begin));
  }
  RETURN_IF_ERROR(fields.Finish());
  return place;
}

// One after another from the first byte to the last.
absl::Status CheckFilled(std::vector<Place>& places, int64_t size, std::string_view what) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t filled = 0;
  for (const Place& place : places) {
    if (place.begin != filled) {
      return Invalid(what, ": tensor ", Shown(place.name), " begins at byte ", place.begin,
                     " of the data, the one before it ends at ", filled);
    }
    filled = place.end;
  }
  if (filled != size) return Invalid(what, ": the data has ", size, " bytes, its tensors end at ", filled);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> HeadBytes(std::string_view start, int64_t size, std::string_view what) {
  uint64_t length = 0;
  if (size < kHeadStart) return Invalid(what, ": ", size, " bytes are no safetensors file");
  std::memcpy(&length, start.data(), sizeof(length));
  if (length > kMaxHeader) return Invalid(what, ": a header of ", length, " bytes is above ", kMaxHeader);
  const auto header = static_cast<int64_t>(length);
  if (header > size - kHeadStart) {
    return Invalid(what, ": a header of ", header, " bytes in a file that has ", size - kHeadStart,
                   " after its length");
  }
  return kHeadStart + header;
}

absl::StatusOr<std::map<std::string, StoredTensor>> ParseSafetensors(std::string_view head, int64_t size,
                                                                     std::string_view what) {
  const int64_t data = size - std::ssize(head);
  if (!head.substr(kHeadStart).starts_with('{')) return Invalid(what, ": the header does not start with '{'");
  ASSIGN_OR_RETURN(const Json header, ParseJson(head.substr(kHeadStart), what, kMaxDepth));
  std::vector<Place> places;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      RETURN_IF_ERROR(CheckMetadata(entry, what));
      continue;
    }
    if (places.size() == kMaxTensors) return Invalid(what, ": more than ", kMaxTensors, " tensors");
    ASSIGN_OR_RETURN(Place place, ReadPlace(name, entry, data, what));
    places.push_back(std::move(place));
  }
  RETURN_IF_ERROR(CheckFilled(places, data, what));
  std::map<std::string, StoredTensor> tensors;
  for (Place& place : places) {
    tensors[std::move(place.name)] = {std::move(place.tensor), std::ssize(head) + place.begin,
                                      place.end - place.begin};
  }
  return tensors;
}

}  // namespace heed
