#pragma once
// Which collectives are merged: bucket boundaries from the durations of compute and transfers.
#include "ir/graph.hpp"

#include <compare>
#include <vector>

namespace trivium {

/// A collective in the profile of a step.
struct ProfiledTransfer {
    /// The first segment that reads the result of a gather, or the last segment for which a reduction waits.
    std::size_t segment = 0;
    Bytes sent = 0;  ///< by a rank
    Bytes whole = 0; ///< of the gathered result, or of the tensor to reduce
    int block = 0;   ///< of the model, counted from the first one in the profile
    bool operator==(const ProfiledTransfer&) const = default;
};

/// One forward and one backward pass of a rank: segments of compute in their order, the collectives that may
/// be merged, and the limits of buckets. \pre equal on all ranks of a group, so that their plans are equal
struct BucketProfile {
    std::vector<Seconds> segments;
    std::size_t backward = 0;                 ///< the first segment of the backward pass
    std::vector<ProfiledTransfer> gathers;    ///< ascending segments; no bucket spans both passes
    std::vector<ProfiledTransfer> reductions; ///< ascending segments
    bool gathers_ahead = false;   ///< all gathers may begin at once; otherwise one bucket before its readers
    bool reductions_wait = false; ///< a reduction's result is needed when the next begins (it is added)
    Seconds gather_latency = 0, reduction_latency = 0; ///< of a bucket, in addition to its bytes
    double bytes_per_second = 1;
    Bytes largest = 0; ///< maximum `whole` bytes of a bucket of several tensors; 0: no maximum
    Bytes most = 0;    ///< the only maximum of block_buckets(); 0: no maximum
    Bytes memory = 0;  ///< maximum bytes in flight (BucketEstimate::in_flight); 0: no maximum

    Seconds compute() const; ///< sum of all segments
    bool operator==(const BucketProfile&) const = default;
};

/// The number of consecutive collectives in each bucket.
struct BucketPlan {
    std::vector<int> gathers, reductions;
    auto operator<=>(const BucketPlan&) const = default;
};

/// The estimated duration and memory of a plan.
struct BucketEstimate {
    Seconds total = 0;   ///< from the first gather to the end of compute and reductions
    Seconds exposed = 0; ///< total less the compute
    /// Maximum bytes at a time of gathered tensors and of tensors to reduce, without those kept for a step.
    Bytes in_flight = 0;
};

/// Simulates the profile with one queue for compute and one for transfers, as place.hpp places them: a gather
/// begins when the compute before the first reader of the previous gather has ended, a reduction when its
/// last tensor is complete. \pre `plan` has all collectives of `profile`
BucketEstimate estimate(const BucketProfile& profile, const BucketPlan& plan);

/// Whether every bucket of several tensors is within `largest`, and the bytes in flight are within `memory`.
bool is_within_limits(const BucketProfile& profile, const BucketPlan& plan);

/// One collective per bucket.
BucketPlan no_buckets(const BucketProfile& profile);
/// One bucket per block and pass, or several if the block has more than `most` bytes.
BucketPlan block_buckets(const BucketProfile& profile);
/// SimpleFSDP's greedy rule (Zhang et al., arXiv:2411.00284, section 4.2, and its implementation): a gather
/// joins the bucket while the bucket's transfer and the last bucket of reductions together take no longer
/// than the compute of the bucket before, and while `largest` and `memory` allow it. Otherwise the buckets of
/// gathers and of reductions close. The last reductions are small: their bucket closes when less than five
/// times its duration of compute is left. Closed buckets do not change. no_buckets() if no such plan is
/// within `memory`.
BucketPlan greedy_buckets(const BucketProfile& profile);
/// The plan of the shortest estimated time that a local search finds within the limits. From the plans above
/// and from buckets of equal bytes it moves, adds and removes boundaries while that saves time. Never slower
/// than those of these plans that are within the limits; no_buckets() if none is.
BucketPlan global_buckets(const BucketProfile& profile);

} // namespace trivium
