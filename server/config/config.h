// The configuration: read from a text proto, completed from a folder of models, and checked as a whole. What
// it means, its defaults and its ranges stand in proto/heed/v1/config.proto.
#ifndef HEED_SERVER_CONFIG_CONFIG_H_
#define HEED_SERVER_CONFIG_CONFIG_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/free_memory.h"
#include "heed/config/v1/config.pb.h"
#include "server/registry.h"

namespace heed {

// The text as a message. INVALID_ARGUMENT with `where`, the line and what is wrong there.
absl::StatusOr<config::v1::ServerConfig> ParseConfig(std::string_view text, std::string_view where);
absl::StatusOr<config::v1::ServerConfig> ReadConfig(const std::string& path);

// Every number is in its range, every name and address well formed, no name given twice. The message names
// the field, the value and the limit.
absl::Status CheckConfig(const config::v1::ServerConfig& config);

// Adds the models of `models_folder` (of the shipped models, if the config names none at all) to `models`,
// and to each model what it leaves to the server: precision, scheduling, and as the memory of its sequences
// an equal share of half of what is free beside all weights, 64 MiB to 1 TiB.
absl::StatusOr<config::v1::ServerConfig> WithModels(config::v1::ServerConfig config,
                                                    int64_t free_memory = FreeMemory());

// Where the shipped models lie: $HEED_MODELS, `models` of the source tree this program was built in, or
// /usr/share/heed/models; the first that exists, empty if none does.
std::string ShippedModels();

// A model of a config that WithModels() gave, as the registry takes it.
ModelSpec ToSpec(const config::v1::ModelConfig& model);

}  // namespace heed

#endif  // HEED_SERVER_CONFIG_CONFIG_H_
