// A model's weights as they lie in its files: safetensors, checked, one file or several with an index.
#ifndef HEED_ENGINE_WEIGHTS_WEIGHTS_H_
#define HEED_ENGINE_WEIGHTS_WEIGHTS_H_

#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/digest.h"
#include "engine/base/file.h"
#include "engine/tensor/tensor.h"

namespace heed {

// The files of a folder that hold a model's weights, by name: model.safetensors, or those that
// model.safetensors.index.json names.
absl::StatusOr<std::vector<std::string>> WeightFiles(const std::string& folder);

// A tensor as it is asked for.
struct WantedTensor {
  struct Range {
    int64_t min, max;
  };
  std::string name;
  std::vector<int64_t> shape;     // -1 fits any size
  std::optional<Range> integers;  // that they must lie in; none: floats
};

// Makes tensors when they are asked for: of models that lie in no file.
struct WeightMaker {
  std::function<bool(const std::string& name)> has;  // of those that a model may do without
  std::function<Tensor(const WantedTensor&)> make;
};

// A model's tensors by name. Their numbers are read when they are asked for, one tensor at a time, and live
// as long as somebody holds it: what is packed otherwise and dropped needs no memory but its own. Nothing
// depends on the files once this has ended. Thread-safe once loaded.
class Weights {
 public:
  // FOLDER/model.safetensors, or FOLDER/model.safetensors.index.json with its shards. A hostile file is
  // refused with a message that names the file and the tensor (reference/serving.md 2.3): nothing is trusted
  // before it is checked, links that leave the folder are refused. `modules`: folders in it that hold parts
  // of the model, each in one file; their tensors get "MODULE/" before their names.
  static absl::StatusOr<std::unique_ptr<Weights>> Load(const std::string& folder,
                                                       const std::vector<std::string>& modules = {});
  // One file.
  static absl::StatusOr<std::unique_ptr<Weights>> LoadFile(const std::string& path);
  // For tests: tensors whose data somebody else keeps.
  static std::unique_ptr<Weights> Of(std::map<std::string, Tensor> tensors);
  // For tests: each tensor is made when it is first asked for, and is among tensors() from then on. For one
  // thread.
  static std::unique_ptr<Weights> MadeBy(WeightMaker maker);
  ~Weights() { stop_.request_stop(); }  // digests that nobody has waited for are given up
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  bool Has(const std::string& name) const {
    return tensors_.contains(name) || (maker_.has && maker_.has(name));
  }
  // Gives a tensor that is there another name, which none has. Not while others use these weights.
  void Rename(const std::string& name, const std::string& to);
  // Takes in others' tensors, of names that are not here, with their numbers. Not while others use these
  // weights.
  absl::Status Add(const Weights& others);
  // Makes the tensor, if tensors are made here.
  void Want(const WantedTensor& wanted) const;
  // Their types and shapes.
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  // One of them with its numbers. An error names file and tensor: the file has become shorter, say.
  absl::StatusOr<Tensor> Read(const std::string& name) const;
  int64_t parameters() const;  // numbers in all tensors
  int64_t bytes() const;       // of all tensors
  // Of the files, by name: waits until they are made, which begins with Load(). Of weights that came
  // otherwise: none.
  using Files = absl::StatusOr<std::vector<FileDigest>>;
  Files Digests() const;

 private:
  struct Place {
    const InputFile* file;
    int64_t begin;
    int64_t bytes;
  };

  Weights() = default;
  // model.safetensors, or the files of an index.
  absl::Status AddFolder(const std::string& folder);
  // With an index, exactly the tensors that it lists in `file`. `before`: of their names.
  absl::Status AddFile(const std::string& folder, const std::string& file,
                       const std::map<std::string, std::string>* index, const std::string& before = "");
  void BeginDigests();
  WeightMaker maker_;
  mutable std::map<std::string, Tensor> tensors_;  // more with each that is made
  std::map<std::string, Place> places_;            // of those that lie in files
  std::list<InputFile> files_;
  std::stop_source stop_;
  std::shared_future<Files> digests_;  // made until stop_ by a thread that reads the files: ends before them
};

class TensorView;

// The tensors below a name: (scope / "layers.3" / "attention").Get("q.weight", {768, 768}). A small value;
// copies refer to the same weights. Remembers which tensors were asked for, so that a loader can refuse a
// file that has more. With a view, names are the view's, and messages name what the file has for them.
class WeightScope {
 public:
  explicit WeightScope(const Weights& weights, const TensorView* view = nullptr);
  WeightScope operator/(std::string_view name) const;
  // What lies beside it: of "layers.3.norm1", with "_post", "layers.3.norm1_post".
  WeightScope Suffixed(std::string_view suffix) const;

  bool Has(std::string_view name) const;
  // NOT_FOUND and INVALID_ARGUMENT messages name the tensor, its shape, and the shape wanted. -1 in `shape`
  // fits any size. Only float types are given.
  absl::StatusOr<Tensor> Get(std::string_view name, const std::vector<int64_t>& shape) const;
  // As Get; an absent tensor gives one without data.
  absl::StatusOr<Tensor> Optional(std::string_view name, const std::vector<int64_t>& shape) const;
  // The numbers as float.
  absl::StatusOr<std::vector<float>> Floats(std::string_view name, const std::vector<int64_t>& shape) const;
  // Of an I64 tensor; a number outside [min, max] is an error that says where it stands.
  absl::StatusOr<std::vector<int64_t>> Integers(std::string_view name, const std::vector<int64_t>& shape,
                                                int64_t min, int64_t max) const;

  // An error that names the first tensor of the whole file nobody asked for.
  absl::Status AllUsed() const;
  std::string Path(std::string_view name) const;

 private:
  absl::StatusOr<Tensor> Read(const WantedTensor& wanted) const;
  absl::StatusOr<Tensor> ReadViewed(const WantedTensor& wanted) const;
  const Weights* weights_;
  const TensorView* view_;                       // null: names are the file's
  std::shared_ptr<std::set<std::string>> used_;  // of the file's
  std::string prefix_;
};

}  // namespace heed

#endif  // HEED_ENGINE_WEIGHTS_WEIGHTS_H_
