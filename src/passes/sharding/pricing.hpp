#pragma once
// What it costs to bring a value from one sharding to another, or to the boxes that an op reads.
#include "passes/partition.hpp"
#include "passes/sharding/op_sharding.hpp"

#include <string>
#include <unordered_map>

namespace trivium {

/// All names of axes, by dimension.
std::vector<std::string> names_in(const DimAxes& axes);
/// Appends a text that no other layout has, for keys.
void append_text(std::string& text, const Layout& layout);
void append_text(std::string& text, const DimAxes& axes);
/// The shard of a value by this sharding.
Box shard_of(const Graph& graph, const Value& value, const DimAxes& axes, const Coordinates& at);

/// Whether v is kept longer than a microbatch, or is such a value resharded (a gathered parameter).
bool outlives_microbatch(const Graph& graph, ValueId v);

/// An operand that an op reads in boxes that are not shards: how it gets them.
struct Approach {
    DimAxes axes;   ///< the sharding from which
    bool exchanges; ///< from its neighbours; otherwise each rank has all that it needs
    double bytes;
};

/// What an op costs per byte that it reads or writes, where a byte that moves costs 1: next to nothing. The
/// time for memory and the latency of collectives would move choices in opposite directions.
inline constexpr double touching = 1e-3;

/// Bytes that a rank sends, on average, and work in the same unit. Remembers what it has computed.
class Pricing {
public:
    Pricing(const Graph& graph, const AxisParts& parts, const WorkPrices& work)
        : g_(graph), parts_(parts), work_(work), layouts_(30'000 + 100 * static_cast<int>(graph.ops.size()))
    {
    }

    /// A rank's part of the op's FLOPs and of the bytes that it reads and writes: all of them, divided by the
    /// ranks that share them.
    double work(const Op& op, const OpSharding& sharding, const Assignment& assignment) const;

    /// `sums_wait`: without the sums that the value may keep open (put_off_sums).
    double bytes_moved(const Layout& from, const DimAxes& to, const Value& value, bool sums_wait = false);
    /// The cheaper way to operand i of an op.
    Approach approach(const OpSharding& sharding, std::size_t i, const Assignment& assignment,
                      const Layout& from, const Value& value);
    /// Bytes that ranks exchange to bring result r from the boxes that they compute into its shards.
    double bytes_exchanged(const OpSharding& sharding, std::size_t r, const Assignment& assignment,
                           const Value& value) const;

private:
    /// The bytes of a rank's box that its shard lacks.
    double bytes_lacking(const DimAxes& from, const OpSharding& sharding, std::size_t operand,
                         const Assignment& assignment, const Value& value) const;

    const Graph& g_;
    const AxisParts& parts_;
    WorkPrices work_;
    int layouts_;                                    ///< that searches may still visit
    std::unordered_map<std::string, double> shares_; ///< of the elements, by both layouts and the shape
    std::string key_;                                ///< of bytes_moved(), kept for its memory
};

} // namespace trivium
