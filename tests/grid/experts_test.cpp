// Mixtures of experts on grids whose ranks share them: gradients, parameters, moments, losses and norms of
// one rank.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/cases.hpp"
#include "has.hpp"
#include "runtime/deferred_streams.hpp"

#include <cmath>

using namespace trivium;
using namespace trivium::grids;

namespace {

/// A case that shares experts; its other settings change from case to case.
struct Shared {
    i64 data, context, expert, tensor = 1, pipeline = 1;
    int zero = 0;
    OptionSet options = OptionSet::experts;
    void (*set)(Case&) = [](Case&) {};
};

Case shared_case(const Shared& s)
{
    Case c;
    c.model.layers = s.pipeline > 1 ? 4 : 3;
    c.model.kv_heads = 2;
    c.model.heads = 4;
    c.model.dim = 8;
    c.model.ffn = 11;
    c.model.vocab = 11;
    c.model.seq = 8;
    c.mixed = s.options;
    c.rows = 16;
    c.micro_batch = c.rows / s.data / 2;
    ParallelConfig& p = c.parallel;
    p.data = s.data;
    p.context = s.context;
    p.expert = s.expert;
    p.tensor = s.tensor;
    p.pipeline = s.pipeline;
    p.zero = s.zero;
    s.set(c);
    return c;
}

} // namespace

TEST_CASE("ranks that share experts compute what one rank does")
{
    const Shared cases[] = {
        {2, 1, 2},
        {4, 1, 2, 1, 1, 1},
        {4, 1, 2, 1, 1, 2, OptionSet::groups},
        {4, 1, 2, 1, 1, 3},
        {4, 1, 4, 1, 1, 3, OptionSet::groups},
        {1, 2, 2},
        {2, 2, 2, 1, 1, 1},
        {2, 2, 2, 1, 1, 3, OptionSet::experts, [](Case& c) { c.parallel.recompute = Recompute::full; }},
        {2, 1, 2, 2, 1, 1},
        {2, 1, 2, 2, 1, 3, OptionSet::groups, [](Case& c) { c.parallel.sequence = false; }},
        {2, 1, 2, 1, 2, 1},
        {2, 1, 2, 1, 2, 2, OptionSet::groups, [](Case& c) { c.parallel.schedule = "zb-h1"; }},
        {4, 1, 2, 1, 1, 1, OptionSet::groups, [](Case& c) { c.parallel.recompute = Recompute::selective; }},
        {4, 1, 2, 1, 1, 3, OptionSet::experts, [](Case& c) { c.parallel.shard = 2; }},
        {4, 1, 2, 1, 1, 2, OptionSet::experts, [](Case& c) { c.optimizer = OptimizerKind::muon; }},
        {2, 1, 2, 1, 1, 1, OptionSet::experts, [](Case& c) { c.parallel.offload = Offload::optimizer; }},
        {4, 1, 2, 1, 1, 3, OptionSet::experts, [](Case& c) { c.parallel.gather_every = GatherEvery::step; }},
        {2, 1, 2, 1, 2, 1, OptionSet::experts,
         [](Case& c) {
             c.parallel.update = UpdateMode::post_validated;
             c.counts_all = true;
         }},
    };
    for (const Shared& shared : cases) {
        const Case c = shared_case(shared);
        INFO(c.text());
        Outcome got;
        REQUIRE_NOTHROW(got = train_on_threads(c));
        const Differences d = differences(got, alone_outcome(c));
        INFO(d.text());
        CHECK(d.most() < 1e-9);
    }
}

TEST_CASE("so they do in f32, and with gradients reduced in bf16")
{
    for (const bool reduce_bf16 : {false, true}) {
        Case c = shared_case({4, 1, 2, 1, 1, reduce_bf16 ? 2 : 3, OptionSet::groups});
        c.precision = Precision::f32;
        c.parallel.reduce = reduce_bf16 ? GradientType::bf16 : GradientType::f32;
        c.steps = 10;
        c.lr = 1e-3;
        c.spread = 0.1;
        INFO(c.text());
        const Differences d = differences(train_on_threads(c), train_on_threads(alone(c)));
        INFO(d.text());
        CHECK(std::max(d.losses, d.norms) < (reduce_bf16 ? 2e-2 : 1e-4));
    }
}

TEST_CASE("exchanges of rows on streams that delay their work change no bit")
{
    const Case c = shared_case({4, 1, 2, 1, 1, 3});
    const Outcome on_host = train_on_threads(c);
    Meddle meddle;
    for (const u64 seed : {3, 4}) {
        meddle.streams = runs::deferred_streams(seed);
        meddle.settle = runs::settle_deferred;
        CHECK(same_bits(on_host, train_on_threads(c, meddle)));
    }
}

TEST_CASE("more places than rows arrive change no bit; too few are an error, or rows are dropped")
{
    Case c = shared_case({2, 1, 2});
    const Outcome all = train_on_threads(c);
    c.parallel.expert_buffer = 1.9; // of at most 2
    CHECK(same_bits(all, train_on_threads(c)));
    c.parallel.expert_buffer = 1e20;
    CHECK(same_bits(all, train_on_threads(c)));
    c.parallel.expert_buffer = 1;
    CHECK(has(message_of<UserError>([&] { train_on_threads(c); }), "rows arrive, its buffer has"));
    c.parallel.expert_overflow = ExpertOverflow::drop;
    const Differences d = differences(train_on_threads(c), all);
    CHECK(d.losses > 1e-9);
    CHECK(d.losses < 0.1);
}

TEST_CASE("routers that send nearly all tokens to few experts, and parameters that are not finite")
{
    Case c = shared_case({2, 1, 2, 1, 1, 1});
    c.spread = 5; // also of the router's bias, so that few experts are chosen
    c.lr = 1e-3;
    Outcome got;
    REQUIRE_NOTHROW(got = train_on_threads(c));
    const Differences d = differences(got, train_on_threads(alone(c)));
    INFO(d.text());
    CHECK(d.losses < 1e-9);
    c.parallel.expert_buffer = 1.01;
    CHECK(has(message_of<UserError>([&] { train_on_threads(c); }), "rows arrive, its buffer has"));
    c.parallel.expert_buffer = 0;
    c.lr = NAN; // from the second step on, all are
    REQUIRE_NOTHROW(got = train_on_threads(c));
    REQUIRE(got.norms.size() == 3);
    CHECK(std::isfinite(got.norms[0]));
    CHECK(std::isnan(got.norms[2]));
}

TEST_CASE("more ranks than experts, or others than can share them, are refused")
{
    const auto message = [](Case c) { return message_of<UserError>([&] { compile(c, 0); }); };
    Case c = shared_case({8, 1, 8});
    c.micro_batch = 1;
    CHECK(has(message(c), "parallel.expert: 8 ranks cannot share 6 experts"));
    CHECK(has(message(c), "set it to 2"));
    c.parallel.expert = i64{1} << 31;
    CHECK(has(message(c), "set it to 2"));
    CHECK(has(message(shared_case({4, 1, 3})), "is 3, which does not divide the 4 ranks of data x context"));
    Case dense = shared_case({2, 1, 2});
    dense.mixed = {};
    CHECK(has(message(dense), "the model has no experts"));
    Case groups = shared_case({4, 1, 4, 1, 1, 1});
    groups.mixed = OptionSet::groups;
    groups.parallel.shard = 2;
    CHECK(has(message(groups), "expert ranks are in one group of parallel.shard"));
}
