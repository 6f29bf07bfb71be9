#pragma once
// Small models of each family, and their config.json.
#include "base/check.hpp"
#include "io/hugging_face/hugging_face.hpp"

namespace trivium {

inline ModelConfig llama_model()
{
    ModelConfig m{.layers = 2, .dim = 24, .heads = 6, .kv_heads = 2, .ffn_dim = 40, .vocab = 50, .seq = 32};
    resolve(m);
    return m;
}

inline ModelConfig gpt2_model()
{
    ModelConfig m = llama_model();
    set_family(m, Family::gpt2);
    m.kv_heads = 6;
    m.tied_embeddings = true;
    return m;
}

inline ModelConfig small_model(Family family)
{
    ModelConfig m = llama_model();
    set_family(m, family);
    m.layers = 3;
    m.head_dim = m.positions == Positions::learned ? 4 : 8;
    m.dim = m.head_dim * m.heads; // some classes require it
    if (family == Family::neox || family == Family::gpt2)
        m.kv_heads = m.heads;
    return m;
}

/// One of each family, and others with the other kind of head.
inline std::vector<ModelConfig> models()
{
    std::vector<ModelConfig> all{llama_model(), gpt2_model(), llama_model(), gpt2_model()};
    all[2].tied_embeddings = true;
    all[3].tied_embeddings = false;
    for (std::size_t i = 0; i < names_of_enum<Family>.size(); ++i)
        all.push_back(small_model(static_cast<Family>(i)));
    return all;
}

inline std::vector<HuggingFaceTensor> tensors_of(const ModelConfig& model)
{
    return hugging_face_tensors(model, architecture_of(model));
}

inline std::string print_config(const ModelConfig& model, const std::string& type = "float32", i64 eos = -1)
{
    return print_hugging_face_config(model, architecture_of(model), type, eos);
}

inline ModelConfig parsed(const std::string& text)
{
    return parse_hugging_face_config(text, "config.json").model;
}

} // namespace trivium
