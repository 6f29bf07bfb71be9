#pragma once
// The architectures of llama.cpp: which classes of transformers they compute, and with which options.
// Source: src/models and src/llama-model.cpp of llama.cpp.
#include "io/gguf/gguf_file.hpp"
#include "io/hugging_face/architectures.hpp"

#include <array>
#include <string_view>

namespace trivium {

struct GgufArchitecture {
    enum class Biases { any, none, all };

    std::array<std::string_view, 3> hugging_face; ///< the classes; most have one
    const char* name;                             ///< "llama": general.architecture
    Biases biases = Biases::any;                  ///< other than those that the class always has
    bool interleaved = false;       ///< neighbours rotate (RotaryLayout), not dimensions of two halves
    bool free_heads = false;        ///< heads may be of another size than dim / heads
    bool frequency_factors = false; ///< reads a divisor of each rotary frequency: "llama3", "longrope"
    bool gelu = false;              ///< instead of silu
    bool multipliers = false;       ///< reads the scales of Granite
    bool has_head = false;          ///< has a tensor for the head, also where it is tied
    i64 period = 0; ///< the last of each so many layers is full, unless a key says otherwise; 0: none slides
    bool gemma = false; ///< some layers always slide, and the embedding is the head
    /// A model of so many layers has the attention scale 1 / sqrt(dim / heads); 0: there is no such model.
    i64 layers_of_27b = 0;
    bool dense = true;      ///< layers may be dense
    bool normalised = true; ///< the weights of a token's experts add up to 1
    bool own_keys = false;  ///< a key and a value head for each query head
};

/// The architecture that computes the model, a model of the class `of`. UserError about a key of [model] if
/// there is none.
const GgufArchitecture& gguf_architecture_of(const ModelConfig& model, const Architecture& of);

/// Adds general.architecture, and the keys of the architecture. `positions`: max_position_embeddings of the
/// class. \pre gguf_architecture_of(model, …) is `architecture`
void add_model_keys(GgufKeys& to, const ModelConfig& model, const GgufArchitecture& architecture,
                    i64 positions);

/// Divisors of rotary frequencies, as tensors: by name. \pre as add_model_keys
std::vector<std::pair<std::string, std::vector<float>>> frequency_factors(const ModelConfig& model);

} // namespace trivium
