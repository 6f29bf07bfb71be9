// The names and layouts of tensors in each class of transformers.
#include "base/check.hpp"
#include "config/model_parameters.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <algorithm>
#include <array>

namespace trivium {

namespace {

/// Our module, or a parameter (before its module), and theirs. Those with the same name there are one: the
/// products side by side, in the order of the table. A module has `*` for the number of an expert where each
/// has tensors of its own.
struct Module {
    const char *ours, *theirs;
};

// Norms, by their placement: only those of the model are looked up.
constexpr std::array llama_modules{
    Module{"attn_norm", "input_layernorm"},
    Module{"attn.q", "self_attn.q_proj"},
    Module{"attn.k", "self_attn.k_proj"},
    Module{"attn.v", "self_attn.v_proj"},
    Module{"attn.q_norm", "self_attn.q_norm"},
    Module{"attn.k_norm", "self_attn.k_norm"},
    Module{"attn.o", "self_attn.o_proj"},
    Module{"attn_post_norm", "post_attention_layernorm"},
    Module{"ffn_norm", "post_attention_layernorm"}, // but see module_name
    Module{"ffn.gate", "mlp.gate_proj"},
    Module{"ffn.up", "mlp.up_proj"},
    Module{"ffn.down", "mlp.down_proj"},
    Module{"ffn_post_norm", "post_feedforward_layernorm"},
    Module{"attn.sinks", "self_attn.sinks"},
    Module{"ffn.router.balance", "mlp.gate.e_score_correction_bias"},
    Module{"ffn.router", "mlp.gate"},
    Module{"ffn.experts.gate", "mlp.experts.*.gate_proj"},
    Module{"ffn.experts.up", "mlp.experts.*.up_proj"},
    Module{"ffn.experts.down", "mlp.experts.*.down_proj"},
    Module{"ffn.shared.gate", "mlp.shared_experts.gate_proj"},
    Module{"ffn.shared.up", "mlp.shared_experts.up_proj"},
    Module{"ffn.shared.down", "mlp.shared_experts.down_proj"},
};

// What the others call differently.
constexpr std::array phi3_modules{
    Module{"attn.q", "self_attn.qkv_proj"}, Module{"attn.k", "self_attn.qkv_proj"},
    Module{"attn.v", "self_attn.qkv_proj"}, Module{"ffn.gate", "mlp.gate_up_proj"},
    Module{"ffn.up", "mlp.gate_up_proj"},
};
constexpr std::array starcoder2_modules{Module{"ffn.up", "mlp.c_fc"}, Module{"ffn.down", "mlp.c_proj"}};
constexpr std::array neox_modules{
    Module{"attn.q", "attention.query_key_value"}, Module{"attn.k", "attention.query_key_value"},
    Module{"attn.v", "attention.query_key_value"}, Module{"attn.o", "attention.dense"},
    Module{"ffn.up", "mlp.dense_h_to_4h"},         Module{"ffn.down", "mlp.dense_4h_to_h"},
};
constexpr std::array deepseek_modules{
    Module{"attn.q_down", "self_attn.q_a_proj"},
    Module{"attn.q_latent_norm", "self_attn.q_a_layernorm"},
    Module{"attn.q", "self_attn.q_b_proj"}, // but see module_name
    Module{"attn.kv_down", "self_attn.kv_a_proj_with_mqa"},
    Module{"attn.k_rope", "self_attn.kv_a_proj_with_mqa"},
    Module{"attn.kv_latent_norm", "self_attn.kv_a_layernorm"},
    Module{"attn.k", "self_attn.kv_b_proj"},
    Module{"attn.v", "self_attn.kv_b_proj"},
};
constexpr std::array gpt2_modules{
    Module{"attn_norm", "ln_1"},     Module{"attn.q", "attn.c_attn"},  Module{"attn.k", "attn.c_attn"},
    Module{"attn.v", "attn.c_attn"}, Module{"attn.o", "attn.c_proj"},  Module{"ffn_norm", "ln_2"},
    Module{"ffn.up", "mlp.c_fc"},    Module{"ffn.down", "mlp.c_proj"},
};
constexpr std::array mixtral_modules{
    Module{"ffn.router", "block_sparse_moe.gate"},
    Module{"ffn.experts.gate", "block_sparse_moe.experts.*.w1"},
    Module{"ffn.experts.up", "block_sparse_moe.experts.*.w3"},
    Module{"ffn.experts.down", "block_sparse_moe.experts.*.w2"},
};
constexpr std::array gpt_oss_modules{
    Module{"ffn.router", "mlp.router"},
    Module{"ffn.experts.gate.weight", "mlp.experts.gate_up_proj"},
    Module{"ffn.experts.up.weight", "mlp.experts.gate_up_proj"},
    Module{"ffn.experts.down.weight", "mlp.experts.down_proj"},
    Module{"ffn.experts.gate.bias", "mlp.experts.gate_up_proj_bias"},
    Module{"ffn.experts.up.bias", "mlp.experts.gate_up_proj_bias"},
    Module{"ffn.experts.down.bias", "mlp.experts.down_proj_bias"},
};

/// The names outside of layers.
struct OuterNames {
    const char *layers, *embed, *positions, *final_norm, *head;
};

OuterNames outer_names(TensorNames names)
{
    switch (names) {
    case TensorNames::neox:
        return {"gpt_neox.layers.", "gpt_neox.embed_in", "", "gpt_neox.final_layer_norm", "embed_out"};
    case TensorNames::gpt2:
        return {"transformer.h.", "transformer.wte", "transformer.wpe", "transformer.ln_f", "lm_head"};
    default: return {"model.layers.", "model.embed_tokens", "", "model.norm", "lm_head"};
    }
}

std::span<const Module> own_modules(TensorNames names)
{
    switch (names) {
    case TensorNames::phi3: return phi3_modules;
    case TensorNames::starcoder2: return starcoder2_modules;
    case TensorNames::neox: return neox_modules;
    case TensorNames::gpt2: return gpt2_modules;
    case TensorNames::mixtral: return mixtral_modules;
    case TensorNames::gpt_oss: return gpt_oss_modules;
    case TensorNames::deepseek: return deepseek_modules;
    case TensorNames::llama: break;
    }
    return {};
}

/// Theirs, of a parameter of a layer.
std::string name_of_theirs(const std::string& ours, TensorNames names, const ModelConfig& model)
{
    const std::size_t dot = ours.rfind('.');
    const std::string module = ours.substr(0, dot), part = ours.substr(dot);
    if (module == "ffn_norm" && model.placement == Placement::sandwich)
        return "pre_feedforward_layernorm" + part;
    if (module == "attn.q" && model.q_latent == 0 && names == TensorNames::deepseek)
        return "self_attn.q_proj" + part;
    for (const std::span<const Module> modules : {own_modules(names), std::span<const Module>(llama_modules)})
        for (const Module& each : modules)
            if (ours == each.ours || module == each.ours)
                return each.theirs + (ours == each.ours ? "" : part);
    TRV_CHECK(false, "transformers has no module like ", ours);
    return {};
}

/// Whether a parameter of a layer is a matrix, or one for each expert: its inputs or outputs are the width d,
/// or its inputs a latent vector, l or c.
bool is_matrix(std::string_view dims)
{
    if (dims.front() == 'x')
        dims.remove_prefix(1);
    return dims.size() > 1 &&
           (std::string_view("dlc").find(dims.front()) != std::string_view::npos || dims.back() == 'd');
}

/// The matrix of a parameter: the width d is its inputs or its outputs; a table has a row per entry. Of all
/// experts together, the last dimension is the columns.
OurTensor our_tensor(const std::string& name, const std::string& dims, const ModelConfig& model)
{
    OurTensor tensor;
    tensor.name = name;
    std::size_t bar = 0; // dims before it are rows
    if (dims.front() == 'x' && dims.size() > 1)
        bar = dims.size() - 1;
    else if (is_matrix(dims))
        bar = dims.back() == 'd' ? dims.size() - 1 : 1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        tensor.shape.push_back(extent_of(model, dims[i]));
        (i < bar ? tensor.rows : tensor.columns) *= tensor.shape.back();
    }
    return tensor;
}

/// One expert's matrix of a parameter of all.
OurTensor of_expert(const std::string& name, const std::string& dims, const ModelConfig& model, i64 expert)
{
    OurTensor tensor = our_tensor(name, dims.substr(1), model);
    tensor.shape.insert(tensor.shape.begin(), model.experts);
    tensor.first = expert * tensor.count();
    return tensor;
}

/// Sets the shape of a tensor that has its parts. `transposed`: if it is a matrix.
void finish(HuggingFaceTensor& tensor, bool is_matrix, bool transposed)
{
    i64 columns = 0;
    for (const OurTensor& ours : tensor.ours)
        columns += ours.columns;
    const i64 rows = tensor.ours[0].rows;
    tensor.transposed = is_matrix && transposed;
    if (!is_matrix)
        tensor.shape = {columns};
    else
        tensor.shape = tensor.transposed ? Shape{columns, rows} : Shape{rows, columns};
}

/// The tensor of this name after index `first`, which is appended if there is none.
HuggingFaceTensor& tensor_named(const std::string& name, std::vector<HuggingFaceTensor>& all,
                                std::size_t first)
{
    const auto at = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                                 [&](const HuggingFaceTensor& tensor) { return tensor.name == name; });
    return at != all.end() ? *at : all.emplace_back(HuggingFaceTensor{.name = name, .shape = {}, .ours = {}});
}

void append_layer(std::vector<HuggingFaceTensor>& to, const ModelConfig& model, TensorNames names, i64 layer)
{
    const std::size_t first = to.size();
    for (const ModelParameter& parameter : layer_parameters(model, layer)) {
        const std::string ours = str("layers.", layer, ".", parameter.name),
                          theirs = str(outer_names(names).layers, layer, ".",
                                       name_of_theirs(parameter.name, names, model));
        // Linear has weights [out, in], Conv1D of GPT-2 [in, out].
        if (const std::size_t star = theirs.find('*'); star != std::string::npos) {
            for (i64 expert = 0; expert < model.experts; ++expert) {
                std::string name = theirs;
                name.replace(star, 1, std::to_string(expert));
                to.push_back(
                    {.name = name, .shape = {}, .ours = {of_expert(ours, parameter.dims, model, expert)}});
                finish(to.back(), is_matrix(parameter.dims), true);
            }
            continue;
        }
        HuggingFaceTensor& tensor = tensor_named(theirs, to, first);
        tensor.ours.push_back(our_tensor(ours, parameter.dims, model));
        if (parameter.name.starts_with("ffn.experts.")) { // [experts, in, out]; gate and up alternate
            tensor.groups = tensor.ours.size() > 1 ? tensor.ours[0].columns : 1;
            tensor.shape = tensor.ours[0].shape;
            tensor.shape.back() *= static_cast<i64>(tensor.ours.size());
            continue;
        }
        finish(tensor, is_matrix(parameter.dims), names != TensorNames::gpt2);
        if (names == TensorNames::neox && tensor.ours.size() > 1)
            tensor.groups = model.heads;
        if (has_latents(model)) {
            const bool of_q = parameter.name == "attn.q.weight";
            tensor.groups = of_q || parameter.name == "attn.v.weight" ? model.heads : tensor.groups;
            tensor.moved = of_q ? rotary_dim(model) : 0;
        }
    }
}

} // namespace

std::vector<HuggingFaceTensor> hugging_face_tensors(const ModelConfig& model,
                                                    const Architecture& architecture)
{
    TRV_EXPECT(model.vocab > 0 && model.kv_heads > 0 && model.head_dim > 0 && model.ffn_dim > 0,
               "a model that is not resolved");
    const TensorNames names = architecture.names;
    const OuterNames outer = outer_names(names);
    const std::array modules{Module{"embed", outer.embed}, Module{"positions", outer.positions},
                             Module{"final_norm", outer.final_norm}, Module{"head", outer.head}};
    std::vector<HuggingFaceTensor> tensors;
    bool layers_done = false;
    for (const ModelParameter& parameter : outer_parameters(model)) {
        const std::size_t dot = parameter.name.find('.');
        const std::string ours = parameter.name.substr(0, dot);
        if (ours == "final_norm" && !std::exchange(layers_done, true))
            for (i64 layer = 0; layer < model.layers; ++layer)
                append_layer(tensors, model, names, layer);
        const auto at = std::ranges::find_if(modules, [&](const Module& m) { return ours == m.ours; });
        TRV_CHECK(at != modules.end() && *at->theirs, "transformers has no module like ", ours);
        HuggingFaceTensor tensor{.name = at->theirs + parameter.name.substr(dot), .shape = {}, .ours = {}};
        tensor.ours.push_back(our_tensor(parameter.name, parameter.dims, model));
        finish(tensor, parameter.dims.size() > 1, false);
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

} // namespace trivium
