#pragma once
// Measured durations of ops: the `ops` of a machine file.
#include "ir/graph.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// The op that takes as long: for a step of attention by blocks, attention; for others, itself.
OpKind priced_as(OpKind kind);

/// What the duration of an op depends on. `kind`: the op and its element type ("matmul f32"), of a collective
/// of several tensors also "bucket", of a product with a size below 64 "thin", of attention "query". `form`:
/// of a product " nn", " nt" or " tn", by which of its operands it reads transposed. `work`: the FLOPs of a
/// product or of attention, the bytes that a rank sends in a collective, of others (and thin products) the
/// bytes that they read and write. `size`: of a product the harmonic mean of its three extents, of attention
/// the work for one query of one head, of others the work.
struct OpMeasure {
    std::string kind, form{};
    double size = 0, work = 0;
};
/// \pre the op has operands
OpMeasure measure_of(const Graph& graph, const Op& op);

/// Work and time of ops of one kind and of similar sizes.
struct OpSample {
    std::string kind;
    double size = 0, work = 0;
    Seconds seconds = 0;
};

/// Durations by kind and size: work over a rate that is interpolated between measured sizes.
class OpTimes {
public:
    /// From a machine file: for each kind a line of sizes and rates in work per second, "matmul f32 64:2.5e10
    /// 512:8e10". \throws UserError at `place` if a line has another form
    explicit OpTimes(const std::vector<std::string>& lines, const std::string& place = "ops");

    /// nullopt: nothing is known about this kind of op.
    std::optional<Seconds> seconds(const Graph& graph, const Op& op) const;

private:
    std::map<std::string, std::vector<std::pair<double, double>>> rates_; ///< by size, ascending
};

/// OpTimes of these lines, which are parsed again only if they differ from those of the last call in this
/// thread. Valid until the next call.
const OpTimes& op_times(const std::vector<std::string>& lines);

/// The lines for a machine file: of samples within a factor of √2 in size, one rate, by their sums.
std::vector<std::string> lines_of(const std::vector<OpSample>& samples);

} // namespace trivium
