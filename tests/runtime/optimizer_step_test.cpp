// One and two whole updates against AdamW and clipping written as plain loops, in f64.
#include "base/check.hpp"
#include "catch.hpp"
#include "harness.hpp"

#include <cmath>

using namespace trivium;
using namespace trivium::runs;
using reference::Tensors;
using reference::Vector;

namespace {

/// Loshchilov and Hutter 2019, algorithm 2, with bias correction; the gradient is the clipped mean over
/// tokens.
struct PlainAdamw {
    double lr = 3e-2, beta1 = 0.8, beta2 = 0.9, eps = 1e-6, clip = 0, decay = 0;
    Tensors m, v;
    int step = 0;
    double norm = 0;

    Hyper next_hyper() const
    {
        return {lr, beta1, beta2, eps, 1 - std::pow(beta1, step + 1), 1 - std::pow(beta2, step + 1)};
    }

    /// Matrices decay; norms' weights and biases do not.
    static bool decays(const std::string& name)
    {
        return name.find("norm.weight") == std::string::npos && name.find(".bias") == std::string::npos;
    }

    void update(Tensors& parameters, const Tensors& gradients, double tokens)
    {
        ++step;
        double square = 0;
        for (const auto& [name, gradient] : gradients)
            for (const double g : gradient)
                square += g / tokens * (g / tokens);
        norm = std::sqrt(square);
        const double factor = clip > 0 && norm > clip ? clip / norm : 1;
        for (auto& [name, p] : parameters) {
            m[name].resize(p.size());
            v[name].resize(p.size());
            for (std::size_t i = 0; i < p.size(); ++i) {
                const double g = factor * gradients.at(name)[i] / tokens;
                m[name][i] = beta1 * m[name][i] + (1 - beta1) * g;
                v[name][i] = beta2 * v[name][i] + (1 - beta2) * g * g;
                const double mean = m[name][i] / (1 - std::pow(beta1, step)),
                             deviation = std::sqrt(v[name][i] / (1 - std::pow(beta2, step)));
                p[i] -= lr * (mean / (deviation + eps) + (decays(name) ? decay * p[i] : 0));
            }
        }
    }
};

void compare(bool llama, double clip, double decay)
{
    INFO((llama ? "llama" : "gpt2") << ", clip " << clip << ", decay " << decay);
    reference::Model model;
    model.llama = llama;
    model.layers = 2;
    model.tied = !llama;
    RunConfig config = config_of(model, Precision::f64, 4, 2);
    config.train.grad_clip = clip;
    config.train.weight_decay = decay;
    Run run(config);
    PlainAdamw plain;
    plain.clip = clip;
    plain.decay = decay;
    Tensors parameters = run.parameters();
    for (int step = 0; step < 3; ++step) {
        const TokenBatch batch = random_batch(model, 4, static_cast<std::uint64_t>(step));
        run.differentiate(batch, plain.next_hyper());
        // Its own gradients, so that only the update is tested; model_gradient compares gradients.
        plain.update(parameters, run.gradients(), run.tokens());
        CHECK(run.fetched("global_norm", 0) == Approx(plain.norm).epsilon(1e-12));
        run.update();
        for (const auto& [name, values] : parameters) {
            INFO("step " << step << ", " << name);
            CHECK(scaled_difference(run.read(name), values) <= 1e-12);
            CHECK(scaled_difference(run.read("adam_m." + name), plain.m.at(name)) <= 1e-12);
            CHECK(scaled_difference(run.read("adam_v." + name), plain.v.at(name)) <= 1e-12);
            run.write(name, values); // rounding errors do not accumulate over the steps
        }
    }
    CHECK((clip == 0.01) == (clip > 0 && plain.norm > clip)); // the small clip was active, the large one not
}

} // namespace

TEST_CASE("updates agree with plain AdamW in f64, clipped and not, decaying and not")
{
    for (const bool llama : {true, false})
        for (const double clip : {0.0, 0.01, 1e6})
            for (const double decay : {0.0, 0.3})
                compare(llama, clip, decay);
}
