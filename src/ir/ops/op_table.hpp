#pragma once
// The op table: everything that the passes, the planner and the printer know about an op, one row per op. The
// rows are in ops.inc. A new op is one row there, one kernel, one line in runtime/dispatch, and two tests.
#include "ir/factors.hpp"
#include "ir/graph.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace trivium {

class Builder;

/// Result `result` uses the buffer of operand `operand`: always (`must`), or if no later op reads the
/// operand.
struct Alias {
    int result = 0;
    int operand = 0;
    bool must = false;
};

/// Bit i is the operand at position i, the last bit also those behind it.
using OperandSet = std::uint32_t;
inline constexpr OperandSet all_operands = ~OperandSet{0};
constexpr bool has_operand(OperandSet set, std::size_t i)
{
    return (set >> std::min<std::size_t>(i, 31) & 1u) != 0;
}

/// \pre set != 0
constexpr std::size_t first_operand(OperandSet set)
{
    return static_cast<std::size_t>(std::countr_zero(set));
}

/// Operands and results that may be columns of a wider value (ir/general/columns.hpp): bit i is position i.
struct ColumnsAt {
    std::uint32_t operands = 0, results = 0;
};

/// How an op is computed in steps, each with a block of a factor, while the next rank's block arrives. The
/// first step is the op itself, whose result 0 then has its accumulator type (attribute `dtype`); the others
/// are ops `step`. A step with a block that does not begin at index 0 has the attribute `begin`. `step` has
/// the op's required operands, then the results so far that lack the factor, then the optional ones that its
/// row has. Results without the factor are the next state of what they were; of results with it, which ranks
/// sum, a step has its block.
struct Blocks {
    OpKind step{};
    const char* factor = ""; ///< of operands that ranks gather
    const char* own = "";    ///< the indexed factor that ranks share in the same way
    /// The part of a block that the op reads with this range of the own factor, the same for all ranks.
    IndexRange (*reads)(const Graph&, const Op&, const IndexRange& own, const IndexRange& block){};
};

/// Kind of library or kernel scratch that an op may use; the machine file states the bytes of each kind.
enum class ScratchKind { none, product, attention, reduction, exchange };

/// The op that OpInfo::gradient differentiates, and the gradients of its results.
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
    /// The element type of the operand at the result's position.
    static constexpr ResultType each() { return {Of::each}; }
    /// The attribute `dtype`.
    static constexpr ResultType attribute() { return {Of::attribute}; }
};

/// The element types that an operand may have. `same`: that of the first operand that is `any` or `real`;
/// `accumulator`: the accumulator type of that one.
enum class OperandType : std::uint8_t { any, real, i32, same, accumulator };

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
    std::optional<Rule> rule{}; ///< empty: `factors`, or the op's attribute `rule`, which replaces this one
                                ///< where the row may have both
    /// The number of operands at the end of `rule` that an op may lack. `types` gives them different types,
    /// which tell those that an op has; ask optional_operand().
    int optional = 0;
    std::vector<Rule> partial_rules{}; ///< made from `rule`: bit i of the index: with optional operand i
    /// The factors, if they follow from attributes and shapes. Throws UserError if these do not fit.
    FactorRule (*factors)(const Graph&, const Op&) = nullptr;
    /// Changes the attributes to those of one rank's op; null: they do not change.
    void (*localize)(Attributes&, const LocalPart&) = nullptr;
    std::optional<int> operands{}; ///< if the rule is an attribute: number of operands; none: one or more
    /// The requirement that the attribute `rule` violates, or null. A null pointer: any rule fits.
    const char* (*rejects)(const Rule&) = nullptr;
    std::vector<ResultType> results{};
    std::vector<OperandType> types{}; ///< of the operands; the last one repeats. Empty: not checked
    /// Throws UserError if attributes do not fit shapes; null: their places in the rule say all.
    void (*check)(const Graph&, const Op&, const FactorRule&) = nullptr;
    AttrSet needs{}, may_have{}; ///< required and optional attributes
    AttrSet of_part{};           ///< of `may_have`: added by `localize`, refused in a graph of all ranks
    void (*gradient)(Tape&) = nullptr; ///< null: autodiff() refuses the op
    /// Model FLOPs; null: not counted.
    Flops (*flops)(const Op&, const FactorRule&) = nullptr;
    std::vector<Alias> in_place{};
    /// An optimizer's op: the states that it keeps of a parameter, consecutive operands before the gradient.
    /// Values are called STATE.PARAMETER, tensors of checkpoints STATE/PARAMETER.
    std::vector<const char*> states{};
    ScratchKind scratch = ScratchKind::none;
    /// Minimum scratch of the op's own kernel (on one thread), from its rule and the bytes of an accumulator
    /// element; null: the fixed budget of its kind is enough.
    Bytes (*least_scratch)(const Op&, const FactorRule&, Bytes) = nullptr;
    bool accumulates = false; ///< may add into an accumulator (Op::accumulate)
    bool variadic = false;    ///< the last operand's pattern stands for zero or more operands
    /// Operands in which the op is linear together, given the others: if all of them are partial sums, so is
    /// its result. Ask linear_operands().
    OperandSet linear = 0;
    /// Operands that are added to what `linear` says: of the ranks whose partial sums an op runs on, each
    /// counts on one.
    OperandSet added = 0;
    std::uint32_t kept = 0;    ///< results that are never computed twice, as choices: bit i is result i
    bool placement = false;    ///< the identity; the sharding of its result determines which data move
    bool contributes = false;  ///< missing operands count as 0: of all ranks, exactly one has each operand
    bool cheap = false;        ///< for selective recomputation: large results for little work
    bool communicates = false; ///< moves data between ranks along its attribute `axis`
    bool exchanges = false;    ///< moves boxes of a sharded tensor between ranks (exchange.hpp)
    std::optional<Blocks> blocks{}; ///< it may be computed in steps
    /// Splits its operand into its results along one dimension, or concatenates its operands.
    bool parts = false;
    bool columns = false; ///< its results are columns of its operand, or its operands of its result
    bool view = false;    ///< with `columns`: all are in one buffer, so nothing runs
    ColumnsAt may_be_columns{};
    bool separable = false; ///< ranges of a factor may be computed separately: concatenated if a result
                            ///< has it, added if only operands have it
    bool bucket = false;    ///< may have several operands of one element type, with one result per operand
    bool reshapes = false;  ///< only moves or masks elements; propagation treats it as element-wise
    bool forward_first = false; ///< as `reshapes`, but at first from operands to results only
    bool expands = false;       ///< repeats elements: propagation from operands to results comes last
    bool slices = false;        ///< its result is the part of its operand that its windows read
    bool manual = false;        ///< the boundary of a manual region
    bool enters = false;        ///< with `manual`: its result is inside the region

    /// Whether its ops have, or may have, the attribute.
    bool takes(Attr attr) const { return needs.has(attr) || may_have.has(attr); }
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
/// The position among the op's operands of optional operand `which` of its row, counted from 0, or -1.
/// Throws UserError if the op has operands that do not fit.
int optional_operand(const Graph& graph, const Op& op, int which);
/// The operands that may all be partial sums, if the result then is one; 0: none. Those of a cast that loses
/// digits may not, unless Op::stays_partial; nor those of a cast from or to integers, whose partial sums may
/// wrap.
OperandSet linear_operands(const Graph& graph, const Op& op);
/// The types of the op's results. Throws UserError if the op does not fit its row.
std::vector<TensorType> infer(const Graph& graph, const Op& op);
/// As above. \pre `rule` is rule_of(graph, op)
std::vector<TensorType> infer(const Graph& graph, const Op& op, const FactorRule& rule);
/// Which results may or must use which operands' buffers, without the accumulator of Op::accumulate.
std::vector<Alias> aliases_of(const Op& op);
/// The operand, possibly the accumulator, whose buffer result `result` must use, or an invalid id.
ValueId aliased_operand(const Op& op, std::size_t result);
bool updates_in_place(const Op& op); ///< whether a result must be in an operand's buffer
/// The dimension along which the op splits or concatenates. \pre info(op).parts
std::size_t divided_dim(const Graph& graph, const Op& op);
/// Lifetime of result `result`: that of its aliased_operand(), otherwise that of the op's region.
Lifetime result_lifetime(const Graph& graph, const Op& op, std::size_t result);
/// The memory of an op's results: its attribute (a copy), otherwise that of its operands.
Space result_space(const Graph& graph, const Op& op);
/// Model FLOPs of one execution; 0 if not counted.
Flops flops_of(const Graph& graph, const Op& op);
/// Minimum scratch of one execution; 0 if the row states none.
Bytes least_scratch_of(const Graph& graph, const Op& op);
/// Bytes of all operands and results, an estimate of the memory traffic. A value that the op reads as two
/// operands counts twice.
Bytes bytes_of(const Graph& graph, const Op& op);

} // namespace trivium
