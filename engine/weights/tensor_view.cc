#include "engine/weights/tensor_view.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostPlaces = 1 << 24;  // of a grid

// Numbers of one type, to be written.
struct Room {
  std::shared_ptr<Buffer> memory;
  Tensor tensor;
};

Room NewRoom(DType dtype, std::vector<int64_t> shape) {
  Tensor tensor{dtype, std::move(shape)};
  auto memory = std::make_shared<Buffer>(std::max<int64_t>(tensor.size() * SizeOf(dtype), 1));
  tensor.data = memory->as<char>();
  tensor.memory = memory;
  return {std::move(memory), std::move(tensor)};
}

int64_t RowBytes(const Tensor& tensor) {
  return tensor.dim(0) == 0 ? 0 : tensor.size() / tensor.dim(0) * SizeOf(tensor.dtype);
}

const char* RowOf(const Tensor& tensor, int64_t row) {
  return static_cast<const char*>(tensor.data) + row * RowBytes(tensor);
}

absl::StatusOr<Tensor> CutRows(const Tensor& tensor, int64_t begin, int64_t count) {
  if (tensor.rank() == 0 || begin < 0 || count < 0 || begin + count > tensor.dim(0))
    return Invalid("shape ", ShapeText(tensor.shape), " has no rows ", begin, " .. ", begin + count - 1);
  Tensor cut = tensor;
  cut.shape[0] = count;
  cut.data = RowOf(tensor, begin);
  return cut;
}

absl::StatusOr<Tensor> Transpose(const Tensor& tensor) {
  if (tensor.rank() != 2) return Invalid("shape ", ShapeText(tensor.shape), " is no matrix");
  const int64_t rows = tensor.dim(0), columns = tensor.dim(1), bytes = SizeOf(tensor.dtype);
  const Room room = NewRoom(tensor.dtype, {columns, rows});
  const auto* from = static_cast<const char*>(tensor.data);
  char* to = room.memory->as<char>();
  constexpr int64_t kTile = 64;  // of columns: their rows stay in the cache
  for (int64_t first = 0; first < columns; first += kTile) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = first; c < std::min(columns, first + kTile); ++c)
        std::memcpy(to + (c * rows + r) * bytes, from + (r * columns + c) * bytes, bytes);
    }
  }
  return room.tensor;
}

absl::StatusOr<Tensor> SwapLast(const Tensor& tensor) {
  if (tensor.rank() != 3) return Invalid("shape ", ShapeText(tensor.shape), " is not of three dimensions");
  const Room room = NewRoom(tensor.dtype, {tensor.dim(0), tensor.dim(2), tensor.dim(1)});
  for (int64_t i = 0; i < tensor.dim(0); ++i) {
    const Tensor matrix{tensor.dtype, {tensor.dim(1), tensor.dim(2)}, RowOf(tensor, i)};
    ASSIGN_OR_RETURN(const Tensor swapped, Transpose(matrix));
    std::memcpy(room.memory->as<char>() + i * RowBytes(tensor), swapped.data, RowBytes(tensor));
  }
  return room.tensor;
}

absl::StatusOr<Tensor> TakePart(const Tensor& tensor, int64_t groups, const std::vector<int64_t>& sizes,
                                int part) {
  const int64_t units = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (tensor.rank() == 0 || tensor.dim(0) % (groups * units) != 0)
    return Invalid("shape ", ShapeText(tensor.shape), " has not rows of ", groups, " groups of ", units,
                   " parts");
  const int64_t unit = tensor.dim(0) / (groups * units);
  const int64_t before = std::accumulate(sizes.begin(), sizes.begin() + part, int64_t{0}) * unit;
  const int64_t count = sizes[part] * unit;
  if (groups == 1) return CutRows(tensor, before, count);
  std::vector<int64_t> shape = tensor.shape;
  shape[0] = groups * count;
  const Room room = NewRoom(tensor.dtype, std::move(shape));
  for (int64_t group = 0; group < groups; ++group) {
    std::memcpy(room.memory->as<char>() + group * count * RowBytes(tensor),
                RowOf(tensor, group * units * unit + before), count * RowBytes(tensor));
  }
  return room.tensor;
}

absl::StatusOr<Tensor> Widen(const Tensor& tensor, int64_t groups, int64_t size) {
  if (tensor.rank() == 0 || tensor.dim(0) % groups != 0 || tensor.dim(0) / groups > size)
    return Invalid("shape ", ShapeText(tensor.shape), " has not rows of ", groups, " groups of ", size,
                   " at most");
  const int64_t count = tensor.dim(0) / groups, bytes = RowBytes(tensor);
  std::vector<int64_t> shape = tensor.shape;
  shape[0] = groups * size;
  const Room room = NewRoom(tensor.dtype, std::move(shape));
  std::memset(room.memory->as<char>(), 0, groups * size * bytes);
  for (int64_t group = 0; group < groups; ++group)
    std::memcpy(room.memory->as<char>() + group * size * bytes, RowOf(tensor, group * count), count * bytes);
  return room.tensor;
}

absl::StatusOr<Tensor> Shape(Tensor tensor, std::vector<int64_t> shape) {
  int64_t known = 1;
  for (const int64_t size : shape) known *= size < 0 ? 1 : size;
  for (int64_t& size : shape) size = size >= 0 ? size : known == 0 ? 0 : tensor.size() / known;
  const std::string was = ShapeText(tensor.shape);
  const int64_t numbers = tensor.size();
  tensor.shape = std::move(shape);
  if (tensor.size() != numbers) return Invalid("shape ", was, " cannot be read as ", ShapeText(tensor.shape));
  return tensor;
}

template <typename F>
Tensor Each(const Tensor& tensor, F f) {
  const Room room = NewRoom(DType::kF32, tensor.shape);
  float* numbers = room.memory->as<float>();
  ToFloats(tensor, 0, tensor.size(), numbers);
  std::transform(numbers, numbers + tensor.size(), numbers, f);
  return room.tensor;
}

absl::StatusOr<Tensor> Join(const std::vector<Tensor>& parts) {
  std::vector<int64_t> shape = parts[0].shape;
  for (size_t i = 1; i < parts.size(); ++i) {
    std::vector<int64_t> other = parts[i].shape;
    if (other.empty() || shape.empty() || parts[i].dtype != parts[0].dtype ||
        !std::equal(other.begin() + 1, other.end(), shape.begin() + 1, shape.end())) {
      return Invalid("shapes ", ShapeText(parts[0].shape), " and ", ShapeText(other), " cannot be joined");
    }
    shape[0] += other[0];
  }
  const Room room = NewRoom(parts[0].dtype, std::move(shape));
  char* to = room.memory->as<char>();
  for (const Tensor& part : parts) {
    const int64_t bytes = part.size() * SizeOf(part.dtype);
    std::memcpy(to, part.data, bytes);
    to += bytes;
  }
  return room.tensor;
}

absl::StatusOr<Tensor> Grid(const std::vector<Tensor>& axes) {
  int64_t places = 1, width = 0;
  for (const Tensor& axis : axes) {
    if (axis.rank() != 2 || axis.dtype != axes[0].dtype || axis.dim(0) == 0)
      return Invalid("shape ", ShapeText(axis.shape), " is no table of a grid's axis");
    if (axis.dim(0) > kMostPlaces / places) return Invalid("a grid of more than ", kMostPlaces, " places");
    places *= axis.dim(0);
    width += axis.dim(1);
  }
  const Room room = NewRoom(axes[0].dtype, {places, width});
  char* to = room.memory->as<char>();
  for (int64_t place = 0; place < places; ++place) {
    int64_t inner = places;
    for (const Tensor& axis : axes) {
      inner /= axis.dim(0);
      std::memcpy(to, RowOf(axis, place / inner % axis.dim(0)), RowBytes(axis));
      to += RowBytes(axis);
    }
  }
  return room.tensor;
}

absl::StatusOr<Tensor> SumRows(const Tensor& matrix) {
  if (matrix.rank() != 2) return Invalid("shape ", ShapeText(matrix.shape), " is no matrix");
  const int64_t columns = matrix.dim(1);
  const Room room = NewRoom(DType::kF32, {matrix.dim(0)});
  std::vector<float> row(columns);
  for (int64_t r = 0; r < matrix.dim(0); ++r) {
    ToFloats(matrix, r * columns, columns, row.data());
    room.memory->as<float>()[r] = static_cast<float>(std::accumulate(row.begin(), row.end(), 0.0));
  }
  return room.tensor;
}

// A matrix and a number for each of its columns.
absl::StatusOr<Tensor> MultiplyColumns(const std::vector<Tensor>& parts) {
  const Tensor &matrix = parts[0], &factors = parts[1];
  if (matrix.rank() != 2 || factors.rank() != 1 || factors.dim(0) != matrix.dim(1))
    return Invalid("shape ", ShapeText(matrix.shape), " has not columns for factors of shape ",
                   ShapeText(factors.shape));
  const int64_t columns = matrix.dim(1);
  std::vector<float> of_columns(columns);
  ToFloats(factors, 0, columns, of_columns.data());
  const Room room = NewRoom(DType::kF32, matrix.shape);
  float* numbers = room.memory->as<float>();
  ToFloats(matrix, 0, matrix.size(), numbers);
  for (int64_t i = 0; i < matrix.size(); ++i) numbers[i] *= of_columns[i % columns];
  return room.tensor;
}

// Made of several; an error names the first of the file's tensors.
template <typename F>
auto MakerOf(const std::vector<ViewedTensor>& parts, const std::vector<std::string>& names, F join) {
  return
      [parts, name = names.empty() ? "" : names[0], join](const Weights& weights) -> absl::StatusOr<Tensor> {
        std::vector<Tensor> made;
        for (const ViewedTensor& part : parts) {
          ASSIGN_OR_RETURN(made.emplace_back(), part.Make(weights));
        }
        absl::StatusOr<Tensor> joined = join(made);
        if (!joined.ok()) return Invalid("tensor \"", name, "\": ", joined.status().message());
        return joined;
      };
}

std::vector<std::string> NamesOf(const std::vector<ViewedTensor>& parts) {
  std::vector<std::string> names;
  for (const ViewedTensor& part : parts) names.insert(names.end(), part.names().begin(), part.names().end());
  return names;
}

}  // namespace

ViewedTensor::ViewedTensor(std::string name)
    : ViewedTensor({name}, [name](const Weights& weights) { return weights.Read(name); }) {}

ViewedTensor ViewedTensor::Of(Tensor tensor) {
  return {{}, [tensor = std::move(tensor)](const Weights&) -> absl::StatusOr<Tensor> { return tensor; }};
}

ViewedTensor ViewedTensor::Zeros(std::vector<int64_t> shape) {
  const Room room = NewRoom(DType::kF32, std::move(shape));
  std::memset(room.memory->as<char>(), 0, room.memory->size());
  return Of(room.tensor);
}

ViewedTensor ViewedTensor::Joined(const std::vector<ViewedTensor>& parts) {
  const std::vector<std::string> names = NamesOf(parts);
  return {names, MakerOf(parts, names, Join)};
}

ViewedTensor ViewedTensor::OfGrid(const std::vector<ViewedTensor>& axes) {
  const std::vector<std::string> names = NamesOf(axes);
  return {names, MakerOf(axes, names, Grid)};
}

template <typename F>
ViewedTensor ViewedTensor::Then(F step) const {
  const std::string name = names_.empty() ? "" : names_[0];
  return {names_, [make = make_, name, step](const Weights& weights) -> absl::StatusOr<Tensor> {
            ASSIGN_OR_RETURN(Tensor tensor, make(weights));
            absl::StatusOr<Tensor> stepped = step(std::move(tensor));
            if (!stepped.ok()) return Invalid("tensor \"", name, "\": ", stepped.status().message());
            return stepped;
          }};
}

ViewedTensor ViewedTensor::Transposed() const {
  return Then([](const Tensor& tensor) { return Transpose(tensor); });
}

ViewedTensor ViewedTensor::SwappedLast() const {
  return Then([](const Tensor& tensor) { return SwapLast(tensor); });
}

ViewedTensor ViewedTensor::Rows(int64_t begin, int64_t count) const {
  return Then([=](const Tensor& tensor) { return CutRows(tensor, begin, count); });
}

ViewedTensor ViewedTensor::RowsFrom(int64_t begin) const {
  return Then([=](const Tensor& tensor) {
    return CutRows(tensor, begin, tensor.rank() == 0 ? 0 : tensor.dim(0) - begin);
  });
}

ViewedTensor ViewedTensor::MatrixOf(int64_t i) const {
  return Then([=](const Tensor& tensor) -> absl::StatusOr<Tensor> {
    if (tensor.rank() != 3) return Invalid("shape ", ShapeText(tensor.shape), " is not of three dimensions");
    ASSIGN_OR_RETURN(Tensor matrix, CutRows(tensor, i, 1));
    matrix.shape.erase(matrix.shape.begin());
    return matrix;
  });
}

ViewedTensor ViewedTensor::PartOfGroups(int64_t groups, const std::vector<int64_t>& sizes, int part) const {
  return Then([=](const Tensor& tensor) { return TakePart(tensor, groups, sizes, part); });
}

ViewedTensor ViewedTensor::WidenedGroups(int64_t groups, int64_t size) const {
  return Then([=](const Tensor& tensor) { return Widen(tensor, groups, size); });
}

ViewedTensor ViewedTensor::Shaped(std::vector<int64_t> shape) const {
  return Then([shape = std::move(shape)](Tensor tensor) { return Shape(std::move(tensor), shape); });
}

ViewedTensor ViewedTensor::Plus(float value) const {
  return Then([value](const Tensor& tensor) -> absl::StatusOr<Tensor> {
    return Each(tensor, [value](float x) { return x + value; });
  });
}

ViewedTensor ViewedTensor::Times(float value) const {
  return Then([value](const Tensor& tensor) -> absl::StatusOr<Tensor> {
    return Each(tensor, [value](float x) { return x * value; });
  });
}

ViewedTensor ViewedTensor::RowSums() const {
  return Then([](const Tensor& tensor) { return SumRows(tensor); });
}

ViewedTensor ViewedTensor::TimesColumns(const ViewedTensor& factors) const {
  const std::vector<ViewedTensor> parts = {*this, factors};
  const std::vector<std::string> names = NamesOf(parts);
  return {names, MakerOf(parts, names, MultiplyColumns)};
}

void TensorView::Add(const std::string& name, ViewedTensor tensor) {
  tensors_.insert_or_assign(name, std::move(tensor));
}

void TensorView::AddModule(const std::string& name, const std::string& module) {
  Add(name + ".weight", module + ".weight");
  Add(name + ".bias", module + ".bias");
}

const ViewedTensor* TensorView::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

bool TensorView::Ignores(std::string_view file_name) const {
  return std::ranges::any_of(ignored_, [&](std::string_view pattern) {
    if (pattern.starts_with('*')) return file_name.ends_with(pattern.substr(1));
    if (pattern.ends_with('*')) return file_name.starts_with(pattern.substr(0, pattern.size() - 1));
    return file_name == pattern;
  });
}

}  // namespace heed
