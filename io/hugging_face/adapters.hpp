#pragma once
// Adapters in the format of PEFT: adapter_config.json and adapter_model.safetensors. A module of theirs that
// has several of our weights side by side gets one adapter of the ranks of all, with B in blocks, which
// computes the same.
#include "config/trained_parameters.hpp"
#include "io/hugging_face/hugging_face.hpp"

namespace trivium {

/// A tensor of adapter_model.safetensors, f32.
struct PeftTensor {
    std::string name;
    Shape shape;
    std::function<std::vector<float>()> values; ///< of one tensor at a time. Errors as those of the source
};

struct PeftAdapter {
    std::vector<PeftTensor> tensors;
    std::string config; ///< adapter_config.json
    /// What common programs do not read of it.
    std::vector<std::string> warnings;
};

/// The adapters of a run, and the weights that it trained as a whole (train.lora.train). `base`: name of the
/// model for base_model_name_or_path. `from` must outlive the result. \pre has_lora(), a resolved model
PeftAdapter exported_adapter(const ModelConfig& model, const TrainedParameters& trained,
                             const Architecture& architecture, const std::string& base, ReadParameter from);

struct ImportedAdapter {
    LoraConfig lora;
    /// By our name: of adapters, and of weights that were trained as a whole.
    std::map<std::string, std::vector<float>> values;
};

/// Reads a folder of PEFT's for this model. Adapters of smaller ranks get zeros, those of other scales
/// another B, so that all have one rank and one scale. `base`: the weights that it adapts. UserError if it
/// is of another model or another kind of adapter; IoError.
ImportedAdapter imported_adapter(const std::string& folder, const ModelConfig& model,
                                 const Architecture& architecture, const ReadParameter& base);

} // namespace trivium
