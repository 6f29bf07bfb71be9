#pragma once
// Attributes of ops and initial contents of values: typed members, listed once each for printing, parsing,
// checking and merging.
#include "base/dtype.hpp"
#include "base/rope_angles.hpp"
#include "base/sequence_order.hpp"
#include "ir/factors.hpp"
#include "ir/type.hpp"

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

/// Names a member of Attributes or an integer list. Rows of the op table do not name `sizes` and `offsets`,
/// which follow from an op's rule.
enum class Attr : std::uint8_t {
    axis,
    from,
    to,
    tag,
    reader,
    dtype,
    combine,
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
    rate,
    weight_decay,
    momentum,
    alpha,
    beta,
    space,
    direction,
    sharding,
    offset,
    activation,
    cap,
    // Lists of integers.
    dims,
    shape,
    start,
    limit,
    stride,
    low,
    high,
    interior,
    window,
    dilation,
    base,
    groups,
    offset_dims,
    collapsed_dims,
    batch_dims,
    index_batch_dims,
    index_map,
    index_dim,
    slice_sizes,
    clamp,
    count,
    descending,
    backwards,
    by_input,
    begin,
    whole,
    owned,
    needed,
    chunk,
    rounded,
    interleaved,
    stream,
    order,
    routing,
    spread,
    capacity,
    expected
};

/// A list attribute's name in text, in the order of Attr. With `single`, it is one integer.
struct ListName {
    Attr attr;
    const char* name;
    bool single = false;
};
inline constexpr ListName list_names[] = {
    {Attr::dims, "dims"},
    {Attr::shape, "shape"},
    {Attr::start, "start"},
    {Attr::limit, "limit"},
    {Attr::stride, "stride"},
    {Attr::low, "low"},
    {Attr::high, "high"},
    {Attr::interior, "interior"},
    {Attr::window, "window"},
    {Attr::dilation, "dilation"},
    {Attr::base, "base"},
    {Attr::groups, "groups", true},
    {Attr::offset_dims, "offset_dims"},
    {Attr::collapsed_dims, "collapsed_dims"},
    {Attr::batch_dims, "batch_dims"},
    {Attr::index_batch_dims, "index_batch_dims"},
    {Attr::index_map, "index_map"},
    {Attr::index_dim, "index_dim", true},
    {Attr::slice_sizes, "sizes"},
    {Attr::clamp, "clamp", true},
    {Attr::count, "count", true},
    {Attr::descending, "descending", true},
    {Attr::backwards, "backwards", true},
    {Attr::by_input, "by_input", true},
    {Attr::begin, "begin"},
    {Attr::whole, "whole"},
    {Attr::owned, "owned"},
    {Attr::needed, "needed"},
    {Attr::chunk, "chunk", true},
    {Attr::rounded, "rounded", true},
    {Attr::interleaved, "interleaved", true},
    {Attr::stream, "stream"},
    {Attr::order, "order"},
    {Attr::routing, "routing"},
    {Attr::spread, "spread"},
    {Attr::capacity, "capacity", true},
    {Attr::expected, "expected", true},
};
/// The row of a list attribute.
constexpr const ListName& list_name(Attr attr)
{
    return list_names[static_cast<std::size_t>(attr) - static_cast<std::size_t>(Attr::dims)];
}

/// The integer lists of an op, in the order of Attr. Most ops have none.
class NumberLists {
public:
    struct Entry {
        Attr attr;
        std::vector<i64> numbers;
        bool operator==(const Entry&) const = default;
    };

    NumberLists() = default;
    NumberLists(std::initializer_list<Entry> entries)
    {
        for (const Entry& entry : entries)
            set(entry.attr, entry.numbers);
    }
    /// The list, or null; valid until the next set().
    const std::vector<i64>* find(Attr attr) const;
    /// Adds the list, or replaces it.
    void set(Attr attr, std::vector<i64> numbers);
    const std::vector<Entry>& entries() const { return entries_; }
    bool operator==(const NumberLists&) const = default;

private:
    std::vector<Entry> entries_;
};

/// The attributes of an op. The op table lists which members an op requires and which are optional.
struct Attributes {
    std::optional<std::string> axis{};     ///< of a message, or, possibly joint, of a collective
    std::optional<i64> from{}, to{};       ///< coordinate of a message's sender or receiver on `axis`
    std::optional<i64> tag{};              ///< of a message: messages with the same tag stay in order
    std::optional<i64> reader{};           ///< the stage that reads a message first, if no neighbour
    std::optional<DType> dtype{};          ///< of the result
    std::optional<Space> space{};          ///< of a copy's result; empty: that of the operands
    std::optional<Combine> combine{};      ///< of a reduction
    std::optional<double> clip{};          ///< maximum norm; 0: no clipping
    std::optional<Rule> rule{};            ///< the op's factor rule, if its row has none
    std::optional<Fp8Formats> fp8{};       ///< to which a product's operands are rounded
    std::optional<std::vector<i64>> dim{}; ///< per operand: the dimension that is gathered or scattered
    FactorSizes sizes{};                   ///< of factors that no operand has
    FactorSizes offsets{};                 ///< of indexed factors: the first index on this rank
    std::optional<std::vector<i64>> at{};  ///< per operand: its position in the result
    std::optional<double> eps{};           ///< of a norm: added under the square root
    std::optional<double> scale{};         ///< of attention scores, or of an update's direction
    std::optional<double> value{};         ///< of a fill
    std::optional<double> rate{}; ///< of dropout: the share of elements that become 0; or the step of a bias
    std::optional<double> weight_decay{};
    std::optional<double> momentum{};        ///< factor of the old momentum in the new one
    std::optional<double> alpha{}, beta{};   ///< coefficients of a weighted sum, or of alpha x + beta
    std::optional<std::string> direction{};  ///< of a comparison
    std::optional<std::string> sharding{};   ///< over the manual axes, of `local` and `global`
    std::optional<double> offset{};          ///< added to the weight of a norm
    std::optional<std::string> activation{}; ///< a name of an Activation
    std::optional<double> cap{};             ///< of numbers x, which become cap tanh(x / cap)
    NumberLists lists{};

    /// The first index of `factor` on this rank; 0 if it is not sharded.
    i64 offset_of(std::string_view factor) const;
    /// The order in which the op has the tokens of a sequence.
    SequenceOrder order_of_tokens() const;
    bool operator==(const Attributes&) const = default;
};

/// Calls visit(Attr, name, member) for each member of Attributes except the lists, in the order in which they
/// print. A size is printed under its factor's name, an offset under that name followed by "_offset".
template <class Visit>
void each_attribute(Visit&& visit)
{
    visit(Attr::axis, "axis", &Attributes::axis);
    visit(Attr::from, "from", &Attributes::from);
    visit(Attr::to, "to", &Attributes::to);
    visit(Attr::tag, "tag", &Attributes::tag);
    visit(Attr::reader, "reader", &Attributes::reader);
    visit(Attr::dtype, "dtype", &Attributes::dtype);
    visit(Attr::combine, "combine", &Attributes::combine);
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
    visit(Attr::rate, "rate", &Attributes::rate);
    visit(Attr::weight_decay, "weight_decay", &Attributes::weight_decay);
    visit(Attr::space, "space", &Attributes::space);
    visit(Attr::momentum, "momentum", &Attributes::momentum);
    visit(Attr::alpha, "alpha", &Attributes::alpha);
    visit(Attr::beta, "beta", &Attributes::beta);
    visit(Attr::direction, "direction", &Attributes::direction);
    visit(Attr::sharding, "sharding", &Attributes::sharding);
    visit(Attr::offset, "offset", &Attributes::offset);
    visit(Attr::activation, "activation", &Attributes::activation);
    visit(Attr::cap, "cap", &Attributes::cap);
}

/// A set of members.
class AttrSet {
public:
    constexpr AttrSet() = default;
    constexpr AttrSet(std::initializer_list<Attr> members)
    {
        for (const Attr a : members)
            bits_[word(a)] |= bit(a);
    }
    constexpr bool has(Attr a) const { return (bits_[word(a)] & bit(a)) != 0; }

private:
    static constexpr std::size_t word(Attr a) { return static_cast<std::size_t>(a) / 64; }
    static constexpr u64 bit(Attr a) { return u64{1} << (static_cast<unsigned>(a) % 64); }

    std::array<u64, 2> bits_{};
};

/// The attributes of an op that fuses two: those of `first`, and those that only `second` has.
Attributes merged(Attributes first, const Attributes& second);

// How a value of lifetime run is initialised. Each kind lists its members as visit(name, member, bound), or
// as visit(name, member, bound, usual) if text may lack the member: it then has the value `usual`.

/// The range of a member, which must be finite.
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

struct UniformInit { ///< independent uniform numbers from -bound to bound
    double bound = 0;
    static constexpr const char* name = "uniform";
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("bound", self.bound, Bound::from_zero);
    }
    bool operator==(const UniformInit&) const = default;
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

struct RopeTableInit { ///< of a table [positions, pairs, 2], in f64 or f32
    RopeAngles angles{.scaling = llama3_scaling(1)};
    static constexpr const char* name = "rope_table";
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        auto& s = self.angles.scaling;
        visit("theta", self.angles.theta, Bound::above_zero);
        visit("factor", s.factor, Bound::above_zero);
        visit("low_freq_factor", s.low_freq_factor, Bound::above_zero);
        visit("high_freq_factor", s.high_freq_factor, Bound::above_zero);
        visit("original_seq", s.original_seq, Bound::above_zero);
        visit("kind", s.kind, Bound::any, RopeKind::llama3);
        visit("beta_fast", s.beta_fast, Bound::above_zero, 32.0);
        visit("beta_slow", s.beta_slow, Bound::above_zero, 1.0);
        visit("attention_factor", s.attention_factor, Bound::from_zero, 0.0);
        visit("mscale", s.mscale, Bound::from_zero, 0.0);
        visit("mscale_all_dim", s.mscale_all_dim, Bound::from_zero, 0.0);
        visit("truncate", s.truncate, Bound::any, true);
        visit("seq", self.angles.seq, Bound::from_zero, i64{0});
        visit("short_factors", s.short_factors, Bound::above_zero, std::vector<double>());
        visit("long_factors", s.long_factors, Bound::above_zero, std::vector<double>());
    }
    bool operator==(const RopeTableInit&) const = default;
};

/// The first alternative: no initial content.
using Init = std::variant<std::monostate, NormalInit, UniformInit, FillInit, RopeTableInit>;

/// Throws UserError if `op` has an attribute that its row does not list, lacks a required one, or has one
/// with an impossible value. \pre `rule` is rule_of(graph, op)
void check_attributes(const Graph& graph, const Op& op, const FactorRule& rule);
/// Throws UserError if a member of the initial content of `value` is out of its bound.
void check_init(const Graph& graph, const Value& value);

} // namespace trivium
