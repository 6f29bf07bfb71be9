#pragma once
// The classes of transformers that Trivium can read and write: what their config.json may say, and how they
// name tensors.
#include "config/model_config.hpp"

#include <string>
#include <utility>
#include <vector>

namespace trivium {

/// How a class names the modules of a layer, and which products it joins.
enum class TensorNames { llama, phi3, starcoder2, neox, gpt2, mixtral, gpt_oss, deepseek };

/// Keys of config.json are called as in LlamaConfig, unless `renamed` has another name.
struct Architecture {
    const char* name; ///< "LlamaForCausalLM"
    const char* type; ///< its model_type
    Family family;    ///< has the options that are not in config.json
    TensorNames names;
    /// JSON: every key that the class reads and that may be missing, with its default. Keys that all classes
    /// read, and that may not be missing, are not here.
    const char* keys;
    std::vector<std::pair<const char*, const char*>> renamed{}; ///< our name, theirs
    const char* ignored = "";   ///< keys that the class does not read, separated by spaces
    const char* written = "{}"; ///< JSON: keys for an export that [model] does not have
    bool per_kind = false;      ///< sliding layers have their own rotary embeddings
    bool whole_heads = false;   ///< the class requires that heads divide the width, whatever their size
    const char* fixed = "{}"; ///< JSON: keys that [model] does not have, with the only value that it computes
};

const std::vector<Architecture>& architectures();

/// Theirs, of a key by its name in LlamaConfig.
const char* key_of(const Architecture& architecture, const char* key);

/// The options that `architecture` has, with the default shape; config.json determines the others.
ModelConfig fixed_options(const Architecture& architecture);

} // namespace trivium
