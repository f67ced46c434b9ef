#include "engine/weights/weights.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_replace.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/tensor_view.h"

namespace heed {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr int64_t kMaxIndexBytes = 16 << 20;

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

// A name in the folder itself, and nothing that a path could make of it.
bool PlainName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

bool IsSingle(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::path single = std::filesystem::path(folder) / kSingleFile;
  return std::filesystem::exists(std::filesystem::symlink_status(single, ignored));
}

bool HasPickle(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::path path(folder);
  return std::filesystem::exists(path / "pytorch_model.bin", ignored) ||
         std::filesystem::exists(path / "pytorch_model.bin.index.json", ignored);
}

// Of a folder that is not single.
absl::StatusOr<WeightMap> ReadIndex(const std::string& folder) {
  const auto text = ReadFile(folder, kIndexFile, kMaxIndexBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        Cat("the folder has neither ", kSingleFile, " nor ", kIndexFile,
            HasPickle(folder)
                ? "; pytorch_model.bin is a program (pickle) and is not read: in Python, "
                  "AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER) of the model's own class "
                  "writes model.safetensors"
                : ""));
  }
  if (!text.ok()) return text.status();
  ASSIGN_OR_RETURN(const Json index, ParseJson(*text, kIndexFile, /*max_depth=*/4));
  JsonFields fields(index, kIndexFile);
  fields.Ignore("metadata");
  const Json& listed = fields.Raw("weight_map");
  if (!listed.is_object() || listed.empty())
    fields.Fail("weight_map is not an object of tensor and file names");
  RETURN_IF_ERROR(fields.Finish());
  WeightMap files;
  for (const auto& [tensor, file] : listed.items()) {
    if (!file.is_string() || !PlainName(file.get_ref<const std::string&>())) {
      return Invalid(kIndexFile, ": weight_map: ", Shown(tensor), ": ", Shown(file), " is not a file name");
    }
    files[tensor] = file;
  }
  return files;
}

std::vector<std::string> FilesOf(const WeightMap& index) {
  std::set<std::string> files;
  for (const auto& [tensor, file] : index) files.insert(file);
  return {files.begin(), files.end()};
}

absl::StatusOr<std::map<std::string, StoredTensor>> TensorsOf(const InputFile& file) {
  std::string head(std::min(kHeadStart, file.size()), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, head.data(), std::ssize(head)));
  ASSIGN_OR_RETURN(const int64_t bytes, HeadBytes(head, file.size(), file.name()));
  head.resize(bytes);
  RETURN_IF_ERROR(file.ReadAt(0, head.data(), bytes));
  return ParseSafetensors(head, file.size(), file.name());
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
}

// "[768, any]" for {768, -1}
std::string WantedText(const std::vector<int64_t>& shape) {
  return absl::StrReplaceAll(ShapeText(shape), {{"-1", "any"}});
}

// Where the i-th number stands: an index a dimension.
std::vector<int64_t> PlaceOf(const Tensor& tensor, int64_t i) {
  std::vector<int64_t> place(tensor.shape);
  for (int d = tensor.rank() - 1; d >= 0; --d) {
    place[d] = i % tensor.dim(d);
    i /= tensor.dim(d);
  }
  return place;
}

bool Fits(const std::vector<int64_t>& shape, const std::vector<int64_t>& wanted) {
  if (shape.size() != wanted.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (wanted[i] != -1 && wanted[i] != shape[i]) return false;
  }
  return true;
}

// `shown`: the tensor's name, as messages have it.
absl::Status CheckWanted(const Tensor& tensor, const WantedTensor& wanted, std::string_view shown) {
  if (wanted.integers ? tensor.dtype != DType::kI64 : !IsFloat(tensor.dtype)) {
    return Invalid("tensor ", shown, " is ", Name(tensor.dtype), ", not ",
                   wanted.integers ? Name(DType::kI64) : "of a float type");
  }
  if (!Fits(tensor.shape, wanted.shape)) {
    return Invalid("tensor ", shown, " has shape ", ShapeText(tensor.shape), ", not ",
                   WantedText(wanted.shape));
  }
  return absl::OkStatus();
}

absl::Status Missing(const WantedTensor& wanted, std::string_view shown) {
  return absl::NotFoundError(Cat("tensor ", shown, " of shape ", WantedText(wanted.shape), " is missing"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> WeightFiles(const std::string& folder) {
  if (IsSingle(folder)) return std::vector<std::string>{kSingleFile};
  ASSIGN_OR_RETURN(const WeightMap index, ReadIndex(folder));
  return FilesOf(index);
}

absl::StatusOr<std::unique_ptr<Weights>> Weights::Load(const std::string& folder,
                                                       const std::vector<std::string>& modules) {
  std::unique_ptr<Weights> weights(new Weights);
  RETURN_IF_ERROR(weights->AddFolder(folder));
  for (const std::string& module : modules)
    RETURN_IF_ERROR(weights->AddFile(folder, Cat(module, "/", kSingleFile), nullptr, module + "/"));
  weights->BeginDigests();
  return weights;
}

absl::Status Weights::AddFolder(const std::string& folder) {
  if (IsSingle(folder)) return AddFile(folder, kSingleFile, nullptr);
  ASSIGN_OR_RETURN(const WeightMap index, ReadIndex(folder));
  for (const std::string& file : FilesOf(index)) RETURN_IF_ERROR(AddFile(folder, file, &index));
  for (const auto& [tensor, file] : index) {
    if (!tensors_.contains(tensor))
      return Invalid(file, ": has no tensor ", Shown(tensor), ", which ", kIndexFile, " lists");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Weights>> Weights::LoadFile(const std::string& path) {
  std::unique_ptr<Weights> weights(new Weights);
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::absolute(path, ignored);
  RETURN_IF_ERROR(weights->AddFile(file.parent_path(), file.filename(), nullptr));
  return weights;
}

std::unique_ptr<Weights> Weights::Of(std::map<std::string, Tensor> tensors) {
  std::unique_ptr<Weights> weights(new Weights);
  weights->tensors_ = std::move(tensors);
  return weights;
}

std::unique_ptr<Weights> Weights::MadeBy(WeightMaker maker) {
  std::unique_ptr<Weights> weights(new Weights);
  weights->maker_ = std::move(maker);
  return weights;
}

void Weights::Rename(const std::string& name, const std::string& to) {
  auto tensor = tensors_.extract(name);
  tensor.key() = to;
  tensors_.insert(std::move(tensor));
  if (auto place = places_.extract(name); !place.empty()) {
    place.key() = to;
    places_.insert(std::move(place));
  }
}

void Weights::Want(const WantedTensor& wanted) const {
  if (maker_.make && !tensors_.contains(wanted.name)) tensors_[wanted.name] = maker_.make(wanted);
}

absl::Status Weights::AddFile(const std::string& folder, const std::string& file, const WeightMap* index,
                              const std::string& before) {
  ASSIGN_OR_RETURN(InputFile opened, InputFile::Open(folder, file));
  const InputFile& input = files_.emplace_back(std::move(opened));
  ASSIGN_OR_RETURN(auto stored, TensorsOf(input));
  for (auto& [name, tensor] : stored) {
    if (index != nullptr) {
      auto listed = index->find(name);
      const std::string_view where = listed == index->end() ? "nowhere" : std::string_view(listed->second);
      if (where != file)
        return Invalid(file, ": has tensor ", Shown(name), ", which ", kIndexFile, " lists in ", where);
    }
    places_[before + name] = {&input, tensor.begin, tensor.bytes};
    tensors_.emplace(before + name, std::move(tensor.form));
  }
  return absl::OkStatus();
}

absl::Status Weights::Add(const Weights& others) {
  for (const auto& [name, form] : others.tensors()) {
    if (tensors_.contains(name)) return Invalid("tensor ", Shown(name), " is there already");
    ASSIGN_OR_RETURN(tensors_[name], others.Read(name));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Weights::Read(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return absl::NotFoundError(Cat("tensor ", Shown(name), " is missing"));
  const auto stored = places_.find(name);
  if (stored == places_.end()) return found->second;
  const auto& [file, begin, bytes] = stored->second;
  auto numbers =
      std::make_shared<Buffer>(std::max<int64_t>(bytes, 1));  // without data a tensor would be none
  if (const absl::Status read = file->ReadAt(begin, numbers->as<char>(), bytes); !read.ok())
    return absl::Status(read.code(), Cat("tensor ", Shown(name), ": ", read.message()));
  Tensor tensor = found->second;
  tensor.data = numbers->as<char>();
  tensor.memory = std::move(numbers);
  return tensor;
}

// Beside what the caller does with the tensors, which takes as long.
void Weights::BeginDigests() {
  digests_ = std::async(std::launch::async, [this]() -> Files {
    std::vector<FileDigest> digests;
    for (const InputFile& file : files_) {
      ASSIGN_OR_RETURN(digests.emplace_back(), DigestOf(file, stop_.get_token()));
    }
    return digests;
  });
}

Weights::Files Weights::Digests() const {
  return digests_.valid() ? digests_.get() : std::vector<FileDigest>();
}

int64_t Weights::parameters() const {
  int64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor.size();
  return sum;
}

int64_t Weights::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor.size() * SizeOf(tensor.dtype);
  return sum;
}

WeightScope::WeightScope(const Weights& weights, const TensorView* view)
    : weights_(&weights), view_(view), used_(std::make_shared<std::set<std::string>>()) {}

WeightScope WeightScope::operator/(std::string_view name) const {
  WeightScope inner = *this;
  inner.prefix_ = Path(name) + ".";
  return inner;
}

WeightScope WeightScope::Suffixed(std::string_view suffix) const {
  WeightScope beside = *this;
  beside.prefix_ = Cat(std::string_view(prefix_).substr(0, prefix_.size() - 1), suffix, ".");
  return beside;
}

std::string WeightScope::Path(std::string_view name) const { return Cat(prefix_, name); }

bool WeightScope::Has(std::string_view name) const {
  if (view_ == nullptr) return weights_->Has(Path(name));
  const ViewedTensor* viewed = view_->Find(Path(name));
  return viewed != nullptr &&
         std::ranges::all_of(viewed->names(), [&](const std::string& of) { return weights_->Has(of); });
}

absl::StatusOr<Tensor> WeightScope::Get(std::string_view name, const std::vector<int64_t>& shape) const {
  return Read({Path(name), shape, std::nullopt});
}

absl::StatusOr<Tensor> WeightScope::Read(const WantedTensor& wanted) const {
  if (view_ != nullptr) return ReadViewed(wanted);
  const std::string shown = Cat("\"", wanted.name, "\"");
  weights_->Want(wanted);
  auto found = weights_->tensors().find(wanted.name);
  if (found == weights_->tensors().end()) return Missing(wanted, shown);
  used_->insert(wanted.name);
  RETURN_IF_ERROR(CheckWanted(found->second, wanted, shown));
  return weights_->Read(wanted.name);
}

absl::StatusOr<Tensor> WeightScope::ReadViewed(const WantedTensor& wanted) const {
  const ViewedTensor* viewed = view_->Find(wanted.name);
  if (viewed == nullptr) return Missing(wanted, Cat("\"", wanted.name, "\""));
  for (const std::string& name : viewed->names()) {
    if (!weights_->Has(name)) return Missing(wanted, Cat("\"", name, "\" (", wanted.name, ")"));
    used_->insert(name);
  }
  ASSIGN_OR_RETURN(Tensor tensor, viewed->Make(*weights_));
  const std::string first = viewed->names().empty() ? "" : viewed->names()[0];
  RETURN_IF_ERROR(CheckWanted(tensor, wanted, Cat("\"", first, "\" (", wanted.name, ")")));
  return tensor;
}

absl::StatusOr<Tensor> WeightScope::Optional(std::string_view name, const std::vector<int64_t>& shape) const {
  if (!Has(name)) return Tensor{};
  return Get(name, shape);
}

absl::StatusOr<std::vector<float>> WeightScope::Floats(std::string_view name,
                                                       const std::vector<int64_t>& shape) const {
  ASSIGN_OR_RETURN(const Tensor tensor, Get(name, shape));
  return ToFloats(tensor);
}

absl::StatusOr<std::vector<int64_t>> WeightScope::Integers(std::string_view name,
                                                           const std::vector<int64_t>& shape, int64_t min,
                                                           int64_t max) const {
  ASSIGN_OR_RETURN(const Tensor tensor, Read({Path(name), shape, {{min, max}}}));
  const int64_t* data = static_cast<const int64_t*>(tensor.data);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (data[i] >= min && data[i] <= max) continue;
    return Invalid("tensor \"", Path(name), "\" holds ", data[i], " at ", ShapeText(PlaceOf(tensor, i)), ", ",
                   data[i] < min ? Cat("below ", min) : Cat("above ", max));
  }
  return std::vector<int64_t>(data, data + tensor.size());
}

absl::Status WeightScope::AllUsed() const {
  for (const auto& [name, tensor] : weights_->tensors()) {
    if (!used_->contains(name) && (view_ == nullptr || !view_->Ignores(name)))
      return Invalid("tensor ", Shown(name), " belongs to no part of the model");
  }
  return absl::OkStatus();
}

}  // namespace heed
