#pragma once
// Pipeline orders as text, in the form in which torch.distributed.pipelining writes and reads them.
#include "schedule/order.hpp"

namespace trivium {

/// A row per rank, its actions separated by commas: "0F0,0F1,0B0". F: forward pass, B: backward pass, I and
/// W: its halves.
std::string to_csv(const PipelineOrder& order);

/// Parses such a text of `ranks` rows. `B` is the first half if the row has a `W` of the same stage and
/// microbatch. Empty cells, and actions that communicate (SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD,
/// REDUCE_GRAD), are skipped: the program places communication itself. The stages are placed as in any
/// PipelineShape. Throws UserError with `file` and line if a row does not parse, or the order cannot run.
PipelineOrder parse_csv(const std::string& text, const std::string& file, i64 ranks, i64 microbatches);

} // namespace trivium
