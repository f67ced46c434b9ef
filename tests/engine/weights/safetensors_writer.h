// Writes safetensors, for tests.
#ifndef HEED_TESTS_ENGINE_WEIGHTS_SAFETENSORS_WRITER_H_
#define HEED_TESTS_ENGINE_WEIGHTS_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json.h"
#include "engine/tensor/tensor.h"

namespace heed {

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;
};

template <typename T>
TensorToWrite ToWrite(std::string name, DType dtype, std::vector<int64_t> shape,
                      const std::vector<T>& numbers) {
  return {std::move(name), dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T))};
}

// A file of this header and this data, as they are: hostile ones too.
inline std::string SafetensorsOf(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file.append(header).append(data);
}

inline std::string SafetensorsOf(const std::vector<TensorToWrite>& tensors) {
  Json header = Json::object();
  std::string data;
  for (const TensorToWrite& tensor : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes;
    header[tensor.name] = {
        {"dtype", Name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return SafetensorsOf(text, data);
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_WEIGHTS_SAFETENSORS_WRITER_H_
