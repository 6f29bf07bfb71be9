#pragma once
// parallel.bucket = "auto".
#include "compile/bucket_plans.hpp"

namespace trivium {

/// The mode in which the collectives of a stage are merged: parallel.bucket, or, if that is "auto", the mode
/// with the shortest step of min(microbatches, 2) microbatches on the simulator's clock.
class BucketChooser {
public:
    /// \pre `plans` outlives it
    explicit BucketChooser(BucketPlans& plans) : plans_(plans) {}

    /// `graph`: that of the stage's first rank, without buckets.
    std::string choose(const Graph& graph, i64 microbatches);

private:
    std::string best(const Graph& graph, const GraphProfile& found, i64 microbatches);

    BucketPlans& plans_;
    std::vector<std::pair<BucketProfile, std::string>> known_; ///< the best of each profile
};

} // namespace trivium
