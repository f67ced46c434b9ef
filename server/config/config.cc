#include "server/config/config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/weights/weights.h"
#include "google/protobuf/message.h"
#include "server/config/text_proto.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

double NumberOf(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(reflection->GetInt64(message, field));
    default:
      return reflection->GetDouble(message, field);
  }
}

// Whole numbers with all their digits.
std::string Readable(double number) {
  if (!(std::abs(number) < 1e15) || std::trunc(number) != number) return Cat(number);  // NaN too
  return Cat(static_cast<int64_t>(number));
}

absl::Status CheckNumber(const Message& message, const FieldDescriptor* field, const std::string& name) {
  const auto& options = field->options();
  const double value = NumberOf(message, field);
  const double least = options.GetExtension(config::v1::at_least),
               most = options.GetExtension(config::v1::at_most);
  if (value >= least && value <= most) return absl::OkStatus();  // false for NaN
  return Invalid(name, " is ", Readable(value), ", it must be ", Readable(least), " to ", Readable(most));
}

// Every number of the message and of those within it.
absl::Status CheckNumbers(const Message& message, const std::string& prefix) {
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    const std::string name = prefix + field->name();
    if (field->options().HasExtension(config::v1::at_least))
      RETURN_IF_ERROR(CheckNumber(message, field, name));
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated())
      RETURN_IF_ERROR(CheckNumbers(reflection->GetMessage(message, field), name + "."));
    for (int k = 0; field->is_repeated() && k < reflection->FieldSize(message, field); ++k) {
      RETURN_IF_ERROR(
          CheckNumbers(reflection->GetRepeatedMessage(message, field, k), Cat(name, "[", k, "].")));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBuckets(const config::v1::MetricsConfig& config) {
  constexpr int kMostBuckets = 64;
  const std::string name = "metrics.duration_buckets";
  if (config.duration_buckets_size() > kMostBuckets) {
    return Invalid(name, " has ", config.duration_buckets_size(), " bounds, at most ", kMostBuckets,
                   " are possible");
  }
  double last = 0;
  for (const double bound : config.duration_buckets()) {
    if (!(bound > last && std::isfinite(bound))) {  // NaN neither
      return Invalid(name, " has ", Readable(bound), " after ", Readable(last),
                     ", bounds must be finite, ascending and above 0");
    }
    last = bound;
  }
  return absl::OkStatus();
}

absl::Status CheckAddress(const std::string& address, std::string_view name) {
  if (name == "address" && address.starts_with("unix:") && address.size() > 5) return absl::OkStatus();
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return Invalid(name, " is '", address, "', it must be HOST:PORT with a port of 0 to 65535");
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const config::v1::TlsConfig& tls) {
  if (!tls.certificate().empty() && !tls.key().empty()) return absl::OkStatus();
  const std::string_view missing = tls.certificate().empty() ? "certificate" : "key";
  return Invalid("tls.", missing, " is empty, TLS needs a certificate and its key");
}

// The host's form is what the exporter's reader of addresses takes for one.
absl::Status CheckTraces(const config::v1::TracesConfig& config) {
  const std::string& endpoint = config.endpoint();
  const bool plain = endpoint.starts_with("http://"), tls = endpoint.starts_with("https://");
  const std::string address = endpoint.substr(tls ? 8 : plain ? 7 : 0);
  const bool host = std::ranges::all_of(address.substr(0, address.rfind(':')), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-';
  });
  const bool reached = host && CheckAddress(address, "endpoint").ok() && !address.ends_with(":0");
  if (endpoint.empty() || ((plain || tls) && reached)) return absl::OkStatus();
  return Invalid(
      "traces.endpoint is '", endpoint,
      "', it must be http://HOST:PORT or https://HOST:PORT with a name or an IPv4 address and a port of "
      "1 to 65535");
}

absl::Status CheckModel(const config::v1::ModelConfig& model, const std::string& where) {
  constexpr std::string_view kForm = "', it must be 1 to 64 of [A-Za-z0-9._-] and not begin with '.'";
  if (!ValidName(model.name())) return Invalid(where, ".name is '", model.name(), kForm);
  if (!ValidName(model.version())) return Invalid(where, ".version is '", model.version(), kForm);
  if (model.folder().empty()) return Invalid(where, ".folder is empty, model '", model.name(), "' needs one");
  return absl::OkStatus();
}

// Folders of `folder` that hold a model's config.json, by name.
absl::StatusOr<std::vector<fs::path>> ModelFolders(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code none;
    if (fs::exists(entry.path() / "config.json", none)) found.push_back(entry.path());
  }
  if (error) return Invalid("models_folder is '", folder, "', it cannot be read: ", error.message());
  std::sort(found.begin(), found.end());
  return found;
}

// Of a model's weights, which lie beside what sequences need; 0 where there are none yet.
int64_t WeightBytes(const std::string& folder) {
  int64_t bytes = 0;
  const auto files = WeightFiles(folder);
  if (!files.ok()) return 0;  // loading says why
  for (const std::string& file : *files) {
    std::error_code error;
    const uintmax_t size = fs::file_size(fs::path(folder) / file, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// Gives the models that leave their state's memory open equal shares of half of what is free.
void ShareMemory(int64_t free, config::v1::ServerConfig& config) {
  constexpr int64_t kLeast = int64_t{64} << 20, kMost = int64_t{1} << 40;
  std::vector<config::v1::SchedulingConfig*> open;
  for (auto& model : *config.mutable_models()) {
    free -= std::min(free, WeightBytes(model.folder()));
    if (model.scheduling().state_bytes() == 0) open.push_back(model.mutable_scheduling());
  }
  for (auto* scheduling : open)
    scheduling->set_state_bytes(std::clamp(free / 2 / std::ssize(open), kLeast, kMost));
}

Precision ToPrecision(config::v1::Precision precision) {
  switch (precision) {
    case config::v1::PRECISION_F32:
      return Precision::kF32;
    case config::v1::PRECISION_BF16:
      return Precision::kBf16;
    case config::v1::PRECISION_INT8:
      return Precision::kInt8;
    default:
      return *ParsePrecision("auto");
  }
}

SchedulerOptions ToOptions(const config::v1::SchedulingConfig& config) {
  SchedulerOptions options;
  options.max_batch_tokens = config.max_batch_tokens();
  options.max_prefill_tokens = config.max_prefill_tokens();
  options.max_batch_jobs = config.max_running();
  options.max_queued_jobs = config.max_queued();
  options.state_bytes = config.state_bytes();
  options.max_wait = ToDuration(config.max_wait_seconds());
  return options;
}

}  // namespace

absl::StatusOr<config::v1::ServerConfig> ParseConfig(std::string_view text, std::string_view where) {
  config::v1::ServerConfig config;
  RETURN_IF_ERROR(ParseTextProto(text, where, &config));
  return config;
}

absl::StatusOr<config::v1::ServerConfig> ReadConfig(const std::string& path) {
  const fs::path file(path);
  ASSIGN_OR_RETURN(std::string text,
                   ReadFile(file.has_parent_path() ? file.parent_path() : ".", file.filename(), 1 << 20));
  return ParseConfig(text, path);
}

absl::Status CheckConfig(const config::v1::ServerConfig& config) {
  RETURN_IF_ERROR(CheckNumbers(config, ""));
  RETURN_IF_ERROR(CheckAddress(config.address(), "address"));
  if (!config.metrics_address().empty())
    RETURN_IF_ERROR(CheckAddress(config.metrics_address(), "metrics_address"));
  RETURN_IF_ERROR(CheckBuckets(config.metrics()));
  if (config.has_tls()) RETURN_IF_ERROR(CheckTls(config.tls()));
  RETURN_IF_ERROR(CheckTraces(config.traces()));
  std::set<std::string> names;
  for (int i = 0; i < config.models_size(); ++i) {
    RETURN_IF_ERROR(CheckModel(config.models(i), Cat("models[", i, "]")));
    if (!names.insert(config.models(i).name()).second) {
      return Invalid("models[", i, "].name is '", config.models(i).name(), "', which another model has");
    }
  }
  return absl::OkStatus();
}

std::string ShippedModels() {
  const char* chosen = std::getenv("HEED_MODELS");
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);  // TREE/build/NAME/heed
  const fs::path tree = program.parent_path().parent_path().parent_path();
  for (const fs::path& folder :
       {fs::path(chosen ? chosen : ""), tree / "models", fs::path("/usr/share/heed/models")}) {
    if (!folder.empty() && fs::is_directory(folder, none)) return folder;
  }
  return "";
}

absl::StatusOr<config::v1::ServerConfig> WithModels(config::v1::ServerConfig config, int64_t free_memory) {
  if (config.models_folder().empty() && config.models().empty()) config.set_models_folder(ShippedModels());
  std::set<std::string> named;
  for (const auto& model : config.models()) named.insert(model.name());
  if (!config.models_folder().empty()) {
    ASSIGN_OR_RETURN(auto folders, ModelFolders(config.models_folder()));
    for (const fs::path& folder : folders) {
      if (named.contains(folder.filename().string())) continue;
      auto* model = config.add_models();
      model->set_name(folder.filename().string());
      model->set_folder(folder.string());
    }
  }
  for (auto& model : *config.mutable_models()) {
    if (!model.has_precision()) model.set_precision(config.precision());
    config::v1::SchedulingConfig scheduling = config.scheduling();
    scheduling.MergeFrom(model.scheduling());  // field by field
    *model.mutable_scheduling() = scheduling;
  }
  if (config.models().empty()) {
    return absl::NotFoundError(Cat("no models: `models` is empty, and no folder of '", config.models_folder(),
                                   "' holds a config.json"));
  }
  ShareMemory(free_memory, config);
  return config;
}

ModelSpec ToSpec(const config::v1::ModelConfig& model) {
  ModelSpec spec{.name = model.name(), .version = model.version(), .folder = model.folder()};
  spec.load.precision = ToPrecision(model.precision());
  spec.scheduling = ToOptions(model.scheduling());
  return spec;
}

}  // namespace heed
