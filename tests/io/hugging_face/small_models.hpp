#pragma once
// Small models of each family, their config.json, and checkpoints of them.
#include "base/check.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <cmath>
#include <functional>
#include <map>

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
    if (family == Family::neox || family == Family::gpt2 || has_latents(m))
        m.kv_heads = m.heads;
    if (m.experts > 0) {
        m.experts = 6;
        m.expert_slots = 3;
        m.expert_dim = 12;
        m.router_groups = m.router_groups > 1 ? 3 : 1;
        m.router_top_groups = m.router_groups > 1 ? 2 : 1;
        if (family == Family::qwen3_moe || has_latents(m))
            m.dense_layers = 1;
        if (has_latents(m))
            m.shared_dim = 24;
    }
    if (has_latents(m)) {
        m.q_latent = family == Family::deepseek2 ? 0 : 14;
        m.kv_latent = 10;
        m.v_head_dim = 5;
    }
    return m;
}

/// One of each family, and others with the other kind of head.
inline std::vector<ModelConfig> models()
{
    std::vector<ModelConfig> all{llama_model(), gpt2_model(), llama_model(), gpt2_model()};
    all[2].tied_embeddings = true;
    all[3].tied_embeddings = false;
    for (std::size_t i = 0; i < transformer_families; ++i)
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

/// All values differ.
inline float weight_of(const std::string& name, i64 index)
{
    return std::sin(static_cast<float>(index) * 0.37f +
                    static_cast<float>(std::hash<std::string>()(name) % 1000));
}

inline std::vector<float> values_of(const std::string& name, const Shape& shape)
{
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = weight_of(name, static_cast<i64>(i));
    return values;
}

/// Our parameters, each once, with their shapes.
inline std::map<std::string, Shape> parameters_of(const ModelConfig& model)
{
    std::map<std::string, Shape> all;
    for (const HuggingFaceTensor& theirs : tensors_of(model))
        for (const OurTensor& ours : theirs.ours)
            all.emplace(ours.name, ours.shape);
    return all;
}

/// A checkpoint of the model, saved by two ranks that shard first dimensions.
inline std::string save_model(const ModelConfig& model, const std::string& dir)
{
    run_on_threads(2, [&](Comm& world) {
        std::vector<std::vector<float>> values;
        std::vector<TensorPiece> pieces;
        for (const auto& [name, shape] : parameters_of(model)) {
            TensorPiece piece = whole_tensor("param/" + name, shape, DType::f32, nullptr);
            values.push_back(values_of(piece.name, shape));
            const i64 half = shape[0] / 2, row = element_count(shape) / shape[0];
            piece.box.offset[0] = world.rank() == 0 ? 0 : half;
            piece.box.shape[0] = world.rank() == 0 ? half : shape[0] - half;
            piece.data = values.back().data() + piece.box.offset[0] * row;
            pieces.push_back(piece);
        }
        save_checkpoint(world, dir, {}, pieces, 0);
    });
    return dir + "/" + checkpoint_name(0);
}

} // namespace trivium
