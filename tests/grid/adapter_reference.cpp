#include "grid/adapter_reference.hpp"

#include "runtime/reference_block.hpp"

#include <cmath>

namespace trivium::grids {

namespace {

/// An element of a weight with an adapter: where it is, its place in x, and the column with that of its
/// expert.
struct Element {
    std::size_t at, in, column;
    std::size_t expert, out, columns; ///< columns: of one expert

    std::size_t of_a(std::size_t r, std::size_t rank) const { return in * rank + r; }
    std::size_t of_b(std::size_t r, std::size_t rank) const { return (expert * rank + r) * columns + out; }
};

std::size_t extent(const ModelConfig& m, const std::string& dims)
{
    std::size_t product = 1;
    for (const char dim : dims)
        product *= static_cast<std::size_t>(extent_of(m, dim));
    return product;
}

std::size_t experts_of(const ModelConfig& m, const ModelParameter& weight)
{
    return weight.has_experts() ? extent(m, "x") : 1;
}

template <class Visit>
void each_element(const ModelConfig& m, const ModelParameter& weight, Visit&& visit)
{
    const std::size_t experts = experts_of(m, weight), in = extent(m, weight.in), out = extent(m, weight.out);
    const bool turned = weight.dims == weight.out + weight.in;
    for (std::size_t x = 0; x < experts; ++x)
        for (std::size_t i = 0; i < in; ++i)
            for (std::size_t o = 0; o < out; ++o)
                visit(Element{x * in * out + (turned ? o * in + i : i * out + o), x * in + i, x * out + o, x,
                              o, out});
}

/// The adapter of a weight: names of A, B and the magnitudes.
struct Adapter {
    std::string a, b, magnitude;
    explicit Adapter(const std::string& weight)
    {
        const std::string prefix = weight.substr(0, weight.rfind('.') + 1);
        a = prefix + lora_a;
        b = prefix + lora_b;
        magnitude = prefix + lora_magnitude;
    }
};

reference::Vector lengths_of(const ModelConfig& m, const ModelParameter& weight, const reference::Vector& w)
{
    reference::Vector lengths(experts_of(m, weight) * extent(m, weight.out));
    each_element(m, weight, [&](const Element& e) { lengths[e.column] += w[e.at] * w[e.at]; });
    for (double& length : lengths)
        length = std::sqrt(length);
    return lengths;
}

reference::Result whole_reference(const Case& one, const ModelConfig& m, const reference::Tensors& parameters)
{
    const runs::TokenBatch batch = batch_of(one, 0);
    return one.mixed ? reference::run(m, parameters, batch.tokens, batch.targets,
                                      static_cast<std::size_t>(one.model.seq))
                     : reference::run(one.model, parameters, batch.tokens, batch.targets, batch.first_sample);
}

} // namespace

reference::Result reference_of(const Case& c, const reference::Tensors& parameters)
{
    const ModelConfig m = config_of(c).model;
    const TrainedParameters& trained = c.trained;
    const auto rank = static_cast<std::size_t>(trained.lora.rank);
    reference::Tensors merged = parameters, factors;
    for (const ModelParameter& weight : all_parameters(m)) {
        if (!trained.has_adapter(weight))
            continue;
        const Adapter names(weight.name);
        const reference::Vector &a = parameters.at(names.a), &b = parameters.at(names.b);
        reference::Vector& w = merged.at(weight.name);
        const reference::Vector before = lengths_of(m, weight, w);
        each_element(m, weight, [&](const Element& e) {
            for (std::size_t r = 0; r < rank; ++r)
                w[e.at] += trained.scale() * a[e.of_a(r, rank)] * b[e.of_b(r, rank)];
        });
        reference::Vector& factor = factors[weight.name];
        factor.assign(before.size(), 1);
        if (!trained.lora.magnitudes)
            continue;
        const reference::Vector after = lengths_of(m, weight, w);
        for (std::size_t o = 0; o < before.size(); ++o)
            factor[o] = (before[o] + parameters.at(names.magnitude)[o]) / after[o];
        each_element(m, weight, [&](const Element& e) { w[e.at] *= factor[e.column]; });
    }
    reference::Result result = whole_reference(alone(c), m, merged);
    reference::Tensors made;
    for (const ModelParameter& weight : all_parameters(m)) {
        const reference::Vector& dw = result.gradients.at(weight.name);
        if (!trained.is_frozen(weight.name))
            made[weight.name] = dw;
        if (!trained.has_adapter(weight))
            continue;
        const Adapter names(weight.name);
        const reference::Vector &a = parameters.at(names.a), &b = parameters.at(names.b),
                                &w = merged.at(weight.name), &factor = factors[weight.name];
        reference::Vector &da = made[names.a], &db = made[names.b], dm(factor.size());
        da.resize(a.size());
        db.resize(b.size());
        each_element(m, weight, [&](const Element& e) {
            const double change = trained.scale() * factor[e.column] * dw[e.at];
            for (std::size_t r = 0; r < rank; ++r) {
                da[e.of_a(r, rank)] += change * b[e.of_b(r, rank)];
                db[e.of_b(r, rank)] += change * a[e.of_a(r, rank)];
            }
            dm[e.column] += dw[e.at] * w[e.at]; // w is m V / |V|, so its derivative by m is V / |V| = w / m
        });
        if (!trained.lora.magnitudes)
            continue;
        const reference::Vector length = lengths_of(m, weight, w);
        for (std::size_t o = 0; o < dm.size(); ++o)
            dm[o] /= std::copysign(length[o], factor[o]);
        made[names.magnitude] = std::move(dm);
    }
    result.gradients = std::move(made);
    return result;
}

} // namespace trivium::grids
