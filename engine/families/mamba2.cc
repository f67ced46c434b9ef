// "mamba2" (Dao and Gu 2024): as Mamba (mamba.cc), its mixers {in_proj, conv1d, dt_bias, A_log, D, norm,
// out_proj}. The gated norm is over each group by itself, as transformers 5 has it; in files that 4 wrote, as
// that has it, over the whole width.
#include "engine/families/mamba.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadMamba2Family(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const int64_t groups = Size(fields, "n_groups", 8);
  MambaShape shape{.hidden_size = Size(fields, "hidden_size", 4096),
                   .num_hidden_layers = Size(fields, "num_hidden_layers", 64, kMostLayers),
                   .vocab_size = Size(fields, "vocab_size", 32768),
                   .num_heads = Size(fields, "num_heads", 128),
                   .tokens = {.bos = 0, .eos = 2, .pad = 1}};
  shape.attention = {{"type", "mamba2"},
                     {"head_dim", Size(fields, "head_dim", 64)},
                     {"state_size", Size(fields, "state_size", 128)},
                     {"num_groups", groups},
                     {"kernel", Size(fields, "conv_kernel", 4, 64)},
                     {"norm_groups", checkpoint.version() < 5 ? 1 : groups},
                     {"norm_eps", fields.Number("layer_norm_epsilon", 1e-5, 0, 1)}};
  ReadTimeStepLimit(fields, shape.attention);
  return ReadMambaModel(checkpoint, shape);
}

}  // namespace heed
