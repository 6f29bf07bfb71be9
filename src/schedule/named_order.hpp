#pragma once
// The orders of the named pipeline schedules.
#include "schedule/order.hpp"

namespace trivium {

/// The order of a named schedule; of all of them every microbatch count from 1 on is legal.
///
/// gpipe (Huang et al. 2019): every forward pass, then every backward pass, first in first out. breadth-first
/// (Lamy-Poirier 2023, arXiv:2211.05953): the same per chunk. 1f1b (Narayanan et al. 2019): rank r runs
/// ranks - r - 1 forward passes ahead, then forward and backward passes alternate. interleaved (Narayanan et
/// al. 2021, arXiv:2104.04473, section 2.2): the same over chunks, each for a group of at least `ranks`
/// microbatches; groups differ by one if the microbatches are not a multiple. zb-h1 and zb-h2 (Qi et al.
/// 2023, arXiv:2401.10241, sections 2 and 3): 1F1B whose weight gradients fill the gaps, with ranks or
/// 2 ranks - 1 microbatches in flight. zb-v (the same authors, section 6), v-half and v-min (Qi et al. 2024,
/// arXiv:2405.15362): two chunks in a V; weight gradients fill the gaps. dualpipe-v (DeepSeek-AI 2025,
/// DualPipeV): two chunks in a V, where forward passes of one alternate with backward passes of the other.
PipelineOrder named_order(ScheduleKind kind, i64 ranks, i64 chunks, i64 microbatches);

} // namespace trivium
