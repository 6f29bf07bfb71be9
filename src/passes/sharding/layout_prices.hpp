#pragma once
// Numbers layouts, and remembers the price of moving a value from one to another, for passes that compare
// many.
#include "passes/sharding/pricing.hpp"

#include <map>
#include <unordered_map>

namespace trivium {

class LayoutPrices {
public:
    /// `graph`, `parts` and what `config` points to must outlive this.
    LayoutPrices(const Graph& graph, const AxisParts& parts, const PartitionConfig& config)
        : g_(graph), pricing_(graph, parts, config), shape_of_(graph.values.size(), -1)
    {
    }

    /// The number of `layout`; equal layouts have the same number.
    int number(const Layout& layout);
    const Layout& layout(int number) const { return layouts_[static_cast<std::size_t>(number)]; }
    /// The number of the layout without its partial sums.
    int without_partial(int number) { return this->number({layout(number).axes, {}}); }
    /// Bytes that a rank sends to move v from layout `from` to the axes of layout `to`
    /// (Pricing::bytes_moved).
    double bytes(int from, int to, ValueId v, bool sums_wait);
    /// Bytes of the largest shard of v in layout `number`.
    double size(int number, ValueId v);
    Pricing& pricing() { return pricing_; }

private:
    std::uint64_t key(ValueId v, int from, int to);

    const Graph& g_;
    Pricing pricing_;
    std::unordered_map<std::string, int> numbers_; ///< by a text of the layout
    std::string text_;                             ///< of number(), kept for its memory
    std::vector<Layout> layouts_;
    std::map<std::pair<DType, Shape>, int> shapes_;
    std::vector<int> shape_of_; ///< by value; -1: not yet known
    std::unordered_map<std::uint64_t, double> bytes_, sizes_;
};

} // namespace trivium
