#pragma once
// parallel.bucket: which collectives are merged, by a mode that is not "auto".
#include "config/run_config.hpp"
#include "passes/collectives/bucket.hpp"
#include "plan/bucket_plan.hpp"
#include "plan/machine.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trivium {

/// The machine for which "auto", "greedy" and "global" are decided: parallel.machine, by default an H100 on
/// devices and a CPU core on hosts, with the config's delays. It does not depend on where the run is, so that
/// all ranks and `plan` decide alike. \throws UserError if the name is unknown
Machine deciding_machine(const ParallelConfig& config, bool is_device);

/// parallel.bucket; for "auto" a mode that is seldom far from the best.
std::string usual_buckets(const ParallelConfig& config);

/// The profile of a local graph without buckets, and the classes of the collectives in it.
struct GraphProfile {
    BucketProfile profile;
    std::vector<BucketClass> gathers, reductions; ///< in the profile's order
    /// The config with these buckets. Other classes are merged up to BucketConfig::bytes, or by block if
    /// reductions after the microbatches wait for them.
    BucketConfig config_of(const BucketPlan& plan) const;
};

/// Makes buckets for the graphs of several stages; equal profiles are planned once.
class BucketPlans {
public:
    /// \pre `config` outlives the BucketPlans
    BucketPlans(const RunConfig& config, Machine machine) : config_(config), machine_(std::move(machine)) {}

    /// The buckets of all ranks of a stage; `graph`: of its first rank. `mode`: "none", "block", "greedy",
    /// "global", or a number of bytes. "greedy" and "global" hold for what the profile has. All-reduces that
    /// are awaited are merged while their latency is longer than what their bytes take.
    BucketConfig with_mode(const Graph& graph, const std::string& mode);
    const Machine& machine() const { return machine_; }
    i64 threads() const { return std::max<i64>(1, config_.parallel.threads); }

private:
    struct Known {
        BucketProfile profile;
        std::map<std::string, BucketPlan> plans; ///< by mode
    };

    /// The profile of the collectives along the data axis: of the gathers of each pass, and of the
    /// reductions, the class with most bytes.
    GraphProfile profile(const Graph& graph) const;
    /// The plan of a profile, made once per mode. \pre `mode` is "greedy" or "global"
    const BucketPlan& plan(const BucketProfile& profile, const std::string& mode);
    /// with_mode() of collectives that are not awaited.
    BucketConfig with_mode_of_others(const Graph& graph, const std::string& mode);

    const RunConfig& config_;
    Machine machine_;
    std::vector<Known> known_;
};

} // namespace trivium
