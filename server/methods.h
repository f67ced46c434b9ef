// Every method that the server answers, in one place: what is counted of each is there before its first call.
#ifndef HEED_SERVER_METHODS_H_
#define HEED_SERVER_METHODS_H_

#include "server/edge.h"

namespace heed {

inline constexpr Method kMethods[] = {
    {.index = 0, .service = "heed.v1.Inference", .name = "Classify"},
    {.index = 1, .service = "heed.v1.Inference", .name = "Embed"},
    {.index = 2, .service = "heed.v1.Inference", .name = "Score"},
    {.index = 3, .service = "heed.v1.Inference", .name = "Fill"},
    {.index = 4, .service = "heed.v1.Inference", .name = "Generate", .streams = true},
    {.index = 5, .service = "heed.v1.Models", .name = "ListModels"},
    {.index = 6, .service = "heed.v1.Models", .name = "DescribeModel"},
    {.index = 7, .service = "heed.v1.Server", .name = "DescribeServer"},
    {.index = 8, .service = "heed.v1.Server", .name = "GetMetrics"},
    {.index = 9, .service = "grpc.health.v1.Health", .name = "Check", .health = true},
    {.index = 10, .service = "grpc.health.v1.Health", .name = "Watch", .streams = true, .health = true},
    {.index = 11, .service = "heed.v1.Inference", .name = "Tokenize"},
    {.index = 12, .service = "heed.v1.Inference", .name = "Detokenize"},
    {.index = 13, .service = "heed.v1.Inference", .name = "Rerank"},
    {.index = 14, .service = "heed.v1.Inference", .name = "Answer"},
};

inline constexpr Method kClassify = kMethods[0], kEmbed = kMethods[1], kScore = kMethods[2],
                        kFill = kMethods[3], kGenerate = kMethods[4], kListModels = kMethods[5],
                        kDescribeModel = kMethods[6], kDescribeServer = kMethods[7],
                        kGetMetrics = kMethods[8], kCheck = kMethods[9], kWatch = kMethods[10],
                        kTokenize = kMethods[11], kDetokenize = kMethods[12], kRerank = kMethods[13],
                        kAnswer = kMethods[14];

}  // namespace heed

#endif  // HEED_SERVER_METHODS_H_
