// A small model with its blocks' products in FP8: close to bf16, and it learns.
#include "base/check.hpp"
#include "catch.hpp"
#include "harness.hpp"

#include <cmath>

using namespace trivium;
using namespace trivium::runs;
using reference::Model;

namespace {

Model model_of(bool llama) { return {llama, 2, 32, 4, llama ? 2 : 4, 48, 60, 16}; }

RunConfig config(const Model& model, bool fp8)
{
    RunConfig c = config_of(model, Precision::bf16, 4, 2);
    c.train.fp8 = fp8;
    return c;
}

} // namespace

TEST_CASE("FP8: gradients near those of bf16, but not equal; products outside the blocks do not change")
{
    for (const bool llama : {true, false}) {
        const Model model = model_of(llama);
        const TokenBatch batch = random_batch(model, 4, 3);
        Run plain(config(model, false)), fp8(config(model, true));
        for (Run* run : {&plain, &fp8}) // weights large enough that attention is not uniform
            run->randomise(7, 0.1);
        plain.differentiate(batch);
        fp8.differentiate(batch);
        CHECK(fp8.loss_sum() != plain.loss_sum());
        CHECK(fp8.loss_sum() == Approx(plain.loss_sum()).epsilon(0.02));
        const reference::Tensors want = plain.gradients(), got = fp8.gradients();
        for (const char* name : {"head.weight", "layers.1.ffn.down.weight", "layers.0.attn.q.weight",
                                 "layers.0.attn_norm.weight"}) {
            INFO(name);
            CHECK(norm_difference(got.at(name), want.at(name)) < 0.3);
        }
        int in_fp8 = 0;
        for (const Op& op : fp8.program().graph.ops) {
            const bool block = op.block > 0 && op.block <= model.layers;
            if (op.attrs->fp8.has_value()) {
                ++in_fp8;
                CHECK(block);
                CHECK(least_scratch_of(fp8.program().graph, op) > 0);
            } else {
                CHECK((info(op).scratch != ScratchKind::product || !block));
            }
        }
        CHECK(in_fp8 == 3 * model.layers * (llama ? 7 : 6)); // forward and two gradients
    }
}

TEST_CASE("FP8: a small model learns as it does in bf16")
{
    const Model model = model_of(true);
    const TokenBatch batch = random_batch(model, 4, 5);
    Run plain(config(model, false)), fp8(config(model, true));
    double first = 0, last = 0;
    for (int step = 0; step < 15; ++step) {
        for (Run* run : {&plain, &fp8}) {
            if (step == 0)
                run->randomise(7, 0.1);
            run->differentiate(
                batch, {1e-2, 0.9, 0.95, 1e-8, 1 - std::pow(0.9, step + 1), 1 - std::pow(0.95, step + 1)});
            run->update();
        }
        last = fp8.loss_sum() / fp8.tokens();
        if (step == 0)
            first = last;
        CHECK(last == Approx(plain.loss_sum() / plain.tokens()).margin(0.03 * first));
    }
    CHECK(last < 0.5 * first);
}

TEST_CASE("FP8 needs bf16")
{
    RunConfig c = config(model_of(true), true);
    c.train.precision = Precision::f32;
    CHECK_THROWS_AS(resolve_and_validate(c), UserError);
}
