// Random models of both families: loss and every gradient against the plain reference, memory as planned.
#include "../runtime/harness.hpp"
#include "catch.hpp"
#include "soak_settings.hpp"

#include <cmath>
#include <random>

using namespace trivium;

TEST_CASE("random models agree with the reference")
{
    runs::start_runtime();
    std::mt19937_64 random(soak::seed());
    const auto draw = [&](int most) { return static_cast<int>(1 + random() % static_cast<unsigned>(most)); };
    const auto coin = [&] { return random() % 2 == 0; };
    int rounds = 0;
    for (const soak::Budget budget; budget.left(); ++rounds) {
        reference::Model model;
        model.llama = coin();
        model.layers = draw(3);
        model.kv_heads = draw(3);
        model.heads = model.kv_heads * draw(3);
        model.dim = model.heads * 2 * draw(5);
        model.ffn = draw(40);
        model.vocab = 2 + draw(60);
        model.seq = draw(40);
        model.tied = coin();
        if (model.llama && coin()) {
            model.factor = 1 + draw(8);
            model.original_seq = draw(30);
        }
        const int microbatches = draw(3), rows = microbatches * draw(3);
        INFO("seed " << soak::seed() << ", model " << rounds << ": llama " << model.llama << " layers "
                     << model.layers << " heads " << model.heads << "/" << model.kv_heads << " dim "
                     << model.dim << " ffn " << model.ffn << " vocab " << model.vocab << " seq " << model.seq
                     << " tied " << model.tied << " rows " << rows << " in " << microbatches);
        runs::Run run(runs::config_of(model, Precision::f64, rows, microbatches), draw(2));
        run.randomise(random());
        const runs::TokenBatch batch = runs::random_batch(model, rows, random());
        run.differentiate(batch);
        const reference::Result expected =
            reference::run(model, run.parameters(), batch.tokens, batch.targets);
        REQUIRE(run.loss_sum() == Approx(expected.loss_sum).epsilon(1e-10));
        REQUIRE(run.tokens() == expected.tokens);
        double largest = 0; // a key's bias has a gradient of zero up to rounding: softmax is invariant to it
        for (const auto& [name, wanted] : expected.gradients)
            for (const double x : wanted)
                largest = std::max(largest, std::abs(x));
        for (const auto& [name, got] : run.gradients()) {
            const reference::Vector& wanted = expected.gradients.at(name);
            REQUIRE(got.size() == wanted.size());
            double scale = 1e-30, worst = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
                scale = std::max(scale, std::abs(wanted[i]));
                worst = std::max(worst, std::abs(got[i] - wanted[i]));
            }
            INFO(name);
            REQUIRE(worst <= 1e-9 * scale + 1e-13 * largest);
        }
        run.update();
        run.require_planned_is_used(batch);
    }
    CHECK(rounds > 0);
}
