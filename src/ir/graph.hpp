#pragma once
// The Graph: ops over values in static single assignment, in two regions.
//
// The microbatch region runs once per microbatch, the step region once per optimizer step: its ops before the
// microbatches (the prologue, e.g. casts of parameters) and after them (the epilogue, e.g. norm and update).
// A Carry hands a value to the next iteration of its region: an accumulator over microbatches, or a state
// over steps. Its output is in the same buffer as its input. An accumulator starts at zero: in microbatch 0
// the first op that adds into it writes instead of adding.
#include "base/id.hpp"
#include "ir/attributes.hpp"
#include "ir/copy_on_write.hpp"
#include "ir/mesh.hpp"

#include <string>
#include <vector>

namespace trivium {

using ValueId = Id<struct ValueTag>;
using OpId = Id<struct OpTag>;

enum class Region { prologue, microbatch, epilogue };
/// forward, backward and weights divide a microbatch: the forward pass, the backward pass, and, if the
/// backward pass is split (passes/pipeline/split_backward.hpp), its gradients of weights. update: the
/// epilogue.
enum class Phase { forward, backward, weights, update };

/// How long a value's bytes are kept: the whole run, one step, or one microbatch.
enum class Lifetime { run, step, microbatch };

/// The origin of a value.
enum class Role {
    computed,  ///< an op's result
    input,     ///< fed by the host for each microbatch (tokens, targets, positions)
    hyper,     ///< fed by the host for each step (learning rate, cache position)
    parameter, ///< changed as its ParameterUpdate says; of lifetime run
    state,     ///< of lifetime run: a parameter's moments, or a KV cache
    constant,  ///< computed once at the start
    carry,     ///< an accumulator over microbatches; starts at zero
    kept,      ///< of lifetime run: left by the previous step or another program; not in checkpoints
};

std::string_view name_of(Region region);
std::string_view name_of(Role role);
std::string_view name_of(Phase phase);
/// How long a value of this role is kept; of a computed one, in a microbatch.
Lifetime lifetime_of(Role role);

/// What an op computes; the op table (op_table.hpp) has one row per kind.
enum class OpKind : std::uint8_t {
#define TRV_OP(op, ...) op,
#include "ir/ops.inc"
#undef TRV_OP
};

/// A state that an optimizer keeps of a parameter.
struct OptimizerState {
    std::string parameter; ///< its global name; empty: no optimizer's state
    OpKind update{};       ///< the op that changes the state
    int index = 0;         ///< of the state in OpInfo::states
};

/// How a step changes a parameter; update_rows has a row of each.
enum class UpdateKind : std::uint8_t {
    optimizer, ///< by train.optimizer, from its gradient
    average,   ///< p = decay p + (1 - decay) x, with x the mean of a value over the step's microbatches
    balance,   ///< p += rate sign(mean of all x - x), with x the sum of a value over the step's microbatches
    frozen,    ///< not at all: there is no gradient
};

struct ParameterUpdate {
    UpdateKind kind = UpdateKind::optimizer;
    double number = 0; ///< its meaning: UpdateRow::number

    bool operator==(const ParameterUpdate&) const = default;
};

/// How a parameter's update differs from that of others, as models of other widths need it.
struct UpdateFactors {
    double rate = 1;  ///< of the learning rate
    double decay = 1; ///< of the weight decay
    double eps = 1;   ///< of AdamW's eps

    bool operator==(const UpdateFactors&) const = default;
};

struct UpdateRow {
    UpdateKind kind;
    const char *name, *number; ///< in the text of a graph, `update NAME(NUMBER=0.9)`; null: not in it
    double most = 0;           ///< of the number, which is not negative
    /// Who makes what the update reads, the carry `grad.PARAMETER`: the gradient functions of the ops that
    /// read the parameter; otherwise the model.
    bool by_autodiff = false;
};

inline constexpr UpdateRow update_rows[] = {{UpdateKind::optimizer, nullptr, nullptr, 0, true},
                                            {UpdateKind::average, "average", "decay", 1, false},
                                            {UpdateKind::balance, "balance", "rate", 1, true},
                                            {UpdateKind::frozen, "frozen", nullptr, 0, false}};

inline const UpdateRow& row_of(UpdateKind kind) { return update_rows[static_cast<int>(kind)]; }

struct Value {
    std::string name; ///< unique; a parameter's is its global name
    TensorType type;
    Role role = Role::computed;
    Lifetime lifetime = Lifetime::microbatch;
    OpId producer;          ///< valid if role is computed
    CopyOnWrite<Init> init; ///< for parameter, state and constant
    bool decay = false;     ///< a parameter to which weight decay applies
    Space space = Space::device;
    int rows = 0;  ///< of a layer's weight matrix: the number of leading dimensions that are rows, the others
                   ///< are columns; 0: not such a matrix
    int stack = 0; ///< with `rows`: dimensions before those; each index of them has a matrix of its own
    ParameterUpdate update;  ///< of a parameter
    UpdateFactors factors;   ///< of a parameter; not in the text of a graph
    OptimizerState state_of; ///< if role is state; not in the text of a graph
    CopyOnWrite<Sharding> sharding;
    int line = 0; ///< in the graph's file; 0: made by the program
    Shape whole;  ///< in a local graph, for values that no op computes or a collective moves: the shape over
                  ///< all ranks; empty: that of `type`
};

struct Op {
    OpKind kind{};
    std::vector<ValueId> operands;
    std::vector<ValueId> results;
    CopyOnWrite<Attributes> attrs;
    Region region = Region::microbatch;
    Phase phase = Phase::forward;
    bool accumulate = false; ///< the last operand is an accumulator: result 0 is added into its buffer
    int line = 0;            ///< in the graph's file; 0: made by the program
    int block = 0;           ///< unit of pipeline stages: 0 embedding, 1..layers, layers + 1 head
    std::string scope;       ///< its module, e.g. "layers.3.attn"
    /// By factor of the op's rule: the axes that shard it, chosen by look_ahead(); empty: partition()
    /// chooses.
    std::vector<std::vector<std::string>> division;
    bool stays_partial = false; ///< it runs on partial operands, and its result is reduced: set by
                                ///< look_ahead(), with `division`, for a cast that makes messages smaller, or
                                ///< for products of low rank, whose result joins other partial sums
    int together = 0; ///< neighbouring exchanges with one such number, which is the same on all ranks, begin
                      ///< together; 0: none. Set by ring()
};

/// `out` is the content of `in`'s buffer in the next iteration of its region.
struct Carry {
    ValueId in, out;
    int line = 0; ///< in the graph's file; 0: made by the program
};

struct Graph {
    std::string name;
    std::string file; ///< from which it was parsed, for messages; empty: made by the program
    Mesh mesh;
    int mesh_line = 0; ///< in the file
    Coordinates at;    ///< of a local graph: the coordinates of its rank
    /// The pipeline stage of each block; empty: stage 0 for all. A rank's graph lists all blocks.
    std::vector<int> stage_of_block;
    std::vector<Value> values;
    std::vector<Op> ops; ///< prologue, then microbatch, then epilogue; each in an executable order
    std::vector<Carry> carries;
    std::vector<ValueId> outputs; ///< values that the host reads, by name

    const Value& operator[](ValueId id) const { return values[id.index()]; }
    Value& operator[](ValueId id) { return values[id.index()]; }
    const Op& operator[](OpId id) const { return ops[id.index()]; }

    /// The value called `name`, or an invalid id. O(values).
    ValueId find(std::string_view name) const;
    std::vector<ValueId> with_role(Role role) const; ///< in order of creation
    Graph without_ops() const;                       ///< a copy; its values still name producers
};

/// Whether the optimizer changes it, and its gradient counts in the global norm.
inline bool is_trained(const Value& value)
{
    return value.role == Role::parameter && value.update.kind == UpdateKind::optimizer;
}

/// Makes a parameter one that no step changes.
inline void freeze(Value& parameter)
{
    parameter.update = {UpdateKind::frozen, 0};
    parameter.decay = false;
    parameter.rows = parameter.stack = 0;
}

/// The start of a message about that line: "FILE.graph:12: ", "FILE.graph: " without a line, "" without a
/// file.
std::string source_place(const Graph& graph, int line);

/// The pipeline stage of an op.
int stage_of(const Graph& graph, const Op& op);
/// The box, of the tensor over all ranks, that a value of a local graph holds; the whole tensor in other
/// graphs. \pre no op computes the value, or it has `whole`
Box box_of(const Graph& graph, const Value& value);
/// The shape of the tensor over all ranks of which `value` holds a box.
const Shape& whole_shape(const Value& value);
/// By value: how many operands, outputs and next contents of carries it is.
std::vector<int> uses_of(const Graph& graph);
/// The ops of these indices in this order; drops the others.
void reorder(Graph& graph, const std::vector<std::size_t>& order);
/// Sorts the ops by region and keeps their order within a region, for builders that switch between regions.
void sort_regions(Graph& graph);
/// Moves the ops from `first` on: op `first + i` goes before op `before[i]`, which is earlier than `first`.
/// Ops that go before the same op keep their order.
void move_before(Graph& graph, std::size_t first, const std::vector<std::size_t>& before);
/// Keeps the flagged ops and values, and renumbers them. Throws InternalError if a kept op, a carry or an
/// output needs a dropped value.
void keep_only(Graph& graph, const std::vector<bool>& ops, const std::vector<bool>& values);

} // namespace trivium
