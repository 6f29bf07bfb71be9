#pragma once
// parallel.bucket = "auto".
#include "compile/bucket_plans.hpp"

namespace trivium {

/// Chooses the mode in which the collectives of a stage are merged: the one with the shortest simulated step
/// of min(microbatches, 2) microbatches.
class BucketChooser {
public:
    /// \pre `plans` outlives the BucketChooser
    explicit BucketChooser(BucketPlans& plans) : plans_(plans) {}

    /// The mode of a stage. `graph`: of the stage's first rank, without buckets.
    std::string choose(const Graph& graph, i64 microbatches);

private:
    std::string best(const Graph& graph, const GraphProfile& found, i64 microbatches);

    BucketPlans& plans_;
    std::vector<std::pair<BucketProfile, std::string>> known_; ///< the chosen mode of each profile
};

} // namespace trivium
