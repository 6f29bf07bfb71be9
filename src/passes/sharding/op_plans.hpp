#pragma once
// For the lookahead: the ways in which each op may be sharded, as its neighbours see them, and the prices of
// its operands and results.
#include "passes/sharding/layout_prices.hpp"

#include <deque>
#include <memory>
#include <optional>
#include <set>

namespace trivium {

/// How an op reads a value.
struct Need {
    int layout = -1;      ///< number of the layout (LayoutPrices)
    bool pending = false; ///< the op reads partial sums in `layout`
    int boxes = -1;       ///< number of the boxes that it reads instead of shards; -1: shards
    auto operator<=>(const Need&) const = default;
};

/// Price of a need that cannot be met: the value is complete in no layout (from < 0).
inline constexpr double impossible_cost = 1e30;

/// A way to run an op.
struct OpOption {
    Assignment assignment;
    std::vector<Need> needs; ///< by operand
    std::vector<int> made;   ///< by result: number of its layout
    double own = 0;          ///< the cost that depends on no other op: exchanges of results, and the work
                             ///< beyond OpPlan::least_work
    bool pending = false;    ///< it runs on partial operands
};

struct OpPlan {
    std::unique_ptr<OpSharding> sharding;
    std::vector<OpOption> options;
    std::size_t chosen = 0; ///< the option that is cheapest with every tensor in its own sharding
    double least_work = 0;  ///< of OpSharding::assignments()
};

class OpPlans {
public:
    /// `graph` must outlive this. `sums`: sums_that_wait(graph).
    OpPlans(const Graph& graph, const PartitionConfig& config, std::vector<bool> sums);

    /// Whether the lookahead may choose for the op: it only computes, in a microbatch, updates nothing in
    /// place, and no result is annotated as partial.
    bool plain(const Op& op) const;
    /// The options of the plain op with index `op`; before widen(), OpSharding::assignments().
    OpPlan& of(std::size_t op);
    const OpOption& chosen(std::size_t op) { return of(op).options[of(op).chosen]; }
    /// Replaces the options by the `most` cheapest of OpSharding::all_assignments(most), also with the axes
    /// of a factor in every order that some dimension in the graph has, and adds options to run on the
    /// partial sums that options of the operand's producer leave. Of options with equal needs and results,
    /// the cheapest stays.
    void widen(std::size_t op, std::size_t most);

    /// The number of the layout that the value's own sharding states.
    int home(ValueId v)
    {
        int& known = homes_[v.index()];
        if (known < 0)
            known = prices_.number({dim_axes(g_[v].sharding), {}});
        return known;
    }
    /// Price of moving v between layouts: bytes that a rank sends and, if any, a little for the collective.
    double bytes(int from, int to, ValueId v)
    {
        return with_latency(prices_.bytes(from, to, v, sums_[v.index()]), v);
    }
    /// Price of meeting an op's need. A value that outlives the microbatch must not move in every one: 1e9
    /// times the price, unless PartitionConfig::once.
    double bytes(int from, const Need& need, ValueId v);
    LayoutPrices& prices() { return prices_; }
    const AxisParts& parts() const { return parts_; }
    /// The position of the value among the results of its producer.
    std::size_t result_of(ValueId v) const;

private:
    double with_latency(double bytes, ValueId v) const
    {
        return bytes > 0 ? bytes + 8 * touching * static_cast<double>(g_[v].type.bytes()) : 0;
    }
    /// The options that equal ops, such as those of repeated layers, have in common.
    struct Model {
        std::size_t op = 0;                        ///< the first such op
        OpPlan plan;                               ///< of(), without `sharding`
        std::optional<std::vector<OpOption>> wide; ///< widen(), without options on partial sums
        bool boxes = false;                        ///< it reads boxes, which no other op shares
    };
    Model& model_of(std::size_t op);
    /// Equal only for ops that differ at most in their attributes.
    std::string key_of(std::size_t op) const;
    OpOption option_of(std::size_t op, Assignment assignment);
    double alone(std::size_t op, const OpOption& option);
    std::vector<OpOption> wide_options(std::size_t op, std::size_t most);
    void add_orders(std::size_t op, std::size_t most, std::vector<OpOption>& all);
    void add_pending(std::size_t op, std::vector<OpOption>& all);

    /// An operand that an op reads in boxes that are not shards.
    struct Boxes {
        std::size_t op = 0, operand = 0;
        Assignment assignment;
    };

    const Graph& g_;
    bool once_;
    AxisParts parts_;
    LayoutPrices prices_;
    std::string stage_axis_;
    std::vector<bool> sums_;
    std::vector<int> homes_; ///< by value; -1: not known yet
    std::vector<OpPlan> ops_;
    std::unordered_map<std::string, std::deque<Model>> models_; ///< by key_of()
    std::vector<Boxes> boxes_;
    std::map<std::tuple<std::size_t, std::size_t, Assignment>, int> box_numbers_;
    std::set<std::pair<PartId, PartId>> orders_;       ///< major and minor axes of dimensions
    std::map<std::pair<int, int>, double> approaches_; ///< by layout and boxes
};

} // namespace trivium
