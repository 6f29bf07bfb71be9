#pragma once
// Which parameters a run trains: train.freeze and train.lora.
#include "config/lora_config.hpp"
#include "config/model_parameters.hpp"

#include <string_view>

namespace trivium {

struct RunConfig;

/// Whether `name` has the form of `pattern`, in which * stands for any letters and ? for one.
bool matches(std::string_view pattern, std::string_view name);

/// The adapter of a weight: suffixes of its parameters, next to `weight`. A magnitude is stored as its
/// difference from the length that the frozen weight's column has, so that it is 0 at the start.
inline constexpr const char *lora_a = "lora_a", *lora_b = "lora_b", *lora_magnitude = "lora_magnitude";
/// Whether a parameter is one of these.
bool is_of_adapter(std::string_view name);
/// The letter of the adapters' rank in ModelParameter.
inline constexpr char rank_dim = 'z';

struct TrainedParameters {
    std::vector<std::string> freeze;
    LoraConfig lora;

    bool has_lora() const { return lora.rank > 0; }
    /// By global name.
    bool is_frozen(std::string_view name) const;
    bool has_adapter(const ModelParameter& parameter) const;
    /// Of the product x A B.
    double scale() const;
};

TrainedParameters trained_parameters(const RunConfig& config);

/// The parameters of the adapter of `weight`, with its prefix: A, B and perhaps the magnitude;
/// of a vector none.
std::vector<ModelParameter> adapter_of(const ModelParameter& weight, const LoraConfig& lora);

/// Elements.
struct ParameterCounts {
    i64 all = 0, trained = 0;
};
/// With adapters. \pre the config is resolved
ParameterCounts parameter_counts(const RunConfig& config);

/// Of the weights with adapters, the largest rank that a matrix can have: the lower one of its inputs and
/// outputs; 0 without adapters. \pre the config is resolved
i64 largest_adapted(const RunConfig& config);
/// Whether train.freeze names something that train.lora trains as a whole. \pre the config is resolved
bool freezes_more_than_adapters(const RunConfig& config);

/// Throws UserError if a pattern names no parameter, nothing is trained, or an adapter is impossible. \pre
/// the model is resolved
void validate_trained(const RunConfig& config);

} // namespace trivium
