#include "config/trained_parameters.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "config/run_config.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

bool matches(std::string_view pattern, std::string_view name)
{
    // The last * seen may take more letters; those before it need not.
    std::size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            taken = n;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
            ++p;
            ++n;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            n = ++taken;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

namespace {

bool matches_any(const std::vector<std::string>& patterns, std::string_view name)
{
    return std::ranges::any_of(patterns, [&](const std::string& p) { return matches(p, name); });
}

bool is_router(std::string_view name) { return name.find(".router.") != std::string_view::npos; }

std::string prefix_of(const std::string& name) { return name.substr(0, name.rfind('.') + 1); }

} // namespace

bool is_of_adapter(std::string_view name)
{
    const std::string_view last = name.substr(name.rfind('.') + 1);
    return last == lora_a || last == lora_b || last == lora_magnitude;
}

bool TrainedParameters::is_frozen(std::string_view name) const
{
    if (has_lora() && is_of_adapter(name))
        return false;
    return matches_any(freeze, name) || (has_lora() && !matches_any(lora.train, name));
}

bool TrainedParameters::has_adapter(const ModelParameter& parameter) const
{
    if (!has_lora() || !parameter.is_matrix() || is_router(parameter.name) ||
        matches_any(lora.train, parameter.name))
        return false;
    return lora.targets.empty() ? parameter.name.starts_with("layers.")
                                : matches_any(lora.targets, parameter.name);
}

double TrainedParameters::scale() const
{
    const auto rank = static_cast<double>(lora.rank);
    return (lora.alpha > 0 ? lora.alpha : 2 * rank) / (lora.rank_stable ? std::sqrt(rank) : rank);
}

TrainedParameters trained_parameters(const RunConfig& config)
{
    return {config.train.freeze, config.train.lora};
}

std::vector<ModelParameter> adapter_of(const ModelParameter& weight, const LoraConfig& lora)
{
    if (!weight.is_matrix())
        return {};
    const std::string prefix = prefix_of(weight.name), x = weight.has_experts() ? "x" : "";
    std::vector<ModelParameter> all{{prefix + lora_a, x + weight.in + rank_dim},
                                    {prefix + lora_b, x + rank_dim + weight.out}};
    if (lora.magnitudes)
        all.push_back({prefix + lora_magnitude, x + weight.out});
    return all;
}

ParameterCounts parameter_counts(const RunConfig& config)
{
    const TrainedParameters trained = trained_parameters(config);
    ParameterCounts counts;
    const auto add = [&](const std::string& name, i64 elements) {
        counts.all += elements;
        counts.trained += trained.is_frozen(name) ? 0 : elements;
    };
    if (config.model.is_program()) {
        for (const auto& [name, elements] : config.model.program.trained)
            add(name, elements);
        return counts;
    }
    const auto elements = [&](const ModelParameter& parameter) {
        i64 product = 1;
        for (const char dim : parameter.dims)
            product *= dim == rank_dim ? trained.lora.rank : extent_of(config.model, dim);
        return product;
    };
    for (const ModelParameter& parameter : all_parameters(config.model)) {
        add(parameter.name, elements(parameter));
        if (trained.has_adapter(parameter))
            for (const ModelParameter& part : adapter_of(parameter, trained.lora))
                add(part.name, elements(part));
    }
    return counts;
}

i64 largest_adapted(const RunConfig& config)
{
    const TrainedParameters trained = trained_parameters(config);
    if (!trained.has_lora() || config.model.is_program())
        return 0;
    const auto product = [&](const std::string& dims) {
        i64 elements = 1;
        for (const char dim : dims)
            elements *= extent_of(config.model, dim);
        return elements;
    };
    i64 largest = 0;
    for (const ModelParameter& parameter : all_parameters(config.model))
        if (trained.has_adapter(parameter))
            largest = std::max(largest, std::min(product(parameter.in), product(parameter.out)));
    return largest;
}

bool freezes_more_than_adapters(const RunConfig& config)
{
    const TrainedParameters lora{{}, config.train.lora};
    return std::ranges::any_of(all_parameters(config.model), [&](const ModelParameter& parameter) {
        return matches_any(config.train.freeze, parameter.name) && !lora.is_frozen(parameter.name);
    });
}

namespace {

/// Throws if a pattern names none of `names`.
void require_matches(const char* key, const std::vector<std::string>& patterns,
                     const std::vector<std::string>& names, const std::string& what)
{
    for (const std::string& pattern : patterns) {
        if (std::ranges::any_of(names, [&](const std::string& name) { return matches(pattern, name); }))
            continue;
        std::string bare = pattern;
        std::erase_if(bare, [](char c) { return c == '*' || c == '?'; });
        throw UserError({key, str("'", pattern, "' is the name of no ", what),
                         "a pattern is a whole name, in which * stands for any letters and ? for one",
                         did_you_mean(bare, names,
                                      names.empty() ? "remove it"
                                                    : str("names are such as '", names.front(), "' and '",
                                                          names.back(), "'"))});
    }
}

void validate_adapters(const RunConfig& config, const std::vector<ModelParameter>& parameters,
                       const std::vector<std::string>& names)
{
    const LoraConfig& lora = config.train.lora;
    const TrainedParameters trained = trained_parameters(config);
    const auto refuse = [](const std::string& key, const std::string& problem, const std::string& reason,
                           const std::string& remedy) {
        throw UserError({"train.lora." + key, problem, reason, remedy});
    };
    if (lora.rank < 0 || lora.rank > 65536)
        refuse("rank", str("must be from 0 to 65536, is ", lora.rank), "", "8 to 64 are usual");
    if (lora.rank == 0)
        return;
    if (!std::isfinite(lora.alpha) || lora.alpha < 0)
        refuse("alpha", str("must be a positive number, is ", lora.alpha), "",
               "the rank or twice the rank are usual; 0 is twice the rank");
    if (!(lora.dropout >= 0 && lora.dropout < 1))
        refuse("dropout", str("must be from 0 to below 1, is ", lora.dropout), "", "0.05 is usual");
    std::vector<std::string> matrices;
    for (const ModelParameter& parameter : parameters)
        if (parameter.is_matrix() && !is_router(parameter.name))
            matrices.push_back(parameter.name);
    require_matches("train.lora.targets", lora.targets, matrices, "matrix that can have an adapter");
    require_matches("train.lora.train", lora.train, names, "parameter");
    i64 count = 0;
    for (const ModelParameter& parameter : parameters) {
        if (!trained.has_adapter(parameter)) {
            if (matches_any(lora.targets, parameter.name) && matches_any(lora.train, parameter.name) &&
                parameter.is_matrix())
                refuse("targets", str("names ", parameter.name, ", which train.lora.train names, too"),
                       "a weight that is trained as a whole needs no adapter", "keep one of the two");
            continue;
        }
        ++count;
        const bool is_table = parameter.dims[0] == parameter.in[0] && !parameter.name.starts_with("layers.");
        if (lora.magnitudes && is_table)
            refuse("magnitudes", str("is not available for embeddings such as ", parameter.name), "",
                   "name other train.lora.targets, or remove magnitudes");
    }
    if (count == 0)
        refuse("targets", "leaves no weight with an adapter", "train.lora.train names all of them",
               "remove patterns from train.lora.train");
}

} // namespace

void validate_trained(const RunConfig& config)
{
    const TrainConfig& t = config.train;
    if (t.freeze.empty() && t.lora.rank == 0)
        return;
    std::vector<std::string> names;
    std::vector<ModelParameter> parameters;
    if (config.model.is_program()) {
        for (const auto& [name, elements] : config.model.program.trained)
            names.push_back(name);
        if (t.lora.rank != 0)
            throw UserError({"train.lora",
                             "is for transformers, the model is a program (model.family = \"graph\")",
                             "a program says itself what it computes",
                             "write the adapters in the program, and set train.freeze"});
    } else {
        parameters = all_parameters(config.model);
        for (const ModelParameter& parameter : parameters)
            names.push_back(parameter.name);
        validate_adapters(config, parameters, names);
    }
    require_matches("train.freeze", t.freeze, names, "parameter");
    if (parameter_counts(config).trained == 0)
        throw UserError({"train.freeze",
                         str("leaves nothing to train: its patterns name all ", names.size(), " parameters"),
                         "", "remove a pattern"});
}

} // namespace trivium
