#pragma once
// Pipeline orders as CSV text, as torch.distributed.pipelining writes and reads them.
#include "schedule/order.hpp"

namespace trivium {

/// One row of actions per rank: "0F0,0F1,0B0" (stage, work, microbatch). F: forward pass, B: backward pass, I
/// and W: its two halves.
std::string to_csv(const PipelineOrder& order);

/// Parses a text of `ranks` rows. `B` means `I` if the row has a `W` of the same stage and microbatch. The
/// passes of "(0F1;1B0)OVERLAP_F_B" run one after the other. Skips empty cells and actions that communicate
/// (SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD): the compiler places communication. Throws
/// UserError with `file` and line if a row does not parse, if there are not `ranks` rows and `microbatches`,
/// if the stages are not on the ranks of a PipelineShape, or if the order cannot run.
PipelineOrder parse_csv(const std::string& text, const std::string& file, i64 ranks, i64 microbatches);

} // namespace trivium
