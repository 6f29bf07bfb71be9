#pragma once
// The ways in which each op may run, by what its neighbours see of them, and what its operands and results
// cost: the vocabulary of the lookahead.
#include "passes/sharding/layout_prices.hpp"

#include <deque>
#include <memory>
#include <optional>
#include <set>

namespace trivium {

/// How an op reads a value: in a layout, as the partial sums that it has, or in boxes of its own.
struct Need {
    int layout = -1; ///< by number (LayoutPrices)
    bool pending = false;
    int boxes = -1; ///< by number
    auto operator<=>(const Need&) const = default;
};

/// A need that cannot be met: from a value that is nowhere complete (from < 0).
inline constexpr double impossible_cost = 1e30;

struct OpOption {
    Assignment assignment;
    std::vector<Need> needs; ///< by operand
    std::vector<int> made;   ///< by result: the layout
    double own = 0;          ///< the cost that depends on no other op: exchanges of results, and the work
                             ///< beyond that of the sharding that propagation found
    bool pending = false;    ///< its operands stay partial
};

struct OpPlan {
    std::unique_ptr<OpSharding> sharding;
    std::vector<OpOption> options;
    std::size_t chosen = 0; ///< what the op alone would choose, with every tensor in its own sharding
    double least_work = 0;  ///< with the axes that its tensors have
};

class OpPlans {
public:
    /// All must outlive it. `sums`: by value (sums_that_wait).
    OpPlans(const Graph& graph, const PartitionConfig& config, std::vector<bool> sums);

    /// Whether the rules of the lookahead hold for the op: it only computes, within a microbatch.
    bool plain(const Op& op) const;
    /// The options of a plain op; at first those of the op alone (OpSharding::assignments).
    OpPlan& of(std::size_t op);
    const OpOption& chosen(std::size_t op) { return of(op).options[of(op).chosen]; }
    /// Adds the options to shard any factor, if they are not more than `most`, with the axes of a factor in
    /// every order that some dimension in the graph has; and those to run on partial sums that the options of
    /// its producers make. Of options that differ in nothing that others see, only the cheapest stays.
    void widen(std::size_t op, std::size_t most);

    /// The layout of a value by its own sharding.
    int home(ValueId v)
    {
        int& known = homes_[v.index()];
        if (known < 0)
            known = prices_.number({dim_axes(g_[v].sharding), {}});
        return known;
    }
    /// Bytes that a rank sends, and where that is not 0 a little for the collective: of equals the fewest.
    double bytes(int from, int to, ValueId v)
    {
        return with_latency(prices_.bytes(from, to, v, sums_[v.index()]), v);
    }
    /// What an op's need costs. A value that outlives the microbatch would move in every microbatch, which
    /// is never worth it.
    double bytes(int from, const Need& need, ValueId v);
    LayoutPrices& prices() { return prices_; }
    const AxisParts& parts() const { return parts_; }
    /// Which result of its producer the value is.
    std::size_t result_of(ValueId v) const;

private:
    double with_latency(double bytes, ValueId v) const
    {
        return bytes > 0 ? bytes + 8 * touching * static_cast<double>(g_[v].type.bytes()) : 0;
    }
    /// What equal ops have in common, as those of repeated layers are.
    struct Model {
        std::size_t op = 0;                        ///< the first of them
        OpPlan plan;                               ///< of(), but for the sharding
        std::optional<std::vector<OpOption>> wide; ///< widen(), but for what depends on producers
        bool boxes = false;                        ///< boxes are of one op alone, so no other op is equal
    };
    Model& model_of(std::size_t op);
    /// Different for ops that differ in more than their attributes.
    std::string key_of(std::size_t op) const;
    OpOption option_of(std::size_t op, Assignment assignment);
    double alone(std::size_t op, const OpOption& option);
    std::vector<OpOption> wide_options(std::size_t op, std::size_t most);
    void add_orders(std::size_t op, std::size_t most, std::vector<OpOption>& all);
    void add_pending(std::size_t op, std::vector<OpOption>& all);

    /// An operand that is read in other boxes than shards.
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
    std::vector<int> homes_; ///< by value; -1: not asked yet
    std::vector<OpPlan> ops_;
    std::unordered_map<std::string, std::deque<Model>> models_; ///< by key_of()
    std::vector<Boxes> boxes_;
    std::map<std::tuple<std::size_t, std::size_t, Assignment>, int> box_numbers_;
    std::set<std::pair<PartId, PartId>> orders_;       ///< major and minor axes of dimensions
    std::map<std::pair<int, int>, double> approaches_; ///< by layout and boxes
};

} // namespace trivium
