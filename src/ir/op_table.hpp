#pragma once
// The op table: everything that the passes, the planner and the printer know about an op, one row per op. The
// rows are in ops.inc. A new op is one row there, one kernel, one line in runtime/dispatch, and two tests.
#include "ir/factors.hpp"
#include "ir/graph.hpp"

#include <optional>

namespace trivium {

class Builder;

/// Result `result` uses the buffer of operand `operand`: always (`must`), or if nothing reads the operand
/// later.
struct Alias {
    int result = 0;
    int operand = 0;
    bool must = false;
};

/// Operands and results that may be columns of a wider value (ir/general/columns.hpp): bit i is the one at
/// position i.
struct ColumnsAt {
    std::uint32_t operands = 0, results = 0;
};

/// Kind of library or kernel scratch that an op may use; the machine file states the bytes of each kind.
enum class ScratchKind { none, product, attention, reduction, exchange };

/// The op that a gradient differentiates, and the gradients of its results.
class Tape {
public:
    virtual ~Tape() = default;
    virtual const Op& op() const = 0;
    virtual Builder& build() = 0;
    ValueId operand(int i) const { return op().operands[static_cast<std::size_t>(i)]; }
    ValueId result(int i) const { return op().results[static_cast<std::size_t>(i)]; }
    /// Gradient of result i; invalid if the loss does not depend on it.
    virtual ValueId grad(int i) const = 0;
    virtual bool requires_grad(int i) const = 0; ///< of operand i
    /// Adds one contribution to operand i's gradient.
    virtual void accumulate_grad(int i, ValueId gradient) = 0;
};

/// The element type of a result.
struct ResultType {
    enum class Of : std::uint8_t { operand, accumulator, f64, i32, attribute, each };
    Of of{};
    int operand = 0;

    static constexpr ResultType like(int operand) { return {Of::operand, operand}; }
    /// The accumulator type of operand 0.
    static constexpr ResultType accumulator() { return {Of::accumulator}; }
    static constexpr ResultType f64() { return {Of::f64}; }
    static constexpr ResultType i32() { return {Of::i32}; }
    /// That of the operand with the result's position.
    static constexpr ResultType each() { return {Of::each}; }
    /// The attribute `dtype`.
    static constexpr ResultType attribute() { return {Of::attribute}; }
};

/// Which element types an operand may have. `same`: that of the first operand that is any or real.
enum class OperandType : std::uint8_t { any, real, i32, same };

/// What one rank computes of an op: its range of each factor, and the boxes of operands and results.
struct LocalPart {
    const Graph& graph; ///< of all ranks
    const Op& op;       ///< of all ranks
    const FactorRule& rule;
    std::vector<IndexRange> factors;
    std::vector<Box> operands, results;
    std::vector<bool> first; ///< by factor: the rank holds the first shard
};

struct OpInfo {
    OpKind kind{};
    const char* name = "";
    std::optional<Rule> rule{}; ///< none: `factors`, or the op's attribute `rule`
    /// The factors, if they follow from attributes and shapes. Throws UserError if these do not fit.
    FactorRule (*factors)(const Graph&, const Op&) = nullptr;
    /// Changes the attributes to those of one rank's part; null: they stay.
    void (*localize)(Attributes&, const LocalPart&) = nullptr;
    std::optional<int> operands{}; ///< if the rule is an attribute: number of operands; none: one or more
    const char* (*rejects)(const Rule&) = nullptr; ///< what such a rule must be and is not; null: it fits
    std::vector<ResultType> results{};
    std::vector<OperandType> types{}; ///< of the operands; the last one repeats. Empty: not checked
    AttrSet needs{}, may_have{};
    AttrSet of_part{}; ///< those of `may_have` that `localize` adds: a graph of all ranks has none
    void (*gradient)(Tape&) = nullptr; ///< null: no gradient flows through
    /// Model FLOPs; null: not counted.
    Flops (*flops)(const Op&, const FactorRule&) = nullptr;
    std::vector<Alias> in_place{};
    ScratchKind scratch = ScratchKind::none;
    /// Minimum scratch of the op's own kernel (on one thread), from its rule and the bytes of an accumulator
    /// element; null: the fixed budget of its kind is enough.
    Bytes (*least_scratch)(const Op&, const FactorRule&, Bytes element) = nullptr;
    bool accumulates = false; ///< may add into an accumulator (Op::accumulate)
    bool variadic = false;    ///< the last operand's pattern repeats
    bool linear = false;      ///< partial sums of its operands give a partial sum of its result (is_linear)
    bool placement = false;   ///< the identity; the sharding of its result determines which data move
    bool contributes =
        false;          ///< may lack operands, which count as 0: exactly one of all ranks contributes each
    bool cheap = false; ///< selective recomputation computes it again: large results for little work
    bool communicates = false; ///< moves data between ranks, along the mesh axis of its attribute `axis`
    bool exchanges = false; ///< moves boxes between ranks, of a tensor that they hold in parts (exchange.hpp)
    bool parts =
        false; ///< the operand's (or the result's) parts along one dimension are its results (operands)
    bool columns = false; ///< the operand's (or the result's) columns are its results (operands)
    bool view = false;    ///< with `columns`: the parts are in the buffer of the whole, so nothing runs
    ColumnsAt may_be_columns{};
    bool separable = false; ///< parts of a factor may be computed separately: joined if a result has it,
                            ///< added if only operands have it
    bool bucket = false;    ///< may have several operands of one element type, with one result per operand
    bool reshapes = false;  ///< moves elements only, like an element-wise op for propagation
    bool forward_first = false; ///< the same, from operands to results only
    bool expands = false;       ///< repeats elements: propagation goes from operands to results last
    bool manual = false;        ///< the boundary of a manual region
    bool enters = false;        ///< with `manual`: its result is inside
};

const OpInfo& info(OpKind kind);
inline const OpInfo& info(const Op& op) { return info(op.kind); }
/// The row called `name`, or null.
const OpInfo* find_op(std::string_view name);
std::vector<std::string> op_names();

/// The place of an op, for messages: "FILE.graph:12: layers.0.attn.matmul".
std::string place_of(const Graph& graph, const Op& op);

/// The op's factors. Throws UserError if the operands do not fit. \pre operands exist in `graph`
FactorRule rule_of(const Graph& graph, const Op& op);
/// Whether partial sums of the op's operands give a partial sum of its result. A cast that loses digits does
/// not, unless it was made to send fewer bytes (Op::stays_partial); nor does one of integers, whose partial
/// sums may wrap.
bool is_linear(const Graph& graph, const Op& op);
/// The required types of the op's results.
std::vector<TensorType> infer(const Graph& graph, const Op& op);
/// The same with the op's factors, if they are known.
std::vector<TensorType> infer(const Graph& graph, const Op& op, const FactorRule& rule);
/// Which results may or must use which operands' buffers.
std::vector<Alias> aliases_of(const Op& op);
/// The operand whose buffer result `result` must use, or an invalid id.
ValueId aliased_operand(const Op& op, std::size_t result);
bool updates_in_place(const Op& op); ///< whether some result must be in the buffer of an operand
/// The dimension of which the operands or the results of an op with `parts` are parts.
std::size_t divided_dim(const Graph& graph, const Op& op);
/// Lifetime of that result: that of the operand that it aliases, otherwise that of its region.
Lifetime result_lifetime(const Graph& graph, const Op& op, std::size_t result);
/// Where an op's results are: where its attribute says (a copy), otherwise where its operands are.
Space result_space(const Graph& graph, const Op& op);
/// Model FLOPs of one execution.
Flops flops_of(const Graph& graph, const Op& op);
/// Minimum scratch of one execution; 0 if the op states none.
Bytes least_scratch_of(const Graph& graph, const Op& op);
/// Bytes of all operands and results, each counted once: a lower bound of the memory traffic.
Bytes bytes_of(const Graph& graph, const Op& op);

} // namespace trivium
