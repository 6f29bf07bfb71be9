#include "passes/memory/offload.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <map>

namespace trivium {

namespace {

class Offloader {
public:
    explicit Offloader(Graph graph) : g_(std::move(graph)), count_(g_.ops.size()), b_(g_) {}

    Graph run()
    {
        for (Value& v : g_.values)
            if ((v.role == Role::parameter && v.update.kind != UpdateKind::frozen) || v.role == Role::state)
                v.space = Space::host;
        for (const Op& op : g_.ops)
            for (const ValueId v : op.results)
                g_[v].space = is_on_host(op) ? Space::host : Space::device;
        move_step_inputs();
        for (std::size_t i = 0; i < count_; ++i)
            for (std::size_t o = 0; o < g_.ops[i].operands.size(); ++o)
                if (const ValueId v = g_.ops[i].operands[o]; g_[v].space != space_of(i))
                    g_.ops[i].operands[o] = copy_for(i, v);
        move_before(g_, count_, places_);
        return std::move(g_);
    }

private:
    bool is_on_host(const Op& op) const
    {
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (const ValueId into = aliased_operand(op, r); into && g_[into].space == Space::host) {
                TRV_CHECK(op.region != Region::microbatch, "%", g_[into].name, " changes in a microbatch");
                return true;
            }
        Bytes in = 0, out = 0;
        for (const ValueId v : op.operands) {
            if (g_[v].space != Space::host)
                return false;
            in += g_[v].type.bytes();
        }
        for (const ValueId v : op.results)
            out += g_[v].type.bytes();
        return op.region != Region::microbatch && !info(op).communicates && out < in;
    }

    /// Where op `i` computes.
    Space space_of(std::size_t i) const
    {
        const Op& op = g_.ops[i];
        return op.results.empty() ? Space::device : g_[op.results[0]].space;
    }

    /// What the host feeds once per step and only its own ops read needs no copy.
    void move_step_inputs()
    {
        for (const ValueId v : g_.with_role(Role::hyper)) {
            const auto elsewhere = [&](std::size_t i) {
                const Op& op = g_.ops[i];
                return space_of(i) == Space::device && std::ranges::find(op.operands, v) != op.operands.end();
            };
            bool only_host = true;
            for (std::size_t i = 0; i < count_; ++i)
                only_host = only_host && !elsewhere(i);
            if (only_host)
                g_[v].space = Space::host;
        }
    }

    /// `v` in the space of op `i`, which reads it.
    ValueId copy_for(std::size_t i, ValueId v)
    {
        ValueId& copy = copies_[v];
        if (copy)
            return copy;
        const Op& reader = g_.ops[i];
        const OpId producer = g_[v].producer;
        b_.where = Builder::where_of(reader);
        std::size_t place = i;
        if (reader.region == Region::microbatch) { // what outlives a microbatch is copied once for all
            TRV_CHECK(!producer || g_[producer].region == Region::prologue, "%", g_[v].name,
                      " would be copied in every microbatch");
            b_.where = {Region::prologue, Phase::forward, reader.block, reader.scope};
            place = first_op_from(Region::microbatch);
        } else if (reader.region == Region::epilogue) {
            place = first_op_from(Region::epilogue);
            if (producer)
                place = std::max(place, producer.index() + 1);
        }
        const Space space = space_of(i);
        copy = b_.copy_to(v, space);
        g_[copy].sharding = g_[v].sharding;
        places_.push_back(place);
        return copy;
    }

    std::size_t first_op_from(Region region) const
    {
        const auto end = g_.ops.begin() + static_cast<std::ptrdiff_t>(count_);
        return static_cast<std::size_t>(
            std::find_if(g_.ops.begin(), end, [&](const Op& op) { return op.region >= region; }) -
            g_.ops.begin());
    }

    Graph g_;
    const std::size_t count_; ///< of ops, without copies
    Builder b_;
    std::map<ValueId, ValueId> copies_; ///< in the other space
    std::vector<std::size_t> places_;   ///< of each copy: before this op
};

} // namespace

Graph offload_optimizer(Graph graph) { return Offloader(std::move(graph)).run(); }

} // namespace trivium
