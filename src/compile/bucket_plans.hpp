#pragma once
// parallel.bucket: which collectives travel together, by a mode that is not "auto".
#include "config/run_config.hpp"
#include "passes/bucket.hpp"
#include "plan/bucket_plan.hpp"
#include "plan/machine.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trivium {

/// The machine for which "auto", "greedy" and "global" are decided: parallel.machine, by default an H100 or a
/// CPU core, with the config's delays. It does not depend on where the run is, so that all ranks and `plan`
/// decide alike. \throws UserError if the name is unknown
Machine deciding_machine(const ParallelConfig& config, bool is_device);

/// The profile of a local graph that has no buckets yet, and the classes whose members it has.
struct GraphProfile {
    BucketProfile profile;
    std::vector<BucketClass> gathers, reductions; ///< in the profile's order
    /// The config with these buckets; the classes that are not in the profile as with `auto`.
    BucketConfig config_of(const BucketPlan& plan) const;
};
/// Of the collectives along `axis`: the gathers of each phase and the reductions, of each the class with most
/// bytes. `threads` compute. No bucket has more than `most` bytes, if that is not 0.
GraphProfile profile_of(const Graph& graph, const std::string& axis, const Machine& machine, i64 threads,
                        Bytes most);

/// Makes buckets for the graphs of several stages; equal graphs are planned once.
class BucketPlans {
public:
    /// \pre `config` outlives it
    BucketPlans(const RunConfig& config, Machine machine) : config_(config), machine_(std::move(machine)) {}

    /// For the first rank of a stage; the other ranks of the stage use the same. `mode`: "none", "block",
    /// "greedy", "global", or a number of bytes. If parallel.bucket is "auto", the mode holds for what the
    /// profile has, and other collectives are merged up to BucketConfig::bytes.
    BucketConfig with_mode(const Graph& graph, const std::string& mode);
    GraphProfile profile(const Graph& graph) const;
    /// The plan of a mode, made once for each profile.
    const BucketPlan& plan(const BucketProfile& profile, const std::string& mode);
    const RunConfig& config() const { return config_; }
    const Machine& machine() const { return machine_; }
    i64 threads() const { return std::max<i64>(1, config_.parallel.threads); }

private:
    struct Known {
        BucketProfile profile;
        std::map<std::string, BucketPlan> plans; ///< by mode
    };

    const RunConfig& config_;
    Machine machine_;
    std::vector<Known> known_;
};

} // namespace trivium
