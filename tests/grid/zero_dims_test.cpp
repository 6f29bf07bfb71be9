// ZeRO where no dimension of a parameter has an index for each rank: several dimensions are sharded.
#include "catch.hpp"
#include "grid/cases.hpp"
#include "ir/shards.hpp"

#include <map>

using namespace trivium;
using namespace trivium::grids;

namespace {

struct Small {
    i64 data = 8;
    i64 zero = 1;
    std::optional<OptionSet> options{};
    void (*set)(Case&) = [](Case&) {};
};

/// 6 wide: 3 heads, vocabulary 7, feed-forward block 5.
Case small_case(const Small& s)
{
    Case c;
    c.model = {.layers = 2, .dim = 6, .heads = 3, .kv_heads = 3, .ffn = 5, .vocab = 7, .seq = 4};
    c.mixed = s.options;
    c.parallel.data = s.data;
    c.parallel.zero = s.zero;
    c.rows = 2 * s.data;
    c.steps = 2;
    s.set(c);
    return c;
}

} // namespace

TEST_CASE("ranks share a parameter whose dimensions are all smaller than their number", "[release]")
{
    const Small cases[] = {{8, 1, OptionSet::llama}, {8, 2, OptionSet::latent}, {8, 3, OptionSet::experts}};
    for (const Small& small : cases) {
        const Case c = small_case(small);
        INFO(c.text());
        std::map<std::string, i64> whole, kept; // elements of each parameter and state; those of all ranks
        for (i64 rank = 0; rank < c.ranks(); ++rank) {
            const Graph g = compile(c, rank).programs.front().graph;
            for (const Role role : {Role::parameter, Role::state})
                for (const ValueId v : g.with_role(role)) {
                    whole[g[v].name] = element_count(whole_shape(g[v]));
                    kept[g[v].name] += g[v].type.elements();
                }
        }
        REQUIRE(whole.size() > 30);
        for (const auto& [name, elements] : whole) {
            INFO(name);
            CHECK(kept[name] == elements * (elements < 8 ? 8 : 1));
        }
    }
}

TEST_CASE("several sharded dimensions change no result")
{
    const Small cases[] = {
        {8, 1, OptionSet::llama},
        {8, 2, OptionSet::gpt2},
        {8, 3, OptionSet::llama, [](Case& c) { c.parallel.recompute = Recompute::full; }},
        {8, 2, OptionSet::latent, [](Case& c) { c.optimizer = OptimizerKind::muon; }},
        {6, 3, OptionSet::latent, [](Case& c) { c.model.dim = 4, c.model.heads = c.model.kv_heads = 2; }},
        {8, 3, OptionSet::gpt2, [](Case& c) { c.parallel.shard = 4; }},
        {8, 1, OptionSet::llama, [](Case& c) { c.parallel.offload = Offload::optimizer; }},
        {8, 3, OptionSet::llama, [](Case& c) { c.parallel.offload = Offload::optimizer; }},
        {8, 3, OptionSet::llama, [](Case& c) { c.parallel.gather_every = GatherEvery::step; }},
        {8, 2, OptionSet::llama, [](Case& c) { c.parallel.reduce_every = ReduceEvery::step; }},
        {8, 3, OptionSet::llama, [](Case& c) { c.parallel.tile = 64; }},
        {8, 3, OptionSet::experts, [](Case& c) { c.parallel.expert = 2; }},
        {4, 3, OptionSet::gpt2, [](Case& c) { c.parallel.tensor = 3; }},
        {4, 3, OptionSet::gpt2, [](Case& c) { c.parallel.pipeline = 2; }},
        {4, 2, OptionSet::latent, [](Case& c) { c.parallel.context = 2; }},
        {8, 1, OptionSet::llama,
         [](Case& c) {
             c.parallel.update = UpdateMode::post_validated;
             c.counts_all = true;
         }},
        {8, 3, OptionSet::llama,
         [](Case& c) {
             c.average = 0.5;
             c.norms = true;
         }},
    };
    std::size_t n = 0;
    for (const Small& small : cases) {
        if (contracts_on && n++ % 4 != 3) // sanitizers take their time
            continue;
        const Case c = small_case(small);
        INFO(c.text());
        Outcome got;
        REQUIRE_NOTHROW(got = train_on_threads(c));
        const Differences d = differences(got, c.average > 0 ? train_on_threads(alone(c)) : alone_outcome(c));
        INFO(d.text());
        CHECK(d.most() < 1e-9);
    }
}
