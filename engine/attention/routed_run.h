// One sequence whose tokens meet in clusters: the work of all heads, cut in stages of tasks.
#ifndef HEED_ENGINE_ATTENTION_ROUTED_RUN_H_
#define HEED_ENGINE_ATTENTION_ROUTED_RUN_H_

#include <memory>

#include "engine/attention/routed_attention.h"

namespace heed {

std::unique_ptr<AttentionRun> NewRoutedRun(const RoutedAttention& attention);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_ROUTED_RUN_H_
