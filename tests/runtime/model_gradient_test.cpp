// Loss and every gradient of whole toy models, by parameter name, against the plain reference.
#include "base/check.hpp"
#include "catch.hpp"
#include "harness.hpp"

#include <algorithm>
#include <cmath>

using namespace trivium;
using namespace trivium::runs;
using reference::Model;

namespace {

Model llama(int layers, int heads, int kv_heads, int head_dim, int ffn, int vocab, int seq, bool tied)
{
    return {true, layers, heads * head_dim, heads, kv_heads, ffn, vocab, seq, tied};
}

Model gpt2(int layers, int heads, int kv_heads, int head_dim, int ffn, int vocab, int seq, bool tied)
{
    Model m = llama(layers, heads, kv_heads, head_dim, ffn, vocab, seq, tied);
    m.llama = false;
    return m;
}

/// Short wavelengths unchanged, long ones stretched, one interpolated: every branch of the scaling in one
/// head.
Model scaled(Model m)
{
    m.theta = 100;
    m.factor = 8;
    m.original_seq = 64;
    return m;
}

struct Case {
    const char* name;
    Model model;
    int rows, microbatches;
};

std::vector<Case> cases()
{
    std::vector<Case> all{
        {"llama, odd sizes", llama(2, 3, 1, 6, 10, 17, 5, false), 3, 1},
        {"llama, tied", llama(3, 4, 2, 4, 7, 13, 6, true), 2, 2},
        {"llama, as many key heads, 3 microbatches", llama(1, 2, 2, 8, 24, 31, 7, false), 3, 3},
        {"llama, scaled rotation, tied", scaled(llama(2, 4, 2, 16, 20, 19, 33, true)), 2, 1},
        {"llama, one token", llama(1, 1, 1, 2, 1, 2, 1, false), 1, 1},
        {"gpt2, odd sizes, tied", gpt2(2, 3, 3, 6, 10, 17, 5, true), 3, 3},
        {"gpt2, untied", gpt2(3, 2, 2, 5, 9, 11, 8, false), 4, 2},
        {"gpt2, grouped keys", gpt2(1, 4, 2, 3, 12, 23, 9, true), 2, 1},
        {"llama, regularised", regularised(llama(2, 3, 1, 6, 10, 17, 5, false)), 4, 2},
        {"gpt2, regularised, tied", regularised(gpt2(2, 3, 3, 6, 10, 17, 5, true)), 3, 3},
    };
    all[1].model.eps = 1e-2; // so that its effect is visible
    all[6].model.eps = 1e-2;
    all[2].model.theta = 500000;
    return all;
}

void compare(const Case& c, Precision precision, double tolerance, bool by_norm)
{
    INFO(c.name);
    Run run(config_of(c.model, precision, c.rows, c.microbatches));
    if (precision == Precision::bf16)
        run.randomise(2, 0.15); // scores stay small, because bf16 is too coarse for a steep softmax
    const TokenBatch first = random_batch(c.model, c.rows, 5), batch = random_batch(c.model, c.rows, 6);
    run.differentiate(first); // a step before, whose remains must not affect the next
    run.differentiate(batch);
    const reference::Result want =
        reference::run(c.model, run.parameters(), batch.tokens, batch.targets, batch.first_sample);
    require_result(run, want, tolerance, 1e-13, by_norm);
    if (c.model.dropout > 0) { // which an evaluation has not
        Model plain = c.model;
        plain.dropout = plain.z_loss = plain.smoothing = 0;
        LossSum evaluated;
        for (i64 row = 0; row < c.rows; row += run.engine->evaluation_rows()) {
            const LossSum part = run.engine->evaluate(rows_of(batch, row));
            evaluated.sum += part.sum;
            evaluated.tokens += part.tokens;
        }
        const double sum = reference::run(plain, run.parameters(), batch.tokens, batch.targets).loss_sum;
        CHECK(evaluated.tokens == want.tokens);
        CHECK(std::abs(evaluated.sum - sum) <= tolerance * sum);
        CHECK(std::abs(want.loss_sum - sum) > 0.01 * sum);
    }
    run.require_planned_is_used(batch);
}

} // namespace

TEST_CASE("gradients of whole models agree with the reference in f64")
{
    for (const Case& c : cases())
        compare(c, Precision::f64, 1e-9, false);
}

TEST_CASE("gradients of whole models agree with the reference in f32")
{
    for (const Case& c : cases())
        compare(c, Precision::f32, 1e-4, false);
}

TEST_CASE("gradients of whole models agree with the reference in bf16")
{
    // bf16 has 8 bits; the errors of tensors with few values do not average out, so only wider models.
    for (const Case& c : cases())
        if (c.model.dim > 8)
            compare(c, Precision::bf16, 5e-2, true);
}

TEST_CASE("the reference itself agrees with finite differences")
{
    for (Case c : {cases()[1], cases()[3], cases()[6], cases()[8]}) {
        INFO(c.name);
        c.model.seq = 3;
        c.model.layers = 1;
        Run run(config_of(c.model, Precision::f64, 1));
        const TokenBatch batch = random_batch(c.model, 1, 7);
        reference::Tensors parameters = run.parameters();
        const reference::Result at = reference::run(c.model, parameters, batch.tokens, batch.targets);
        for (auto& [name, values] : parameters)
            for (const std::size_t i : {std::size_t{0}, values.size() / 2, values.size() - 1}) {
                const double kept = values[i], step = 1e-5;
                values[i] = kept + step;
                const double up = reference::run(c.model, parameters, batch.tokens, batch.targets).loss_sum;
                values[i] = kept - step;
                const double down = reference::run(c.model, parameters, batch.tokens, batch.targets).loss_sum;
                values[i] = kept;
                INFO(name << "[" << i << "]");
                CHECK(at.gradients.at(name)[i] ==
                      Approx((up - down) / (2 * step)).epsilon(1e-6).margin(1e-8));
            }
    }
}
