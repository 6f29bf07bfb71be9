#include "ir/verify.hpp"

#include "base/check.hpp"
#include "ir/general/columns.hpp"
#include "ir/general/manual.hpp"
#include "ir/limits.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <type_traits>
#include <unordered_set>

namespace trivium {

namespace {

/// Throws if the rule does not hold. Strings are built only then, because a large model has many values and
/// is verified after each pass.
#define TRV_RULE(holds, ...)                                                                                 \
    do {                                                                                                     \
        if (!(holds))                                                                                        \
            refuse(__VA_ARGS__);                                                                             \
    } while (false)

class Verifier {
public:
    Verifier(const Graph& graph, Level level) : g_(graph), level_(level) {}

    void run()
    {
        check_values();
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            check_op(OpId(i));
        check_carries();
        for (const ValueId id : g_.outputs)
            TRV_RULE(id.index() < g_.values.size(), place(0), "an output names no value", "name a value");
        if (level_ != Level::local)
            check_manual(g_);
        check_columns(g_);
    }

private:
    /// `where`: a string, or a function that makes one.
    template <class Where>
    [[noreturn]] static void refuse(const Where& where, const std::string& problem, const std::string& remedy)
    {
        if constexpr (std::is_invocable_v<Where>)
            throw UserError({where(), problem, "", remedy});
        else
            throw UserError({where, problem, "", remedy});
    }

    /// "FILE.graph:12: what", or without a file "graph 'name', what".
    std::string place(int line, const std::string& what = "") const
    {
        if (!g_.file.empty())
            return source_place(g_, line) + (what.empty() ? str("graph '", g_.name, "'") : what);
        return str("graph '", g_.name, "'", what.empty() ? "" : ", " + what);
    }

    std::string name(ValueId id) const { return "%" + g_[id].name; }

    void check_values()
    {
        check_mesh(g_.mesh, g_.file.empty() ? place(0) + ", " : place(0, ""));
        TRV_RULE(g_.at.empty() || g_.at.size() == g_.mesh.axes.size(), place(0),
                 "the number of its coordinates differs from the number of mesh axes", "name each axis once");
        for (std::size_t a = 0; a < g_.at.size(); ++a)
            TRV_RULE(g_.at[a] >= 0 && g_.at[a] < g_.mesh.axes[a].size, place(0),
                     str("coordinate ", g_.at[a], " is outside axis '", g_.mesh.axes[a].name, "'"),
                     str("use 0 to ", g_.mesh.axes[a].size - 1));
        std::unordered_set<std::string_view> names;
        Bytes bytes = 0;
        for (const Value& v : g_.values) {
            const auto here = [&] { return place(v.line, "%" + v.name); };
            TRV_RULE(names.insert(v.name).second, here, "the name is used twice", "rename one of the two");
            TRV_RULE(v.producer.valid() == (v.role == Role::computed), here,
                     "a value has either a producer or a role", "give it a producer or a role");
            check_shape(v, v.type.shape, level_ == Level::local ? 0 : 1, here); // a rank's shard may be empty
            check_shape(v, v.whole, 1, here);
            TRV_RULE(v.type.bytes() <= max_graph_tensors - bytes, here,
                     "the tensors up to this one have more than 2^58 bytes", "use a smaller graph");
            bytes += v.type.bytes();
            check_sharding(v, here);
            check_init(g_, v);
            check_update(v, here);
        }
        defined_.assign(g_.values.size(), false);
        overwritten_.assign(g_.values.size(), false);
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            defined_[i] = g_.values[i].role != Role::computed;
    }

    template <class Where>
    void check_update(const Value& v, const Where& here) const
    {
        const UpdateRow& row = row_of(v.update.kind);
        if (!row.name)
            return;
        TRV_RULE(v.role == Role::parameter, here, str("has the update ", row.name),
                 str("remove it, because only a parameter has one, and this is a value of the role ",
                     name_of(v.role)));
        TRV_RULE(!v.decay && v.rows == 0, here, str("has the update ", row.name, ", and `decay` or `rows`"),
                 "remove one of the two: decay and rows are for the optimizer");
        TRV_RULE(v.update.number >= 0 && v.update.number <= row.most, here,
                 str("has the update ", row.name, " with the number ", v.update.number),
                 str("use a number from 0 to ", row.most));
    }

    template <class Where>
    void check_shape(const Value& v, const Shape& shape, i64 least, const Where& here) const
    {
        TRV_RULE(shape.size() <= max_dims, here, str("has more than ", max_dims, " dimensions"),
                 "join dimensions");
        i64 elements = 1;
        for (const i64 extent : shape) {
            TRV_RULE(extent >= least, here, str("has an empty dimension: ", TensorType{v.type.dtype, shape}),
                     "make every extent positive");
            TRV_RULE(elements <= max_elements / std::max<i64>(extent, 1), here,
                     str("has more than 2^48 elements: ", TensorType{v.type.dtype, shape}),
                     "make it smaller");
            elements *= std::max<i64>(extent, 1);
        }
    }

    /// Where a sharding names an axis, or a part of one.
    struct Use {
        std::string_view axis, how; ///< how: "sharded"
        int dim = -1;
    };

    /// Refuses an axis of which another use has a part.
    template <class Where>
    void require_unused(std::vector<Use>& used, const Use& use, const Where& here) const
    {
        for (const Use& other : used) {
            if (!g_.mesh.overlap(use.axis, other.axis))
                continue;
            const auto named = [](const Use& u) {
                return u.dim < 0 ? str("it is ", u.how, " over '", u.axis, "'")
                                 : str("dimension ", u.dim, " is ", u.how, " over '", u.axis, "'");
            };
            throw UserError({here(),
                             use.how == other.how ? str("is ", use.how, " over '", use.axis, "' twice")
                                                  : str("is ", use.how, " over '", use.axis, "', and ",
                                                        other.how, " over '", other.axis, "'"),
                             str(named(other), ", ", named(use)), "use an axis once in a sharding"});
        }
        used.push_back(use);
    }

    template <class Where>
    void check_sharding(const Value& v, const Where& here) const
    {
        const auto& dims = v.sharding->dims;
        TRV_RULE(dims.size() == v.type.shape.size() || (level_ != Level::sharded && dims.empty()), here,
                 str("has ", v.type.shape.size(), " dimensions, its sharding ", dims.size()),
                 "shard each dimension, with - for none");
        std::vector<Use> used;
        std::unordered_set<std::string_view> summed;
        for (const Partial& p : v.sharding->partial) {
            TRV_RULE(g_.mesh.has_group(p.axis), here,
                     str("is partial over ", unknown_axis(g_.mesh, p.axis).which),
                     unknown_axis(g_.mesh, p.axis).remedy);
            TRV_RULE(summed.insert(p.axis).second, here, str("is partial over '", p.axis, "' twice"),
                     "use an axis once");
            TRV_RULE(level_ != Level::global || g_.mesh.size_of(p.axis).has_value(), here,
                     str("is partial over '", p.axis, "', which joins axes"),
                     "name the axes one by one, like <-|x:sum y:sum>");
            TRV_RULE(p.combine != Combine::lse || is_floating(v.type.dtype), here,
                     str("is partial with the combiner lse, but has elements of ", name_of(v.type.dtype)),
                     "use sum, max, min or product");
            if (level_ != Level::local && g_.mesh.size_of(p.axis))
                require_unused(used, {p.axis, "partial"}, here);
        }
        for (std::size_t d = 0; d < dims.size(); ++d) {
            i64 parts = 1;
            for (const std::string& axis : dims[d].axes) {
                const std::optional<i64> size = g_.mesh.size_of(axis);
                TRV_RULE(size.has_value(), here, str("is sharded over ", unknown_axis(g_.mesh, axis).which),
                         unknown_axis(g_.mesh, axis).remedy);
                require_unused(used, {axis, "sharded", static_cast<int>(d)}, here);
                parts *= *size;
            }
            TRV_RULE(level_ == Level::local || parts <= v.type.shape[d], here,
                     str("dimension ", d, " of ", v.type.shape[d], " is sharded into ", parts, " parts"),
                     "use a smaller axis, or another dimension");
        }
        for (const std::string& axis : v.sharding->replicated) {
            TRV_RULE(g_.mesh.size_of(axis).has_value(), here,
                     str("is replicated over ", unknown_axis(g_.mesh, axis).which),
                     unknown_axis(g_.mesh, axis).remedy);
            require_unused(used, {axis, "replicated"}, here);
        }
        if (!v.whole.empty() || (!g_.at.empty() && v.role != Role::computed)) {
            const Shape& whole = whole_shape(v);
            TRV_RULE(!g_.at.empty(), here,
                     "has a shape over all ranks, but the graph is not that of one rank",
                     "write a line `at`, or remove `of`");
            TRV_RULE(whole.size() == v.type.shape.size() && box_of(g_, v).shape == v.type.shape, here,
                     str(v.type, " is not this rank's shard of ", TensorType{v.type.dtype, whole}),
                     "correct the type, the sharding, or the type after `of`");
        }
    }

    void check_op(OpId id)
    {
        const Op& op = g_[id];
        const auto place = [&] {
            return this->place(op.line,
                               str("op ", id, " ", op.scope.empty() ? "" : op.scope + ".", info(op).name));
        };
        TRV_RULE(op.block >= 0 && op.block < max_blocks, place, str("is in block ", op.block),
                 str("give a block from 0 to ", max_blocks - 1));
        TRV_RULE(g_.stage_of_block.empty() || static_cast<std::size_t>(op.block) < g_.stage_of_block.size(),
                 place, str("is in block ", op.block, ", which has no stage"),
                 "list the stage of each block");
        TRV_RULE(op.region != Region::microbatch || op.phase != Phase::update, place,
                 "is an update in a microbatch", "use forward, backward or weights there");
        Bytes bytes = 0;
        TRV_RULE(op.region >= region_, place, "follows an op of a later region",
                 "the order is prologue, microbatch, epilogue");
        region_ = op.region;
        for (const ValueId& v : op.operands) {
            TRV_RULE(v.index() < g_.values.size() && defined_[v.index()], place,
                     v.index() < g_.values.size() ? name(v) + " is used before it is computed"
                                                  : "an operand names no value",
                     "order the ops so that each value is computed before it is read");
            TRV_RULE(!overwritten_[v.index()], place,
                     name(v) + " is read after its buffer was updated in place",
                     "read the update's result instead");
            TRV_RULE(op.region == Region::microbatch || g_[v].lifetime != Lifetime::microbatch, place,
                     name(v) + " has the lifetime of a microbatch", "add it into a carry");
            TRV_RULE(op.region != Region::microbatch || g_[v].role != Role::carry ||
                         (op.accumulate && &v == &op.operands.back()),
                     place, name(v) + " is read in a microbatch, which can only add to it",
                     "read the sum in the epilogue");
            const OpId producer = g_[v].producer;
            TRV_RULE(op.region != Region::microbatch || !producer ||
                         g_[producer].region != Region::microbatch || g_[producer].phase <= op.phase,
                     place,
                     str(name(v), " is computed in phase ", name_of(g_[producer].phase),
                         " and read in phase ", name_of(op.phase)),
                     "move one of the two ops");
            bytes = add(bytes, v, place);
        }
        TRV_RULE(!op.accumulate || info(op).accumulates, place, "cannot add into an accumulator",
                 "use accumulate");
        for (const ValueId v : op.results) {
            TRV_RULE(v.index() < g_.values.size(), place, "a result names no value", "name each result");
            bytes = add(bytes, v, place);
        }
        const FactorRule rule = rule_of(g_, op);
        const std::vector<TensorType> types = infer(g_, op, rule);
        TRV_RULE(types.size() == op.results.size(), place,
                 str("has ", op.results.size(), " results, computes ", types.size()), "name each result");
        for (std::size_t i = 0; i < types.size(); ++i) {
            const ValueId v = op.results[i];
            TRV_RULE(g_[v].producer == id, place, name(v) + " has another producer",
                     "give each value one producer");
            TRV_RULE(!defined_[v.index()], place, name(v) + " is computed twice", "name each result once");
            TRV_RULE(g_[v].type == types[i], place,
                     str(name(v), " is declared ", g_[v].type, ", but computed as ", types[i]),
                     "correct the type");
            defined_[v.index()] = true;
            if (const ValueId into = aliased_operand(op, i)) {
                TRV_RULE(g_[into].type == g_[v].type, place,
                         str(name(into), " is ", g_[into].type, ", updated in place as ", g_[v].type),
                         "use one type");
                TRV_RULE(g_[into].lifetime == g_[v].lifetime, place, name(v) + " outlives its buffer", "");
                TRV_RULE(!overwritten_[into.index()], place, name(into) + " is updated in place twice",
                         "read the first update's result instead");
                overwritten_[into.index()] = true;
            }
        }
        check_attributes(g_, op, rule);
        check_spaces(op, place);
    }

    /// An op computes in one space; only a copy has its result in the other. What communicates is on the
    /// device.
    template <class Where>
    void check_spaces(const Op& op, const Where& place) const
    {
        for (const ValueId v : op.operands)
            TRV_RULE(g_[v].space == g_[op.operands[0]].space, place,
                     str(name(v), " is in the memory of the ", name_of(g_[v].space), ", ",
                         name(op.operands[0]), " in that of the ", name_of(g_[op.operands[0]].space)),
                     "copy one of the two");
        for (const ValueId v : op.results)
            TRV_RULE(g_[v].space == result_space(g_, op), place,
                     name(v) + " is not in the memory where the op computes", "copy the result");
        TRV_RULE(!op.attrs->space || g_[op.operands[0]].space != *op.attrs->space, place,
                 "copies a value to where it is", "read the value itself");
        TRV_RULE(!info(op).communicates || result_space(g_, op) == Space::device, place,
                 "communicates from the memory of the host", "copy its operand to the device");
    }

    template <class Where>
    Bytes add(Bytes bytes, ValueId v, const Where& place) const
    {
        TRV_RULE(g_[v].type.bytes() <= max_graph_tensors - bytes, place,
                 "its operands and results have more than 2^58 bytes", "use smaller ones");
        return bytes + g_[v].type.bytes();
    }

    void check_carries() const
    {
        std::vector<bool> carried(g_.values.size(), false);
        for (const Carry& carry : g_.carries) {
            const auto at_fault = [&](ValueId v) { return place(carry.line, name(v)); };
            TRV_RULE(carry.in.index() < g_.values.size() && carry.out.index() < g_.values.size(),
                     place(carry.line), "a carry names no value", "name two values");
            TRV_RULE(!carried[carry.in.index()], at_fault(carry.in), "is carried twice", "keep one carry");
            const Role role = g_[carry.in].role;
            TRV_RULE(role == Role::carry ||
                         (g_[carry.in].lifetime == Lifetime::run && role != Role::constant),
                     at_fault(carry.in), str("has the role '", name_of(role), "', which cannot be carried"),
                     "only a carry, a state, a parameter or a kept value can be carried");
            TRV_RULE(carry.in != carry.out, at_fault(carry.in), "is carried to itself",
                     "carry it to the value that updates it");
            carried[carry.in.index()] = true;
            ValueId at = carry.out;
            while (at != carry.in) {
                const OpId producer = g_[at].producer;
                ValueId before;
                if (producer)
                    for (std::size_t i = 0; i < g_[producer].results.size(); ++i)
                        if (g_[producer].results[i] == at)
                            before = aliased_operand(g_[producer], i);
                TRV_RULE(before.valid(), at_fault(carry.out),
                         "is not computed in the buffer of " + name(carry.in) +
                             ", although it is its next content",
                         "update in place");
                at = before;
            }
        }
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            TRV_RULE(g_.values[i].role != Role::carry || carried[i],
                     place(g_.values[i].line, "%" + g_.values[i].name), "an accumulator without a carry",
                     "add a line `carried` with its next content");
    }

    const Graph& g_;
    Level level_;
    Region region_ = Region::prologue;
    std::vector<bool> defined_, overwritten_;
};

} // namespace

void verify(const Graph& graph, Level level) { Verifier(graph, level).run(); }

} // namespace trivium
