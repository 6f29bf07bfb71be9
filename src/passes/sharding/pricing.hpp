#pragma once
// Prices of moving a value from one sharding to another, or to the boxes that an op reads.
#include "passes/sharding/box_moves.hpp"
#include "passes/sharding/move_prices.hpp"
#include "passes/sharding/op_sharding.hpp"
#include "passes/sharding/partition.hpp"

#include <string>
#include <unordered_map>

namespace trivium {

/// Appends a text that differs between different layouts, for keys.
void append_text(std::string& text, const Layout& layout);
void append_text(std::string& text, const DimAxes& axes);

/// Whether v, or the value of which v is a resharded copy (a gathered parameter), is kept longer than a
/// microbatch.
bool outlives_microbatch(const Graph& graph, ValueId v);

/// How an op gets an operand that it reads in boxes that are not shards.
struct Approach {
    DimAxes axes;   ///< the value is first moved to this sharding
    bool exchanges; ///< then ranks exchange boxes; otherwise each slices its own shard
    double bytes;   ///< that a rank sends for both, on average
};

/// Price of a byte that an op reads or writes, where a byte that moves costs 1: it decides between equal
/// costs only. The true prices of memory traffic and latency would move choices in opposite directions.
inline constexpr double touching = 1e-3;

/// Prices: bytes that a rank sends, on average, and work in the same unit. Remembers what it has computed;
/// not thread-safe. `graph`, `parts` and what `config` points to must outlive it.
class Pricing {
public:
    Pricing(const Graph& graph, const AxisParts& parts, const PartitionConfig& config)
        : g_(graph), parts_(parts), work_(config.work), known_(config.moves),
          layouts_(30'000 + 100 * static_cast<int>(graph.ops.size()))
    {
    }

    /// A rank's share of the op's FLOPs and memory traffic: all, divided by the ranks that share them.
    double work(const Op& op, const OpSharding& sharding, const Assignment& assignment) const;

    /// `sums_wait`: without the reductions that put_off_sums() removes.
    double bytes_moved(const Layout& from, const DimAxes& to, const Value& value, bool sums_wait = false);
    /// The cheaper way to get operand i of an op, `value`, from the layout `from`.
    Approach approach(const OpSharding& sharding, std::size_t i, const Assignment& assignment,
                      const Layout& from, const Value& value);
    /// Bytes that a rank sends so that operand i, `value`, gets from the layout `from` to where the op reads
    /// it.
    double bytes_to_read(const OpSharding& sharding, std::size_t i, const Assignment& assignment,
                         const Layout& from, const Value& value);
    /// Bytes of the box that a rank needs which its shard by `from` lacks, on average. The boxes depend on no
    /// other axes.
    double bytes_lacking(const DimAxes& from, const BoxOf& needs, const Value& value) const;
    /// Bytes that a rank receives to move result r, `value`, from the boxes that ranks compute to its shards.
    double bytes_exchanged(const OpSharding& sharding, std::size_t r, const Assignment& assignment,
                           const Value& value) const;

private:
    /// Bytes of the box that a rank needs and does not have, on average over the ranks along `axes`.
    double bytes_lacking(const DimAxes& axes, const BoxOf& has, const BoxOf& needs, const Value& value) const;
    double share_moved(const Layout& from, const DimAxes& to, const Shape& shape, bool sums_wait);

    const Graph& g_;
    const AxisParts& parts_;
    WorkPrices work_;
    MovePrices* known_;                              ///< of other partitions; may be null
    int layouts_;                                    ///< budget of all searches (moves_between)
    std::unordered_map<std::string, double> shares_; ///< of elements that move, by layouts and shape
    std::string key_;                                ///< of bytes_moved(), kept for its memory
};

} // namespace trivium
