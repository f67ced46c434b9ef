// The attention of the Extended Transformer Construction (Ainslie et al. 2020), of one of its two streams of
// rows. A stream's rows meet one another and those of the other stream in one softmax:
//   long rows    see the long ones within `radius`, and the global ones
//   global rows  see all of both
//   score(i, j) = (q_i . k_j + q_i . E[label(i, j)] + b[label(i, j)]) / sqrt(head_dim)
// The label is the distance within a stream, up to D to either side; between the streams, whether the long
// row belongs to the global one (RowLabel::kMember, of the long rows).
//
// No part of variants.def: it stands in one architecture only, which names the stream.
//   radius                     of long rows, to either side
//   max_distance D (0)         0: there are no labels
//   share_projections (true)   one q, k and v for all of both streams
//   hard_l2g, hard_g2l (false) between the streams a row sees only what belongs to it, or it to
// Tensors, "_global" of the global stream: q, k, v; without share_projections q_global, {k,v}_l2g (of global
// rows, read by long ones), {k,v}_g2g, {k,v}_g2l; with labels relative_embedding, relative_embedding_global
// [2 D + 3 or more, heads, head_dim], relative_bias, relative_bias_global [2 D + 3 or more, heads]: the
// distances 0 .. D, then -1 .. -D, then "does not belong", "belongs".
#ifndef HEED_ENGINE_ATTENTION_ETC_H_
#define HEED_ENGINE_ATTENTION_ETC_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/attention/attention.h"

namespace heed {

enum class EtcStream { kLong, kGlobal };

// `setting` is of cross-attention: the other stream is the source, which comes whole, before the rows. With
// shared projections its keys and values are lent (Product::lent).
absl::StatusOr<std::unique_ptr<Attention>> NewEtcAttention(const AttentionSetting& setting, EtcStream stream,
                                                           JsonFields& fields, const WeightScope& scope);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_ETC_H_
