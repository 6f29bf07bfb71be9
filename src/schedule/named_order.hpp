#pragma once
// The orders of the named pipeline schedules.
#include "schedule/order.hpp"

namespace trivium {

/// The order of a named schedule, for any number of microbatches from 1 on. \pre chunks_of(kind) has `chunks`
/// - gpipe (Huang et al. 2019): every forward pass, then every backward pass, first in first out.
/// - breadth-first (Lamy-Poirier 2023, arXiv:2211.05953): as gpipe, one chunk after another.
/// - 1f1b (Narayanan et al. 2019): rank r runs ranks - r - 1 forward passes ahead, then forward and backward
///   passes alternate.
/// - interleaved (Narayanan et al. 2021, arXiv:2104.04473, section 2.2): as 1f1b; chunks take turns, each for
///   a group of at least `ranks` microbatches. The sizes of groups differ by at most 1.
/// - zb-h1, zb-h2 (Qi et al. 2023, arXiv:2401.10241, sections 2 and 3): as 1f1b, with weight gradients in the
///   gaps and at most `ranks` or 2 ranks - 1 microbatches in flight.
/// - zb-v (the same paper, section 6), v-half, v-min (Qi et al. 2024, arXiv:2405.15362): two chunks in a V;
///   weight gradients fill the gaps.
/// - dualpipe-v (DeepSeek-AI 2025, DualPipeV): two chunks in a V; forward passes of one chunk alternate with
///   backward passes of the other.
PipelineOrder named_order(ScheduleKind kind, i64 ranks, i64 chunks, i64 microbatches);

} // namespace trivium
