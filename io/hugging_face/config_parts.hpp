#pragma once
// The parts of config.json that several keys describe together: kinds of layers, rotary embeddings, experts.
#include "io/hugging_face/architectures.hpp"
#include "io/hugging_face/config_keys.hpp"

namespace trivium {

/// The keys of a class in transformers.
struct ClassKeys {
    explicit ClassKeys(const Architecture& of);

    const Architecture& architecture;
    nlohmann::json defaults; ///< by name in config.json

    /// By its name in LlamaConfig: whether the class reads the key if there is one.
    bool has(const char* key) const { return defaults.contains(name(key)); }
    std::string name(const char* key) const { return key_of(architecture, key); }
};

inline constexpr i64 most_layers = 65536; ///< more are refused later, before a list of that length is made

/// Sets layer_pattern, window and rotary_pattern. \pre model.layers is set
void read_layers(const ConfigKeys& keys, const ClassKeys& of, ModelConfig& model);
void write_layers(const ModelConfig& model, const ClassKeys& of, nlohmann::ordered_json& to);

/// Sets rope_theta, rope_scaling, rotary_part, local_rope_theta and scale_local, from the keys of
/// transformers 5 (rope_parameters) or 4 (rope_theta, rope_scaling and others). \pre model.seq is set
void read_rope(const ConfigKeys& keys, const ClassKeys& of, ModelConfig& model);
/// Writes the keys of transformers 4, which 5 reads, too; and those of 5 where 4 has none.
void write_rope(const ModelConfig& model, const ClassKeys& of, nlohmann::ordered_json& to);

/// Sets experts and what routes to them. \pre model.layers is set
void read_experts(const ConfigKeys& keys, const ClassKeys& of, ModelConfig& model);
/// \pre resolved
void write_experts(const ModelConfig& model, const ClassKeys& of, nlohmann::ordered_json& to);
/// The coefficient of a loss that balances experts, with its key; "" if there is none.
std::string balance_loss_in(const ConfigKeys& keys, const ModelConfig& model);
/// Whether the class reads the number of experts from this key; it has several names.
bool is_experts_key(const ClassKeys& of, const std::string& key);

/// The value of max_position_embeddings, which the factor of longrope and the base of dynamic depend on.
i64 max_positions(const ModelConfig& model);

} // namespace trivium
