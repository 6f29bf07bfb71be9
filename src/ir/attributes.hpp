#pragma once
// Attributes of ops and initial contents of values: typed members, listed once each for printing, parsing,
// checking and merging.
#include "base/dtype.hpp"
#include "ir/factors.hpp"

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trivium {

struct Graph;
struct Op;
struct Value;

/// The FP8 formats of a product's operands 0 and 1.
using Fp8Formats = std::array<Fp8, 2>;

/// What an op has beside its operands. The op table says which members an op needs or may have.
struct Attributes {
    std::optional<std::string> axis{};     ///< mesh axis of a collective or a message, or the joint axis
    std::optional<i64> from{}, to{};       ///< coordinate on that axis, of a message's sender or receiver
    std::optional<i64> channel{};          ///< of a message: those of one channel stay in order
    std::optional<DType> dtype{};          ///< of the result
    std::optional<Combine> combine{};      ///< of a reduction
    std::optional<i64> offset{};           ///< of a slice: its first index
    std::optional<double> clip{};          ///< largest norm; 0: none
    std::optional<Rule> rule{};            ///< where the table has none
    std::optional<Fp8Formats> fp8{};       ///< formats to which a product's operands are rounded
    std::optional<std::vector<i64>> dim{}; ///< per operand: the dimension that is gathered, scattered, sliced
    FactorSizes sizes{};                   ///< of factors that no operand has
    FactorSizes offsets{};                 ///< of indexed factors: the first index that this rank has
    std::optional<std::vector<i64>> at{};  ///< per operand: its place in the result
    std::optional<double> eps{};           ///< in a norm's root
    std::optional<double> scale{};         ///< of attention's scores
    std::optional<double> value{};         ///< to fill with
    std::optional<double> weight_decay{};

    /// The first index of `factor` on this rank; 0 where it is not sharded.
    i64 offset_of(std::string_view factor) const;
    bool operator==(const Attributes&) const = default;
};

/// Names a member of Attributes; sizes and offsets are no choice of an op's, they follow from its rule.
enum class Attr : std::uint8_t {
    axis,
    from,
    to,
    channel,
    dtype,
    combine,
    offset,
    clip,
    rule,
    fp8,
    dim,
    sizes,
    offsets,
    at,
    eps,
    scale,
    value,
    weight_decay
};

/// Calls visit(Attr, name, member) for each member of Attributes, in the order in which they print. A size
/// prints under its factor's name, an offset under that with "_offset" behind it.
template <class Visit>
void each_attribute(Visit&& visit)
{
    visit(Attr::axis, "axis", &Attributes::axis);
    visit(Attr::from, "from", &Attributes::from);
    visit(Attr::to, "to", &Attributes::to);
    visit(Attr::channel, "channel", &Attributes::channel);
    visit(Attr::dtype, "dtype", &Attributes::dtype);
    visit(Attr::combine, "combine", &Attributes::combine);
    visit(Attr::offset, "offset", &Attributes::offset);
    visit(Attr::clip, "clip", &Attributes::clip);
    visit(Attr::rule, "rule", &Attributes::rule);
    visit(Attr::fp8, "fp8", &Attributes::fp8);
    visit(Attr::dim, "dim", &Attributes::dim);
    visit(Attr::sizes, "", &Attributes::sizes);
    visit(Attr::offsets, "_offset", &Attributes::offsets);
    visit(Attr::at, "at", &Attributes::at);
    visit(Attr::eps, "eps", &Attributes::eps);
    visit(Attr::scale, "scale", &Attributes::scale);
    visit(Attr::value, "value", &Attributes::value);
    visit(Attr::weight_decay, "weight_decay", &Attributes::weight_decay);
}

/// A set of members.
class AttrSet {
public:
    constexpr AttrSet() = default;
    constexpr AttrSet(std::initializer_list<Attr> members)
    {
        for (const Attr a : members)
            bits_ |= 1u << static_cast<unsigned>(a);
    }
    constexpr bool has(Attr a) const { return (bits_ >> static_cast<unsigned>(a) & 1u) != 0; }

private:
    unsigned bits_ = 0;
};

/// The attributes of two ops in one: those of `first`, and those that only `second` has.
Attributes merged(Attributes first, const Attributes& second);

// How a value that is kept over the run gets its initial content. Each lists its members as visit(name,
// member, bound).

enum class Bound { any, from_zero, above_zero };

struct NormalInit { ///< independent normal numbers with mean 0
    double std = 0;
    static constexpr const char* name = "normal";
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("std", self.std, Bound::from_zero);
    }
    bool operator==(const NormalInit&) const = default;
};

struct FillInit {
    double value = 0;
    static constexpr const char* name = "fill";
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("value", self.value, Bound::any);
    }
    bool operator==(const FillInit&) const = default;
};

struct RopeTableInit { ///< as kernels/rope_table.hpp fills it
    double theta = 0, factor = 1, low_freq_factor = 1, high_freq_factor = 4;
    i64 original_seq = 0;
    static constexpr const char* name = "rope_table";
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("theta", self.theta, Bound::above_zero);
        visit("factor", self.factor, Bound::above_zero);
        visit("low_freq_factor", self.low_freq_factor, Bound::above_zero);
        visit("high_freq_factor", self.high_freq_factor, Bound::above_zero);
        visit("original_seq", self.original_seq, Bound::above_zero);
    }
    bool operator==(const RopeTableInit&) const = default;
};

/// The first alternative: none is given.
using Init = std::variant<std::monostate, NormalInit, FillInit, RopeTableInit>;

/// Throws UserError where `op` has an attribute that its row does not name, lacks one, or has one with a
/// value that cannot be. `rule` is the op's.
void check_attributes(const Graph& graph, const Op& op, const FactorRule& rule);
/// The same for the initial content of `value`.
void check_init(const Graph& graph, const Value& value);

} // namespace trivium
