#include "ir/verify.hpp"

#include "base/check.hpp"
#include "ir/op_table.hpp"

#include <algorithm>
#include <unordered_set>

namespace trivium {

namespace {

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
            require(id.index() < g_.values.size(), "", "an output names no value", "");
    }

private:
    void require(bool holds, const std::string& where, const std::string& problem, const std::string& remedy) const
    {
        if (!holds)
            throw UserError({str("graph '", g_.name, "'", where.empty() ? "" : ", " + where), problem, "", remedy});
    }

    std::string name(ValueId id) const { return "%" + g_[id].name; }

    void check_values()
    {
        std::unordered_set<std::string_view> axes, names;
        i64 ranks = 1;
        for (const MeshAxis& axis : g_.mesh.axes) {
            require(axis.name != "world", "mesh axis world", "has the name of all axes together", "give it another name");
            require(axis.size <= (i64{1} << 32) / std::max<i64>(1, ranks), str("mesh axis ", axis.name), "makes more than 2^32 ranks", "make it smaller");
            ranks *= std::max<i64>(1, axis.size);
            require(axis.size > 0, str("mesh axis ", axis.name), str("has ", axis.size, " ranks"), "give it one or more");
            require(axes.insert(axis.name).second, str("mesh axis ", axis.name), "stands twice", "rename one of the two");
        }
        for (const Value& v : g_.values) {
            require(names.insert(v.name).second, "%" + v.name, "the name stands twice", "rename one of the two");
            require(v.producer.valid() == (v.role == Role::computed), "%" + v.name,
                    "a value is computed by an op, or is given: not both", "give it a producer or a role");
            i64 elements = 1;
            for (const i64 extent : v.type.shape) {
                require(extent > 0, "%" + v.name, str("has an empty dimension: ", v.type), "make every extent positive");
                require(elements <= (i64{1} << 56) / extent, "%" + v.name, str("has more than 2^56 elements: ", v.type), "make it smaller");
                elements *= extent;
            }
            require(level_ == Level::local || v.sharding.partial.empty(), "%" + v.name,
                    "a partial value in a global graph", "partition first");
            check_sharding(v);
        }
        defined_.assign(g_.values.size(), false);
        overwritten_.assign(g_.values.size(), false);
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            defined_[i] = g_.values[i].role != Role::computed;
    }

    void check_sharding(const Value& v) const
    {
        const auto& dims = v.sharding.dims;
        require(dims.size() == v.type.shape.size() || (level_ != Level::sharded && dims.empty()), "%" + v.name,
                str("has ", v.type.shape.size(), " dimensions, its sharding ", dims.size()), "shard each dimension, with - for none");
        std::unordered_set<std::string_view> used;
        for (std::size_t d = 0; d < dims.size(); ++d) {
            i64 parts = 1;
            for (const std::string& axis : dims[d].axes) {
                require(g_.mesh.find(axis) >= 0, "%" + v.name, str("is cut over '", axis, "', which is no axis of the mesh"),
                        "name an axis of the line `mesh`");
                require(used.insert(axis).second, "%" + v.name, str("is cut over '", axis, "' twice"), "use an axis once");
                parts *= g_.mesh.size(axis);
            }
            require(level_ == Level::local || parts <= v.type.shape[d], "%" + v.name,
                    str("dimension ", d, " of ", v.type.shape[d], " is cut into ", parts, " parts"), "use a smaller axis, or another dimension");
        }
    }

    void check_op(OpId id)
    {
        const Op& op = g_[id];
        const std::string place = str("op ", id, " ", op.scope.empty() ? "" : op.scope + ".", info(op).name);
        require(op.region >= region_, place, "stands after a later region", "order: prologue, microbatch, epilogue");
        region_ = op.region;
        for (const ValueId v : op.operands) {
            require(v.index() < g_.values.size() && defined_[v.index()], place,
                    v.index() < g_.values.size() ? name(v) + " is used before it is computed" : "an operand names no value",
                    "order the ops so that each value is computed first");
            require(!overwritten_[v.index()], place, name(v) + " is read after its buffer was updated in place",
                    "read the update's result instead");
            require(op.region == Region::microbatch || g_[v].lifetime != Lifetime::microbatch, place,
                    name(v) + " lives only within a microbatch", "accumulate it into a carry");
        }
        require(!op.accumulate || info(op).accumulates, place, "cannot add into an accumulator", "use accumulate");
        const std::vector<TensorType> types = infer(g_, op);
        require(types.size() == op.results.size(), place,
                str("has ", op.results.size(), " results, computes ", types.size()), "name each result");
        for (std::size_t i = 0; i < types.size(); ++i) {
            const ValueId v = op.results[i];
            require(g_[v].producer == id, place, name(v) + " has another producer", "give each value one producer");
            require(g_[v].type == types[i], place,
                    str(name(v), " is declared ", g_[v].type, ", but computed as ", types[i]), "correct the type");
            defined_[v.index()] = true;
            if (const ValueId into = aliased_operand(op, i)) {
                require(g_[into].type == g_[v].type, place,
                        str(name(into), " is ", g_[into].type, ", updated in place as ", g_[v].type), "use one type");
                require(g_[into].lifetime == g_[v].lifetime, place, name(v) + " outlives the buffer it is in", "");
                overwritten_[into.index()] = true;
            }
        }
    }

    void check_carries() const
    {
        std::vector<bool> carried(g_.values.size(), false);
        for (const Carry& carry : g_.carries) {
            require(!carried[carry.in.index()], name(carry.in), "is carried twice", "keep one carry");
            carried[carry.in.index()] = true;
            ValueId at = carry.out;
            while (at != carry.in) {
                const OpId producer = g_[at].producer;
                ValueId before;
                if (producer)
                    for (std::size_t i = 0; i < g_[producer].results.size(); ++i)
                        if (g_[producer].results[i] == at)
                            before = aliased_operand(g_[producer], i);
                require(before.valid(), name(carry.out), "does not live in the buffer of " + name(carry.in) + ", which it carries on",
                        "update in place");
                at = before;
            }
        }
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            require(g_.values[i].role != Role::carry || carried[i], "%" + g_.values[i].name,
                    "an accumulator without a carry", "say which value it becomes");
    }

    const Graph& g_;
    Level level_;
    Region region_ = Region::prologue;
    std::vector<bool> defined_, overwritten_;
};

} // namespace

void verify(const Graph& graph, Level level) { Verifier(graph, level).run(); }

} // namespace trivium
