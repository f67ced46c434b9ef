// What a model or a server is, for people. A model's page is the same for one that is served (describe) and
// one in a folder (inspect).
#ifndef HEED_CLIENT_CLI_DESCRIPTION_H_
#define HEED_CLIENT_CLI_DESCRIPTION_H_

#include <string>

#include "heed/v1/models.pb.h"
#include "heed/v1/server.pb.h"

namespace heed::cli {

// Of a model that is not ready: its state, and why.
std::string DescriptionText(const v1::ModelDescription& model);
std::string DescriptionText(const v1::ServerDescription& server);

// A line a model: name, version, state, why it is FAILED.
std::string SummaryText(const google::protobuf::RepeatedPtrField<v1::ModelSummary>& models);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_DESCRIPTION_H_
