// One and two whole updates against AdamW, Muon and clipping written as plain loops, in f64.
#include "base/check.hpp"
#include "catch.hpp"
#include "config/option_sets.hpp"
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

reference::Model small_model(bool llama)
{
    reference::Model model;
    model.llama = llama;
    model.layers = 2;
    model.tied = !llama;
    return model;
}

void compare(bool llama, double clip, double decay)
{
    INFO((llama ? "llama" : "gpt2") << ", clip " << clip << ", decay " << decay);
    const reference::Model model = small_model(llama);
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

/// A matrix as rows of columns.
struct Matrix {
    std::size_t rows = 0, columns = 0;
    Vector x;

    double at(std::size_t r, std::size_t c) const { return x[r * columns + c]; }
};

Matrix product(const Matrix& a, const Matrix& b)
{
    Matrix c{a.rows, b.columns, Vector(a.rows * b.columns)};
    for (std::size_t i = 0; i < a.rows; ++i)
        for (std::size_t j = 0; j < b.columns; ++j)
            for (std::size_t k = 0; k < a.columns; ++k)
                c.x[i * c.columns + j] += a.at(i, k) * b.at(k, j);
    return c;
}

Matrix transposed(const Matrix& a)
{
    Matrix t{a.columns, a.rows, Vector(a.x.size())};
    for (std::size_t r = 0; r < a.rows; ++r)
        for (std::size_t c = 0; c < a.columns; ++c)
            t.x[c * t.columns + r] = a.at(r, c);
    return t;
}

/// Muon for the matrices of layers, each expert's by itself (K. Jordan et al. 2024; scale and decay:
/// arXiv:2502.16982, section 2.2), AdamW for everything else. Always with the Gram matrix of the columns.
struct PlainMuon : PlainAdamw {
    double momentum = 0.7;
    Tensors buffers;

    /// Rows of a layer's weight matrix; 0: AdamW updates the tensor.
    static std::size_t rows_of(const reference::Model& m, const std::string& name)
    {
        if (name.find("layers.") == std::string::npos || !decays(name))
            return 0;
        const bool has_many_inputs = name.find(".o.") != std::string::npos;
        const int inputs = has_many_inputs                                 ? m.heads * (m.dim / m.heads)
                           : name.find("shared.down") != std::string::npos ? shared
                           : name.find("down") != std::string::npos        ? m.ffn
                                                                           : m.dim;
        return static_cast<std::size_t>(inputs);
    }
    static constexpr int shared = 13, experts = 6; // of OptionSet::experts

    /// An update's direction, from that of the momentum.
    static void orthogonalise(Matrix& x)
    {
        double squares = 0;
        for (const double value : x.x)
            squares += value * value;
        for (double& value : x.x)
            value /= squares > 0 ? std::sqrt(squares) : 1;
        for (int i = 0; i < 5; ++i) {
            const Matrix first = product(x, product(transposed(x), x)),
                         second = product(first, product(transposed(x), x));
            for (std::size_t k = 0; k < x.x.size(); ++k)
                x.x[k] = 3.4445 * x.x[k] - 4.7750 * first.x[k] + 2.0315 * second.x[k];
        }
    }

    void update(const reference::Model& model, Tensors& parameters, const Tensors& gradients, double tokens)
    {
        Tensors before = parameters;
        PlainAdamw::update(parameters, gradients, tokens);
        const double factor = (clip > 0 && norm > clip ? clip / norm : 1) / tokens;
        for (auto& [name, p] : parameters) {
            const std::size_t rows = rows_of(model, name);
            if (rows == 0)
                continue;
            m.erase(name);
            v.erase(name);
            p = before.at(name);
            Vector& buffer = buffers[name];
            buffer.resize(p.size());
            const std::size_t count = name.find(".experts.") != std::string::npos ? experts : 1,
                              size = p.size() / count;
            for (std::size_t begin = 0; begin < p.size(); begin += size) {
                Matrix x{rows, size / rows, Vector(size)};
                for (std::size_t i = 0; i < size; ++i) {
                    const double g = factor * gradients.at(name)[begin + i];
                    buffer[begin + i] = momentum * buffer[begin + i] + g;
                    x.x[i] = g + momentum * buffer[begin + i];
                }
                orthogonalise(x);
                const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(x.rows, x.columns)));
                for (std::size_t i = 0; i < size; ++i)
                    p[begin + i] -= lr * (scale * x.x[i] + decay * p[begin + i]);
            }
        }
    }
};

void compare_muon(bool llama, double clip, double decay, bool experts = false)
{
    INFO((llama ? "llama" : "gpt2") << ", clip " << clip << ", decay " << decay);
    const reference::Model model = small_model(llama);
    RunConfig config = config_of(model, Precision::f64, 4, 2);
    if (experts) {
        set_options(config.model, OptionSet::experts);
        resolve_and_validate(config);
    }
    config.train.grad_clip = clip;
    config.train.weight_decay = decay;
    config.train.optimizer = OptimizerKind::muon;
    PlainMuon plain;
    plain.clip = clip;
    plain.decay = decay;
    config.train.momentum = plain.momentum;
    Run run(config);
    if (experts) // of which one has no tokens
        run.write("layers.0.ffn.router.bias", {0, 0, -50, 0, 0, 0});
    Tensors parameters = run.parameters();
    for (int step = 0; step < 3; ++step) {
        const TokenBatch batch = random_batch(model, 4, static_cast<std::uint64_t>(step));
        run.differentiate(batch, plain.next_hyper());
        plain.update(model, parameters, run.gradients(), run.tokens());
        run.update();
        for (const auto& [name, values] : parameters) {
            INFO("step " << step << ", " << name);
            CHECK(scaled_difference(run.read(name), values) <= 1e-11);
            const bool by_muon = PlainMuon::rows_of(model, name) > 0;
            CHECK(run.program().graph.find("adam_v." + name).valid() != by_muon);
            if (by_muon)
                CHECK(scaled_difference(run.read("muon_m." + name), plain.buffers.at(name)) <= 1e-12);
            run.write(name, values); // rounding errors do not accumulate over the steps
        }
    }
}

} // namespace

TEST_CASE("updates agree with plain Muon in f64: tall and wide matrices, heads, clipped and not")
{
    for (const bool llama : {true, false}) {
        compare_muon(llama, 0, 0.3);
        compare_muon(llama, 0.01, 0);
    }
}

TEST_CASE("Muon updates the matrix of each expert by itself") { compare_muon(true, 0.01, 0.3, true); }

TEST_CASE("a matrix whose gradient is zero only decays")
{
    reference::Model model;
    RunConfig config = config_of(model, Precision::f32, 4, 1);
    config.train.optimizer = OptimizerKind::muon;
    Run run(config);
    const TokenBatch batch = random_batch(model, 4, 1);
    const Vector before = run.read("layers.0.attn.q.weight");
    // With outputs of 0, nothing before the attention's output product has a gradient.
    run.write("layers.0.attn.o.weight", Vector(run.read("layers.0.attn.o.weight").size()));
    run.differentiate(batch, {0.1, 0.9, 0.95, 1e-8, 0.1, 0.05});
    run.update();
    const Vector after = run.read("layers.0.attn.q.weight");
    for (std::size_t i = 0; i < before.size(); ++i)
        CHECK(after[i] == Approx(before[i] * (1 - 0.1 * config.train.weight_decay)).epsilon(1e-6));
}

TEST_CASE("updates agree with plain AdamW in f64, clipped and not, decaying and not")
{
    for (const bool llama : {true, false})
        for (const double clip : {0.0, 0.01, 1e6})
            for (const double decay : {0.0, 0.3})
                compare(llama, clip, decay);
}
