#include "grid/mutants.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace trivium::grids {

namespace {

/// What a Comm leaves out: the collectives with the listed turns within a step, and the messages of one tag.
struct Silence {
    std::string axis;
    std::set<i64> turns;
    i64 turns_of_step = 1;
    i64 from = -1, to = -1, tag = -1;
};

struct Over : Request {
    bool test() override { return true; }
    void wait() override {}
};

void fill_with_zeros(const Piece& piece)
{
    if (piece.bytes > 0)
        std::memset(piece.data, 0, static_cast<std::size_t>(piece.bytes));
}

class SilentComm : public Comm {
public:
    SilentComm(Comm& inner, const Mesh& mesh, const Silence& silence, std::string axis,
               std::unique_ptr<Comm> owned = nullptr)
        : Comm(inner.rank(), inner.world_ranks()), owned_(std::move(owned)), inner_(inner), mesh_(mesh),
          silence_(silence), axis_(std::move(axis))
    {
    }

    std::unique_ptr<Request> exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives,
                                      int tag) override
    {
        if (tag > 0 && tag == started_ % (exchange_tags - 1) + 1) { // the next collective takes the next tag
            ++started_;
            turn_of_tag_[tag] = (started_ - 1) % silence_.turns_of_step;
        }
        if (tag == 0 || axis_ != silence_.axis || !silence_.turns.count(turn_of_tag_.at(tag)))
            return inner_.exchange(sends, receives, tag);
        for (std::size_t r = 0; r < receives.size(); ++r)
            if (r == static_cast<std::size_t>(rank()) && receives[r].bytes > 0)
                std::memcpy(receives[r].data, sends[r].data, static_cast<std::size_t>(receives[r].bytes));
            else
                fill_with_zeros(receives[r]);
        return std::make_unique<Over>();
    }

    std::unique_ptr<Request> send(int to, int tag, ConstPiece piece) override
    {
        return silent(rank(), to, tag) ? std::make_unique<Over>() : inner_.send(to, tag, piece);
    }

    std::unique_ptr<Request> receive(int from, int tag, Piece piece) override
    {
        if (!silent(from, rank(), tag))
            return inner_.receive(from, tag, piece);
        fill_with_zeros(piece);
        return std::make_unique<Over>();
    }

    std::unique_ptr<Comm> subgroup(const std::vector<int>& members) override
    {
        std::string along;
        for (const MeshAxis& axis : mesh_.axes) {
            const std::vector<i64> group = mesh_.group(mesh_.coordinates(rank()), {axis.name});
            if (axis.size > 1 && std::equal(group.begin(), group.end(), members.begin(), members.end()))
                along = axis.name;
        }
        std::unique_ptr<Comm> part = inner_.subgroup(members);
        Comm& inner = *part;
        return std::make_unique<SilentComm>(inner, mesh_, silence_, along, std::move(part));
    }

private:
    bool silent(int from, int to, int tag) const
    {
        return axis_ == silence_.axis && from == silence_.from && to == silence_.to && tag == silence_.tag;
    }

    std::unique_ptr<Comm> owned_;
    Comm& inner_;
    Mesh mesh_;
    Silence silence_;
    std::string axis_;
    i64 started_ = 0;
    std::map<int, i64> turn_of_tag_;
};

bool is_reduction(const Op& op) { return op.kind == OpKind::all_reduce || op.kind == OpKind::reduce_scatter; }

OpId find_op(const Graph& g, const Mutant& mutant)
{
    const ValueId value = g.find(mutant.value);
    TRV_CHECK(value && g[value].producer && info(g[g[value].producer]).name == mutant.kind, "no ",
              mutant.kind, " makes %", mutant.value);
    return g[value].producer;
}

/// The turns of `op` among the collectives of its axis, in the order in which the Steps start them.
Silence silence_of(const Program& program, OpId id)
{
    Silence silence;
    silence.axis = *program.graph[id].attrs->axis;
    silence.turns_of_step = 0;
    for (const Step& step : program.schedule.steps) {
        if (step.kind != StepKind::op || !is_collective(program.graph[step.op]) ||
            *program.graph[step.op].attrs->axis != silence.axis)
            continue;
        if (step.op == id)
            silence.turns.insert(silence.turns_of_step);
        ++silence.turns_of_step;
    }
    return silence;
}

} // namespace

void double_results(Graph& g, OpId id)
{
    Builder b(g);
    const Op op = g[id];
    b.where = Builder::where_of(op);
    const std::size_t first = g.ops.size();
    for (const ValueId result : op.results) {
        const ValueId twice = b.sum_of(result, result);
        g[twice].sharding = g[result].sharding;
        for (std::size_t i = 0; i < first; ++i)
            std::replace(g.ops[i].operands.begin(), g.ops[i].operands.end(), result, twice);
        for (ValueId& output : g.outputs)
            if (output == result) {
                output = twice;
                std::swap(g[twice].name, g[result].name);
            }
        for (const Carry& carry : g.carries)
            TRV_CHECK(carry.out != result, "%", g[result].name, " is carried");
    }
    // Each follows the op itself.
    std::rotate(g.ops.begin() + static_cast<std::ptrdiff_t>(id.index()) + 1,
                g.ops.begin() + static_cast<std::ptrdiff_t>(first), g.ops.end());
    for (std::size_t i = 0; i < g.ops.size(); ++i)
        for (const ValueId result : g.ops[i].results)
            g[result].producer = OpId(i);
}

std::string Mutant::text() const
{
    const std::string what = from >= 0 ? str("message from stage ", from, " to ", stage)
                                       : str(kind, " over ", axis, stage < 0 ? "" : str(", stage ", stage));
    return str(scaled ? "doubled: " : "left out: ", what, ", %", value);
}

std::vector<Mutant> mutants_of(const Case& c)
{
    std::vector<Mutant> all;
    for (const i64 rank : mesh_of(c.parallel).group(mesh_of(c.parallel).coordinates(0), {pipeline_axis})) {
        const Compiled compiled = compile(c, rank);
        const i64 stage = stage_of(mesh_of(c.parallel), rank);
        const Graph& g = compiled.programs[train_program].graph;
        for (const Op& op : g.ops) {
            if (!info(op).communicates || op.kind == OpKind::send)
                continue;
            Mutant mutant;
            mutant.axis = *op.attrs->axis;
            mutant.kind = info(op).name;
            mutant.value = g[op.results[0]].name;
            mutant.tensors = op.results.size();
            mutant.stage = mutant.axis == "world" ? -1 : stage;
            if (mutant.axis == "world" && stage > 0)
                continue;
            if (op.kind == OpKind::recv) {
                mutant.from = *op.attrs->from;
                mutant.tag = *op.attrs->tag;
            }
            all.push_back(mutant);
            mutant.scaled = true;
            if (is_reduction(op))
                all.push_back(mutant);
        }
    }
    return all;
}

Meddle meddle_for(const Case& c, const Mutant& mutant)
{
    const auto concerns = [mutant, pipeline = c.parallel.pipeline](const Graph& g) {
        return mutant.stage < 0 || pipeline == 1 || g.at[1] == mutant.stage;
    };
    Meddle meddle;
    if (mutant.scaled) {
        meddle.graph = [=](Graph& g) {
            if (concerns(g))
                double_results(g, find_op(g, mutant));
        };
    } else if (mutant.kind == "all_reduce") {
        meddle.graph = [=](Graph& g) {
            if (concerns(g))
                g.ops[find_op(g, mutant).index()].attrs.edit().axis =
                    "nobody"; // along no axis a rank is alone
        };
    } else {
        meddle.comm = [=](Comm& world, const Program& program) -> std::unique_ptr<Comm> {
            Silence silence;
            if (mutant.from >= 0) {
                silence.axis = mutant.axis;
                silence.from = mutant.from;
                silence.to = mutant.stage;
                silence.tag = mutant.tag;
            } else if (concerns(program.graph)) {
                silence = silence_of(program, find_op(program.graph, mutant));
            }
            return std::make_unique<SilentComm>(world, program.graph.mesh, silence, "world");
        };
    }
    return meddle;
}

} // namespace trivium::grids
