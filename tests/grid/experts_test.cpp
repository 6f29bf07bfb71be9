// Mixtures of experts on grids whose ranks share them: gradients, parameters, moments, losses and norms of
// one rank.
#include "base/check.hpp"
#include "catch.hpp"
#include "draw.hpp"
#include "grid/cases.hpp"
#include "has.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"
#include "runtime/deferred_streams.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

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
    Case c = narrow_case();
    c.model.layers = s.pipeline > 1 ? 4 : 3;
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

constexpr double digit = 16; // above every token and expert

/// Adds a state, recorded.NAME, of the shape that all ranks have of `v`: one digit per microbatch.
void record(Graph& g, ValueId v, Shape whole)
{
    const std::size_t count = g.ops.size();
    std::size_t place = g[v].producer.index() + 1;
    if (!g[v].producer)
        place = static_cast<std::size_t>(std::ranges::find(g.ops, Region::microbatch, &Op::region) -
                                         g.ops.begin());
    Builder b(g);
    b.where = {Region::microbatch, Phase::forward, g.ops[place].block, ""};
    const ValueId state =
        b.value("recorded." + g[v].name, {DType::f64, g[v].type.shape}, Role::state, FillInit{0});
    g[state].sharding = g[v].sharding;
    g[state].whole = std::move(whole);
    const ValueId before = b.op1(OpKind::affine, {state}, {.alpha = digit});
    b.overwrite(state, b.sum_of(before, b.cast_to(v, DType::f64)));
    move_before(g, count, std::vector(g.ops.size() - count, place));
}

/// The first op that reads `v`.
std::size_t reader_of(const Graph& g, ValueId v)
{
    const auto reads = [&](const Op& op) { return std::ranges::find(op.operands, v) != op.operands.end(); };
    return static_cast<std::size_t>(std::ranges::find_if(g.ops, reads) - g.ops.begin());
}

/// The experts of each token, layer by layer, by the set of its sequence's tokens and itself: no two
/// sequences of choosing_case() have the same tokens, and none has a token twice.
using Chosen = std::map<std::pair<std::set<int>, int>, std::vector<int>>;

Chosen chosen_on(const Case& c)
{
    const i64 rows = c.micro_batch * c.parallel.data, count = c.rows / rows;
    Meddle meddle;
    meddle.graph = [&](Graph& g) {
        ValueId tokens = g.find(value_name::tokens);
        const std::vector<Op> ops = g.ops;
        for (const Op& op : ops) {
            if (op.kind == OpKind::in_order && op.operands[0] == tokens)
                tokens = op.results[0]; // the rank's part
            if (op.kind == OpKind::route)
                record(g, op.results[1], {rows, c.model.seq, g[op.results[1]].type.shape[2]});
        }
        if (std::ranges::any_of(ops, [&](const Op& op) { return op.kind == OpKind::embedding; })) {
            g[tokens].name = value_name::tokens; // on all grids
            record(g, tokens, {rows, c.model.seq});
        }
    };
    const reference::Tensors all = train_on_threads(c, meddle).moments;
    const auto number = [&](const reference::Vector& values, i64 at, i64 microbatch) {
        const double shifted = values[static_cast<std::size_t>(at)] / std::pow(digit, count - 1 - microbatch);
        return static_cast<int>(std::fmod(std::floor(shifted), digit));
    };
    const reference::Vector& tokens = all.at(str("recorded.", value_name::tokens));
    Chosen chosen;
    for (i64 m = 0; m < count; ++m)
        for (i64 row = 0; row < rows; ++row) {
            std::set<int> sequence;
            for (i64 i = 0; i < c.model.seq; ++i)
                sequence.insert(number(tokens, row * c.model.seq + i, m));
            for (i64 i = row * c.model.seq; i < (row + 1) * c.model.seq; ++i) {
                std::vector<int>& experts = chosen[{sequence, number(tokens, i, m)}];
                for (const auto& [name, values] : all)
                    if (name.ends_with(".experts") && name.starts_with("recorded.")) {
                        const i64 slots = std::ssize(values) / (rows * c.model.seq);
                        for (i64 k = 0; k < slots; ++k)
                            experts.push_back(number(values, i * slots + k, m));
                    }
            }
        }
    return chosen;
}

void with_muon(Case& c) { c.optimizer = OptimizerKind::muon; }

/// One step of sequences as Chosen asks for.
Case choosing_case(const Shared& shared)
{
    Case c = shared_case(shared);
    c.steps = 1;
    runs::TokenBatch batch = runs::random_batch(c.model, c.rows, 3);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(c.model.vocab));
    std::iota(tokens.begin(), tokens.end(), 0);
    Draw draw(5);
    std::set<std::set<std::int32_t>> seen;
    for (i64 row = 0; row < c.rows;) {
        std::ranges::shuffle(tokens, draw);
        if (seen.emplace(tokens.begin(), tokens.begin() + c.model.seq).second)
            std::copy_n(tokens.begin(), c.model.seq, batch.tokens.begin() + row++ * c.model.seq);
    }
    c.batches = {batch};
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
        {4, 1, 2, 1, 1, 2, OptionSet::experts, with_muon}, // 3 experts of a rank among 2
        {8, 1, 2, 1, 1, 1, OptionSet::experts, with_muon}, // and among 4
        {4, 1, 1, 2, 1, 3, OptionSet::groups, with_muon},
        {2, 1, 2, 2, 1, 0, OptionSet::experts, with_muon},
        {2, 2, 2, 1, 1, 2, OptionSet::experts, with_muon},
        {4, 1, 2, 1, 2, 1, OptionSet::groups, with_muon},
        {2, 1, 2, 1, 1, 1, OptionSet::experts, [](Case& c) { c.parallel.offload = Offload::optimizer; }},
        {4, 1, 2, 1, 1, 3, OptionSet::experts, [](Case& c) { c.parallel.gather_every = GatherEvery::step; }},
        {2, 1, 2, 1, 2, 1, OptionSet::experts,
         [](Case& c) {
             c.parallel.update = UpdateMode::post_validated;
             c.counts_all = true;
         }},
    };
    std::size_t n = 0;
    for (const Shared& shared : cases) {
        if (contracts_on && n++ % 4 != 0) // sanitizers take their time
            continue;
        const Case c = shared_case(shared);
        INFO(c.text());
        Outcome got;
        REQUIRE_NOTHROW(got = train_on_threads(c));
        const Differences d = differences(got, alone_outcome(c));
        INFO(d.text());
        CHECK(d.most() < 1e-9);
    }
}

TEST_CASE("the bias of an expert's last product is added on one tensor rank: tokens, not rows, are summed")
{
    for (const bool sequence : {false, true}) {
        Case c = shared_case({2, 1, 2, 2});
        c.parallel.sequence = sequence;
        for (const i64 rank : {0, 1}) {
            const Graph g = compile(c, rank).programs[0].graph;
            REQUIRE(std::ranges::any_of(g.ops, [](const Op& op) { return op.kind == OpKind::grouped_bias; }));
            for (const Op& op : g.ops)
                if (op.phase == Phase::forward && op.attrs->axis == "tensor" && info(op).bucket &&
                    op.kind != OpKind::all_gather && g[op.operands[0]].producer)
                    CHECK(g[g[op.operands[0]].producer].kind != OpKind::grouped_bias);
        }
    }
}

TEST_CASE("every grid chooses the same experts for each token")
{
    std::map<std::pair<OptionSet, int>, Chosen> alone_chosen;
    Draw draw(1);
    int drawn = 0;
    while (drawn < (contracts_on ? 3 : 12)) {
        Shared s{i64{1} << below(draw, 3), 1 + below(draw, 2), i64{1} << below(draw, 3), 1 + below(draw, 2),
                 1 + below(draw, 2)};
        s.zero = static_cast<int>(below(draw, 4));
        s.options = below(draw, 2) == 0 ? OptionSet::experts : OptionSet::groups;
        const i64 recompute = below(draw, 3), shares = s.data * s.context,
                  experts = s.options == OptionSet::experts ? 6 : 8;
        if (shares * s.tensor * s.pipeline > 8 || shares * s.tensor * s.pipeline == 1 ||
            shares % s.expert != 0 || experts % s.expert != 0 ||
            (s.options == OptionSet::groups && s.context > 1)) // which has a capacity
            continue;
        ++drawn;
        Case c = choosing_case(s);
        c.parallel.recompute = std::array{Recompute::none, Recompute::selective,
                                          Recompute::full}[static_cast<std::size_t>(recompute)];
        INFO(c.text());
        Chosen& want = alone_chosen[{s.options, c.model.layers}];
        if (want.empty())
            want = chosen_on(alone(c));
        const Chosen got = chosen_on(c);
        REQUIRE(got.size() == static_cast<std::size_t>(c.rows * c.model.seq));
        CHECK(got.begin()->second.size() >= 2);
        CHECK(got == want);
    }
}

TEST_CASE("gradients that no other rank has are not rounded to the type in which others are sent",
          "[release]")
{
    for (const int zero : {0, 1, 2})
        for (const i64 expert : {2, 4}) {
            Case c = shared_case({4, 1, expert, 1, 1, zero, OptionSet::groups});
            c.parallel.reduce = GradientType::bf16;
            c.steps = 1;
            INFO(c.text());
            const Outcome got = train_on_threads(c);
            const Outcome& want = alone_outcome(c);
            for (const bool of_experts : {false, true}) {
                reference::Tensors some;
                for (const auto& [name, values] : got.gradients)
                    if ((name.find(".experts.") != std::string::npos) == of_experts &&
                        name.find(".balance") == std::string::npos)
                        some[name] = values;
                reference::Tensors wanted;
                for (const auto& [name, values] : some)
                    wanted[name] = want.gradients.at(name);
                const double difference = largest_difference(some, wanted);
                CHECK(difference < (of_experts && expert == 4 ? 1e-9 : 2e-2));
                CHECK((difference > 1e-9) == !(of_experts && expert == 4));
            }
        }
}

TEST_CASE("so they do in f32, and with gradients reduced in bf16", "[release]")
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

TEST_CASE("an expert whose weights are not a number makes no rank hang, and the norm of all ranks not finite")
{
    const Case c = shared_case({4, 1, 2, 1, 1, 1});
    Meddle meddle;
    meddle.graph = [](Graph& g) {
        const ValueId weight = g.find("layers.1.ffn.experts.up.weight");
        if (box_of(g, g[weight]).offset[0] > 0) // this rank has others
            return;
        const std::size_t count = g.ops.size(), first = reader_of(g, weight);
        const Shape shape = g[weight].type.shape;
        Builder b(g);
        b.where = Builder::where_of(g.ops[first]);
        const ValueId one = b.filled_like(b.slice_of(weight, 0, {0, 1}), NAN);
        const ValueId spoilt = b.sum_of(weight, b.padded(one, Shape(shape.size(), 0), shape));
        std::ranges::replace(g.ops[first].operands, weight, spoilt);
        move_before(g, count, std::vector(g.ops.size() - count, first));
    };
    Outcome got;
    REQUIRE_NOTHROW(got = train_on_threads(c, meddle));
    for (const double norm : got.norms)
        CHECK(!std::isfinite(norm));
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
