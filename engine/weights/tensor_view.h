// A file's tensors under other names and in other forms: what a model asks for, made of what the file holds.
// Nothing is read before it is asked for, and what is only renamed or cut by rows is not copied.
#ifndef HEED_ENGINE_WEIGHTS_TENSOR_VIEW_H_
#define HEED_ENGINE_WEIGHTS_TENSOR_VIEW_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

// How one tensor is made of tensors of the file: a value, to which each call adds a step. A form that a step
// cannot take is INVALID_ARGUMENT when the tensor is made, with the file's name of it.
class ViewedTensor {
 public:
  ViewedTensor(std::string name);  // the file's, as it is; implicit, since most are no more than renamed
  // Computed, and in no file.
  static ViewedTensor Of(Tensor tensor);
  static ViewedTensor Zeros(std::vector<int64_t> shape);  // f32
  // The rows of one after the rows of another; all but their number of rows is alike.
  static ViewedTensor Joined(const std::vector<ViewedTensor>& parts);
  // Of a grid's places in raster order: beside one another the rows that the axes' tables, [size, width],
  // have for the place.
  static ViewedTensor OfGrid(const std::vector<ViewedTensor>& axes);

  ViewedTensor Transposed() const;  // of a matrix
  // Of the first dimension.
  ViewedTensor Rows(int64_t begin, int64_t count) const;
  ViewedTensor RowsFrom(int64_t begin) const;
  ViewedTensor MatrixOf(int64_t i) const;  // the i-th of the matrices that a tensor of three dimensions holds
  // The rows are `groups` groups of equal size, which are cut in parts by `sizes`: of each group the part
  // `part`. {3, {1, 1, 1}, 0} of 12 rows: 0, 4, 8 if the sizes are of quarters. Sizes are shares of a group.
  ViewedTensor PartOfGroups(int64_t groups, const std::vector<int64_t>& sizes, int part) const;
  // The rows are `groups` groups of equal size: each with rows of zeros behind it, so that it has `size`.
  ViewedTensor WidenedGroups(int64_t groups, int64_t size) const;
  ViewedTensor Shaped(std::vector<int64_t> shape) const;  // the same numbers, -1: whatever is left
  ViewedTensor SwappedLast() const;                       // of three dimensions, the last two change places
  ViewedTensor Plus(float value) const;                   // f32
  ViewedTensor Times(float value) const;                  // f32
  ViewedTensor RowSums() const;                           // of a matrix: each row's, f32
  // Of a matrix each column times a number of its own, of `factors`; f32.
  ViewedTensor TimesColumns(const ViewedTensor& factors) const;

  const std::vector<std::string>& names() const { return names_; }  // the file's tensors that it needs
  absl::StatusOr<Tensor> Make(const Weights& weights) const { return make_(weights); }

 private:
  using Maker = std::function<absl::StatusOr<Tensor>(const Weights& weights)>;
  ViewedTensor(std::vector<std::string> names, Maker make)
      : names_(std::move(names)), make_(std::move(make)) {}
  // With one more step.
  template <typename F>
  ViewedTensor Then(F step) const;

  std::vector<std::string> names_;
  Maker make_;
};

class TensorView {
 public:
  // `name`: as the model asks for it. What is not in the file makes no harm before it is asked for, and where
  // it may be missing it is.
  void Add(const std::string& name, ViewedTensor tensor);
  // NAME.weight and NAME.bias, as those of `module`.
  void AddModule(const std::string& name, const std::string& module);
  // What the model does not ask for; of the file it may be needed under another name.
  void Remove(const std::string& name) { tensors_.erase(name); }
  // Tensors of the file that nobody needs: a name, or, with a '*' in front or at the end, how it ends or
  // begins.
  void Ignore(std::string pattern) { ignored_.push_back(std::move(pattern)); }

  const ViewedTensor* Find(const std::string& name) const;  // null if there is none of the name
  bool Ignores(std::string_view file_name) const;
  const std::map<std::string, ViewedTensor>& tensors() const { return tensors_; }

 private:
  std::map<std::string, ViewedTensor> tensors_;
  std::vector<std::string> ignored_;
};

}  // namespace heed

#endif  // HEED_ENGINE_WEIGHTS_TENSOR_VIEW_H_
