#include "train/report/layer_report.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "io/metrics/layer_norms.hpp"
#include "io/metrics/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

std::vector<std::string> words_of(const std::string& name)
{
    std::vector<std::string> words{""};
    for (const char c : name)
        if (c == '.')
            words.emplace_back();
        else
            words.back() += c;
    return words;
}

bool is_number(const std::string& word)
{
    return !word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == std::string::npos;
}

/// Layer and part of a parameter: ("3", "attn") of layers.3.attn.q.weight, ("", "embed") of embed.weight.
std::pair<std::string, std::string> place_of(const std::string& name)
{
    const std::vector<std::string> words = words_of(name);
    const auto number = std::ranges::find_if(words, is_number);
    if (number == words.end() || number + 1 == words.end())
        return {"", name.substr(0, name.rfind('.'))};
    std::string part;
    for (auto word = words.begin(); word != number; ++word)
        if (*word != "layers")
            part += *word + ".";
    return {*number, part + *(number + 1)};
}

nlohmann::ordered_json norm_of(const std::vector<double>& norms, const std::vector<std::size_t>& members)
{
    double squares = 0;
    for (const std::size_t member : members)
        squares += norms[member] * norms[member];
    if (!std::isfinite(squares))
        return nullptr;
    return std::sqrt(squares);
}

} // namespace

LayerReport::LayerReport(const std::string& dir, const std::vector<std::string>& parameters, i64 step)
    : path_(dir + "/metrics.layers.jsonl")
{
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const auto [layer, name] = place_of(parameters[i]);
        const auto known = std::ranges::find_if(parts_, [&, &l = layer, &n = name](const Part& part) {
            return part.layer == l && part.name == n;
        });
        if (known == parts_.end())
            parts_.push_back({layer, name, {i}});
        else
            known->members.push_back(i);
    }
    go_back(step);
}

void LayerReport::go_back(i64 step)
{
    lines_.reset();
    if (std::filesystem::exists(path_))
        copy_metrics(path_, path_, step);
    lines_.emplace(path_);
}

void LayerReport::write(i64 step, const ParameterNorms& norms)
{
    std::string text;
    for (const Part& part : parts_) {
        nlohmann::ordered_json line{{"step", step}};
        if (!part.layer.empty())
            line["layer"] = std::stoll(part.layer);
        line["part"] = part.name;
        const std::vector<double>* const by_key[] = {&norms.gradients, &norms.weights, &norms.updates};
        for (std::size_t key = 0; key < layer_norm_keys.size(); ++key)
            line[layer_norm_keys[key]] = norm_of(*by_key[key], part.members);
        text += (text.empty() ? "" : "\n") + line.dump();
    }
    try {
        lines_->write(text);
    } catch (const Error& error) {
        if (!failed_)
            log_warning(error.what());
        failed_ = true;
    }
}

} // namespace trivium
