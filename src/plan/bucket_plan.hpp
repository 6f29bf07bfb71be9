#pragma once
// Which collectives travel together: bucket boundaries from the durations of compute and transfers.
#include "ir/graph.hpp"

#include <compare>
#include <string>
#include <vector>

namespace trivium {

/// A collective in the profile of a step.
struct ProfiledTransfer {
    /// Of a gather: the first segment that reads its result. Of a reduction: the last segment for which it
    /// waits.
    std::size_t segment = 0;
    Bytes sent = 0;  ///< by a rank
    Bytes whole = 0; ///< of the gathered result, or of the tensor to reduce
    int block = 0;   ///< of the model
    bool operator==(const ProfiledTransfer&) const = default;
};

/// One forward and one backward pass of a rank: segments of compute in their order, the collectives that may
/// be merged, and the limits of buckets. All ranks of a group have the same profile, so they make the same
/// plan.
struct BucketProfile {
    std::vector<Seconds> segments;
    std::size_t backward = 0;                 ///< the first segment of the backward pass
    std::vector<ProfiledTransfer> gathers;    ///< by segment; no bucket contains some of both passes
    std::vector<ProfiledTransfer> reductions; ///< by segment
    bool gathers_ahead = false; ///< all gathers may begin at once; otherwise one bucket ahead of its readers
    bool reductions_wait = false; ///< a reduction's result is needed when the next begins (it is added)
    Seconds gather_latency = 0, reduction_latency = 0; ///< of a bucket, whatever its bytes
    double bytes_per_second = 1;
    Bytes largest = 0; ///< maximum `whole` bytes of a bucket of several tensors; 0: no maximum
    Bytes most = 0;    ///< the same for a bucket per block, which has no other maximum
    Bytes memory = 0;  ///< maximum bytes in flight (BucketEstimate::in_flight); 0: no maximum

    Seconds compute() const; ///< of all segments
    bool operator==(const BucketProfile&) const = default;
};

/// The number of consecutive collectives in each bucket.
struct BucketPlan {
    std::vector<int> gathers, reductions;
    auto operator<=>(const BucketPlan&) const = default;
};

/// What a plan costs.
struct BucketEstimate {
    Seconds total = 0;   ///< from the first gather to the last reduction
    Seconds exposed = 0; ///< of these, without compute
    Bytes in_flight = 0; ///< maximum bytes of gathered tensors and of tensors to reduce at a time
};

/// Plays the profile on a clock with one queue for compute and one for transfers, as place.hpp places them: a
/// gather begins when the compute before the first reader of the previous gather has ended, a reduction when
/// its last tensor is complete.
BucketEstimate estimate(const BucketProfile& profile, const BucketPlan& plan);

/// Whether every bucket of several tensors is within `largest`, and the plan within `memory`.
bool is_within_limits(const BucketProfile& profile, const BucketPlan& plan);

/// One collective per bucket.
BucketPlan no_buckets(const BucketProfile& profile);
/// One bucket per block and pass, or as many as `most` requires.
BucketPlan block_buckets(const BucketProfile& profile);
/// SimpleFSDP's greedy rule (Zhang et al., arXiv:2411.00284, section 4.2, and its implementation): a gather
/// joins the bucket while the bucket's transfer, with the reduction of the step before, hides behind the
/// compute of the bucket before it, and while it fits `largest` and `memory`; closing it also closes the
/// reductions so far. The last reductions are small: a bucket of them closes when less than five times its
/// duration of compute is left. No bucket is changed once it is closed.
BucketPlan greedy_buckets(const BucketProfile& profile);
/// The plan of least estimated time that a search finds within the limits: from the plans above and from
/// buckets of equal bytes it moves, adds and removes boundaries as long as that saves time. Never worse than
/// those of them that are within the limits.
BucketPlan global_buckets(const BucketProfile& profile);

} // namespace trivium
