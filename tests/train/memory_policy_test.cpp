// Bytes of model state with each ZeRO stage, and what "auto" becomes under a memory limit.
#include "base/check.hpp"
#include "base/units.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"
#include "choose/memory_policy.hpp"
#include "choose/smaller.hpp"
#include "plan/cost.hpp"

#include <algorithm>
#include <set>

using namespace trivium;

namespace {

RunConfig with_zero(i64 data, i64 zero)
{
    RunConfig c;
    c.model.layers = 6;
    c.model.heads = 4;
    c.model.kv_heads = 4;
    c.model.dim = 64;
    c.model.ffn_dim = 128;
    c.model.vocab = 64;
    c.model.seq = 64;
    c.train.global_batch = 4 * data;
    c.train.micro_batch = 2;
    c.train.precision = Precision::bf16;
    c.parallel.data = data;
    c.parallel.zero = zero;
    resolve_and_validate(c);
    return c;
}

CompileConfig options()
{
    CompileConfig all;
    all.machine = machine_called("h100");
    return all;
}

/// Bytes of the buffers of these kinds in the training program that are kept while microbatches run. (A shard
/// that the prologue casts and gathers is not.)
Bytes bytes_of(const Compiled& compiled, const std::set<MemoryKind>& kinds)
{
    const Schedule& s = compiled.programs[train_program].schedule;
    std::set<std::size_t> read;
    for (const Step& step : s.steps)
        if (step.microbatch >= 0)
            for (const BufferId id : step.operands)
                read.insert(id.index());
    Bytes sum = 0;
    for (std::size_t i = 0; i < s.buffers.size(); ++i) {
        const Buffer& b = s.buffers[i];
        if (kinds.contains(b.kind) &&
            (b.lifetime == Lifetime::run || (b.lifetime == Lifetime::step && read.contains(i))))
            sum += b.bytes;
    }
    return sum;
}

Bytes arena_of(const RunConfig& c) { return compile_training(c, options()).memory.arena; }

} // namespace

TEST_CASE("model state has the bytes of ZeRO's formulas")
{
    const i64 n = 8;
    for (i64 zero = 0; zero <= 3; ++zero) {
        const RunConfig c = with_zero(n, zero);
        const Compiled compiled = compile_training(c, options());
        const i64 psi = parameter_count(c.model);
        INFO("zero " << zero);
        const auto parts = [&](int from) { return zero >= from ? n : 1; };
        CHECK(bytes_of(compiled, {MemoryKind::parameters}) == 4 * psi / parts(1));
        CHECK(bytes_of(compiled, {MemoryKind::optimizer}) == 8 * psi / parts(1));
        CHECK(bytes_of(compiled, {MemoryKind::compute_copies}) == 2 * psi / parts(3));
        const Bytes scalars = 16; // sums of the loss and of the tokens
        CHECK(bytes_of(compiled, {MemoryKind::gradients}) == 4 * psi / parts(2) + scalars);
    }
}

TEST_CASE("7.5 G parameters on 64 ranks, as in ZeRO's paper", "[release]")
{
    const GradientType gradients = GENERATE(GradientType::bf16, GradientType::f32);
    RunConfig c;
    c.model.layers = 36;
    c.model.dim = 4096;
    c.model.heads = c.model.kv_heads = 32;
    c.model.ffn_dim = 10944;
    c.model.vocab = 32000;
    c.model.seq = 128;
    c.train.global_batch = 64;
    c.train.precision = Precision::bf16;
    c.parallel.data = 64;
    c.parallel.reduce = c.parallel.accumulate = gradients;
    resolve_and_validate(c);
    const double psi = static_cast<double>(parameter_count(c.model)), rank = psi / 64;
    CHECK(psi / 7.5e9 == Approx(1).epsilon(0.01));
    const double g = gradients == GradientType::bf16 ? 2 : 4; // bytes
    const double expected[] = {(14 + g) * psi, (2 + g) * psi + 12 * rank, 2 * psi + (12 + g) * rank,
                               (14 + g) * rank};
    const double published[] = {120e9, 31.4e9, 16.6e9, 1.9e9}; // arXiv:1910.02054, figure 1: g = 2
    for (const i64 zero : {0, 1, 2, 3}) {
        c.parallel.zero = zero;
        const Compiled compiled = compile_training(c, options());
        INFO("zero " << zero);
        const auto bytes =
            static_cast<double>(bytes_of(compiled, {MemoryKind::parameters, MemoryKind::optimizer,
                                                    MemoryKind::compute_copies, MemoryKind::gradients}));
        CHECK(bytes == Approx(expected[zero]).epsilon(1e-3));
        if (gradients == GradientType::bf16)
            CHECK(bytes == Approx(published[zero]).epsilon(0.02));
    }
}

TEST_CASE("gradients travel between ranks in the type of parallel.reduce, and only they")
{
    const i64 zero = GENERATE(0, 1, 2, 3);
    const Precision precision = GENERATE(Precision::f32, Precision::bf16);
    RunConfig c = with_zero(4, zero);
    c.model.layers = 2;
    c.train.precision = precision;
    Bytes sent[2];
    for (const GradientType type : {GradientType::f32, GradientType::bf16}) {
        c.parallel.reduce = type;
        const Compiled compiled = compile_training(c, options());
        const Graph& g = compiled.programs[train_program].graph;
        Bytes& bytes = sent[static_cast<int>(type)] = 0;
        for (const Op& op : g.ops)
            if ((op.kind == OpKind::all_reduce || op.kind == OpKind::reduce_scatter) &&
                *op.attrs->axis == data_axis)
                bytes += bytes_sent(g, op);
    }
    const i64 psi = parameter_count(c.model), times = zero == 0 ? 2 : 1; // an all-reduce sends twice
    CHECK(sent[0] == times * 4 * psi * 3 / 4);
    CHECK(sent[1] == times * 2 * psi * 3 / 4);
}

TEST_CASE("full recomputation keeps one value of each layer")
{
    RunConfig c = with_zero(1, 0);
    c.parallel.recompute = Recompute::full;
    const Compiled compiled = compile_training(c, options());
    Bytes kept = 0;
    const Graph& g = compiled.programs[train_program].graph;
    for (std::size_t v = 0; v < g.values.size(); ++v) {
        const OpId producer = g.values[v].producer;
        if (!producer || g[producer].region != Region::microbatch || g[producer].phase != Phase::forward ||
            g[producer].block < 1 || g[producer].block >= c.model.layers) // the head's norm is in the last
            continue;
        for (const Op& op : g.ops)
            if (op.phase == Phase::backward &&
                std::find(op.operands.begin(), op.operands.end(), ValueId(v)) != op.operands.end()) {
                kept += g.values[v].type.bytes();
                break;
            }
    }
    CHECK(kept == (c.model.layers - 1) * 2 * c.model.seq * c.model.dim * size_of(DType::bf16));
}

TEST_CASE("auto becomes the first setting that fits the limit", "[release]")
{
    RunConfig c = with_zero(4, 3);
    c.model.layers = 4;
    c.parallel.bucket = "block"; // so that each setting needs less than the one before
    const auto with = [&](GatherEvery gather, ReduceEvery reduce, Recompute recompute) {
        RunConfig fixed = c;
        fixed.parallel.gather_every = gather;
        fixed.parallel.reduce_every = reduce;
        fixed.parallel.recompute = recompute;
        return arena_of(fixed);
    };
    const Bytes most = with(GatherEvery::step, ReduceEvery::step, Recompute::none),
                fewer = with(GatherEvery::pass, ReduceEvery::microbatch, Recompute::none),
                selective = with(GatherEvery::pass, ReduceEvery::microbatch, Recompute::selective),
                full = with(GatherEvery::pass, ReduceEvery::microbatch, Recompute::full);
    REQUIRE(most > fewer);
    REQUIRE(fewer > selective);
    REQUIRE(selective > full);
    CHECK(arena_of(c) == fewer); // without a limit: what the stage is for
    c.parallel.recompute = Recompute::automatic;
    CHECK(arena_of(c) == fewer);
    for (const Bytes want : {most, fewer, selective, full}) {
        c.parallel.memory_limit = want;
        const RunConfig settled = decide(c, options().machine).config;
        const Bytes arena = arena_of(settled);
        CHECK(arena <= want);
        CHECK(arena_of(c) == arena);
        if (want == most) {
            CHECK(settled.parallel.gather_every == GatherEvery::step);
            CHECK(settled.parallel.recompute == Recompute::none);
        }
        if (want == selective)
            CHECK(settled.parallel.recompute == Recompute::selective);
    }
    for (const i64 layers : {2, 3}) // of four; one recomputes too little to pay for its own buffers
        for (const Recompute level : {Recompute::selective, Recompute::full}) {
            const auto arena_in = [&](i64 count) {
                RunConfig some = with_zero(4, 3);
                some.model.layers = c.model.layers;
                some.parallel.recompute = level;
                some.parallel.recompute_layers = count;
                some.parallel.bucket = c.parallel.bucket;
                return arena_of(some);
            };
            c.parallel.memory_limit = arena_in(layers);
            // Of few layers the arena may have smaller gaps, and then need no more than that of three.
            const i64 first = layers == 3 && arena_in(2) <= c.parallel.memory_limit ? 2 : layers;
            const ParallelConfig p = decide(c, options().machine).config.parallel;
            INFO(name_of(level) << " in " << layers << " layers");
            CHECK(p.recompute == level);
            CHECK(p.recompute_layers == first);
            CHECK(arena_of(c) == arena_in(first));
        }
    c.parallel.memory_limit = full - 1;
    CHECK_THROWS_AS(compile_training(c, options()), UserError);
}

TEST_CASE("a limit that cannot be met names settings that meet it, and by how much it is exceeded",
          "[release]")
{
    RunConfig c = with_zero(4, 0);
    c.parallel.bucket = "block"; // without a limit, "auto" may stand for buckets that need more
    const Bytes whole = arena_of(c);
    std::vector<Bytes> arenas;
    for (const SmallerSetting& setting : smaller_settings({c, {}}, options().machine))
        arenas.push_back(arena_of(setting.candidate.config));
    std::vector<Bytes> sorted = arenas;
    std::sort(sorted.begin(), sorted.end());
    c.parallel.memory_limit = sorted.at(2); // at least three settings meet it
    REQUIRE(c.parallel.memory_limit < whole);
    const std::string excess = format_bytes(whole - c.parallel.memory_limit);
    std::string said;
    try {
        compile_training(c, options());
    } catch (const UserError& error) {
        said = error.what();
    }
    INFO(said);
    CHECK(said.find(excess + " too much") != std::string::npos);
    Compiling estimator(options().machine);
    const std::vector<std::string> found = settings_within({c, {}}, estimator, c.parallel.memory_limit, 3);
    std::vector<std::string> want;
    for (std::size_t i = 0; i < arenas.size() && want.size() < 3; ++i)
        if (arenas[i] <= c.parallel.memory_limit)
            want.push_back(smaller_settings({c, {}}, options().machine)[i].overrides);
    CHECK(found == want);
    for (const std::string& overrides : found) {
        CHECK(said.find(overrides) != std::string::npos);
        for (const SmallerSetting& setting : smaller_settings({c, {}}, options().machine))
            if (setting.overrides == overrides) // throws if it exceeds the limit
                CHECK_NOTHROW(compile_training(setting.candidate.config, options()));
    }
    c.model.layers = 1; // fewer do not fit either
    c.parallel.memory_limit = 1000;
    CHECK(settings_within({c, {}}, estimator, 1000, 3).empty());
    CHECK_THROWS_AS(compile_training(c, options()), UserError);
}
