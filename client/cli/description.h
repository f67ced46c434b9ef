// What a model is, for people: the same page for one that is served (describe) and one in a folder (inspect).
#ifndef HEED_CLIENT_CLI_DESCRIPTION_H_
#define HEED_CLIENT_CLI_DESCRIPTION_H_

#include <string>

#include "heed/v1/models.pb.h"

namespace heed {

std::string DescriptionText(const v1::ModelDescription& description);

}  // namespace heed

#endif  // HEED_CLIENT_CLI_DESCRIPTION_H_
