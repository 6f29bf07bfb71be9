// The same run twice, on one and two threads, in one and several microbatches; and a bad step, which must not
// change state.
#include "base/check.hpp"
#include "catch.hpp"
#include "harness.hpp"

#include <cmath>
#include <cstring>
#include <limits>

using namespace trivium;
using namespace trivium::runs;
using reference::Model;

namespace {

/// Large enough that rows, columns, heads and tiles are divided among threads.
std::vector<Model> models()
{
    Model llama{.layers = 2, .dim = 48, .heads = 6, .kv_heads = 3, .ffn = 80, .vocab = 301, .seq = 37};
    Model gpt2 = llama;
    gpt2.llama = false;
    gpt2.kv_heads = 6;
    gpt2.tied = true;
    return {llama, gpt2};
}

constexpr i64 rows = 4;
const Hyper hyper{1e-2, 0.9, 0.95, 1e-8, 0.1, 0.05};

struct Trace {
    std::vector<double> numbers; ///< loss, norm and clip factor of each step
    std::vector<std::byte> kept;
};

Trace train(const RunConfig& config, const Model& model, int threads, int steps)
{
    Run run(config, threads);
    Trace trace;
    for (int step = 0; step < steps; ++step) {
        run.differentiate(random_batch(model, rows, static_cast<std::uint64_t>(step)), hyper);
        trace.numbers.insert(trace.numbers.end(),
                             {run.loss_sum(), run.fetched("global_norm", 0), run.fetched("global_norm", 1)});
        run.update();
    }
    trace.kept = run.kept_bytes();
    run.require_planned_is_used(random_batch(model, rows, 99));
    return trace;
}

bool same_bits(const Trace& a, const Trace& b)
{
    return a.kept == b.kept && a.numbers.size() == b.numbers.size() &&
           std::memcmp(a.numbers.data(), b.numbers.data(), a.numbers.size() * sizeof(double)) == 0;
}

} // namespace

TEST_CASE("the same steps give the same bits, again and on any number of threads")
{
    for (const Model& model : models())
        for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f64}) {
            INFO((model.llama ? "llama " : "gpt2 ") << name_of(precision));
            const RunConfig config = config_of(model, precision, rows, 2);
            const Trace once = train(config, model, 1, 3);
            CHECK(same_bits(once, train(config, model, 1, 3)));
            CHECK(same_bits(once, train(config, model, 2, 3)));
            if (!contracts_on) // slow there
                CHECK(same_bits(once, train(config, model, 3, 3)));
            CHECK_FALSE(same_bits(once, train(config, model, 1, 4)));
        }
}

TEST_CASE("fused or separate ops: the same bits")
{
    for (const Model& model : models())
        for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f64}) {
            INFO((model.llama ? "llama " : "gpt2 ") << name_of(precision));
            const RunConfig config = config_of(model, precision, rows, 2);
            Run one(config), apart(config, 1, 1, {"fuse", "fuse-eval"});
            const auto& ops = one.program().graph.ops;
            CHECK(ops.size() < apart.program().graph.ops.size());
            for (const OpKind kind :
                 {OpKind::matmul_add, model.llama ? OpKind::add_rms_norm : OpKind::add_layer_norm})
                CHECK(std::any_of(ops.begin(), ops.end(), [&](const Op& op) { return op.kind == kind; }));
            CHECK(one.engine->planned() <= apart.engine->planned());
            for (int step = 0; step < 2; ++step)
                for (Run* run : {&one, &apart}) {
                    run->differentiate(random_batch(model, rows, static_cast<std::uint64_t>(step)), hyper);
                    run->update();
                }
            const bool same = one.kept_bytes() == apart.kept_bytes();
            CHECK(same);
            CHECK(one.loss_sum() == apart.loss_sum());
        }
}

TEST_CASE("1, 2 and 4 microbatches agree")
{
    for (const Model& model : models()) {
        const TokenBatch batch = random_batch(model, rows, 11);
        Run whole(config_of(model, Precision::f32, rows, 1));
        whole.differentiate(batch);
        const reference::Tensors want = whole.gradients();
        double scale = 0;
        for (const auto& [name, gradient] : want)
            scale = std::max(scale, magnitude(gradient));
        const Trace want_trace = train(config_of(model, Precision::f32, rows, 1), model, 1, 4);
        for (const i64 microbatches : {2, 4}) {
            INFO((model.llama ? "llama, " : "gpt2, ") << microbatches << " microbatches");
            const RunConfig config = config_of(model, Precision::f32, rows, microbatches);
            Run run(config);
            run.differentiate(batch);
            CHECK(run.tokens() == whole.tokens());
            CHECK(run.loss_sum() == Approx(whole.loss_sum()).epsilon(1e-5));
            CHECK(run.fetched("global_norm") == Approx(whole.fetched("global_norm")).epsilon(1e-5));
            for (const auto& [name, gradient] : run.gradients()) {
                INFO(name);
                if (name.find("attn.k.bias") != std::string::npos) // 0 in exact arithmetic
                    CHECK(magnitude(gradient) <= 1e-5 * scale);
                else
                    CHECK(scaled_difference(gradient, want.at(name)) <= 1e-5);
            }
            const Trace trace = train(config, model, 1, 4);
            for (std::size_t i = 0; i < trace.numbers.size();
                 i += 3) // AdamW is a sign near 0, so only the losses
                CHECK(trace.numbers[i] == Approx(want_trace.numbers[i]).epsilon(1e-5));
        }
    }
}

TEST_CASE("a step that is not finite shows before the decision, and changes no run-lifetime value")
{
    for (const Model& model : models())
        for (const Precision precision : {Precision::f32, Precision::bf16}) {
            const TokenBatch batch = random_batch(model, rows, 21);
            for (const char* victim : {"embed.weight", "layers.0.ffn.up.weight", "final_norm.weight"}) {
                INFO(victim);
                Run run(config_of(model, precision, rows, 2));
                run.differentiate(batch, hyper);
                const reference::Tensors want = run.gradients();
                reference::Vector values = run.read(victim);
                const double kept = values[3];
                for (const double bad :
                     {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
                    // A token's embedding matters only at the positions of that token.
                    const std::size_t at = std::strcmp(victim, "embed.weight") == 0
                                               ? static_cast<std::size_t>(batch.tokens[0] * model.dim)
                                               : 3;
                    const double whole = at == 3 ? kept : values[at];
                    values[at] = bad;
                    run.write(victim, values);
                    const std::vector<std::byte> before = run.kept_bytes();
                    run.differentiate(batch, hyper);
                    CHECK_FALSE((std::isfinite(run.loss_sum()) && std::isfinite(run.fetched("global_norm"))));
                    CHECK(run.kept_bytes() == before);
                    values[at] = whole;
                }
                run.write(victim, values);
                run.differentiate(batch, hyper); // no accumulator keeps values of the bad step
                CHECK(run.gradients() == want);
            }
        }
}
