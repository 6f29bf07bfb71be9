#include "io/hugging_face/config_parts.hpp"

#include <algorithm>

namespace trivium {

using Json = nlohmann::json;

namespace {

constexpr const char *experts_key = "num_experts", *slots_key = "num_experts_per_tok",
                     *width_key = "moe_intermediate_size", *normalised_key = "norm_topk_prob",
                     *step_key = "decoder_sparse_step", *dense_key = "mlp_only_layers",
                     *first_dense_key = "first_k_dense_replace", *shared_key = "n_shared_experts",
                     *scale_key = "routed_scaling_factor", *groups_key = "n_group",
                     *top_groups_key = "topk_group", *method_key = "topk_method",
                     *in_groups = "group_limited_greedy";

/// transformers accepts each of them in each class.
constexpr std::array experts_keys{"num_experts", "num_local_experts", "n_routed_experts"};

i64 positive_whole(const ConfigKeys& keys, const std::string& key)
{
    const i64 value = keys.whole(key);
    if (value == 0)
        keys.refuse(str("has ", key, " = 0"));
    return value;
}

i64 read_count(const ConfigKeys& keys, const ClassKeys& of)
{
    std::string stated;
    for (const char* key : experts_keys)
        if (keys.json.contains(key)) {
            if (!stated.empty() && keys.json[key] != keys.json[stated])
                keys.refuse(str("has ", stated, " = ", shown(keys.json[stated])),
                            str(key, " is ", shown(keys.json[key])));
            stated = key;
        }
    return positive_whole(keys, stated.empty() ? of.name(experts_key) : stated);
}

/// How many layers at the begin are dense. Throws if others are dense, too.
i64 read_dense_layers(const ConfigKeys& keys, const ClassKeys& of, i64 layers)
{
    if (of.has(first_dense_key))
        return std::min(keys.whole(first_dense_key), layers);
    if (!of.has(step_key))
        return 0;
    const i64 step = positive_whole(keys, step_key);
    std::vector<double> dense = keys.find(dense_key) ? keys.numbers(dense_key) : std::vector<double>();
    std::ranges::sort(dense);
    i64 first = 0;
    for (i64 layer = 0; layer < layers; ++layer) {
        const bool is_dense =
            (layer + 1) % step != 0 || std::ranges::binary_search(dense, static_cast<double>(layer));
        if (is_dense && first < layer)
            keys.unsupported(
                str("its layer ", layer, " is dense, after one with experts"),
                str("by ", step_key, " and ", dense_key, "; supported: dense layers before all others"));
        first += is_dense ? 1 : 0;
    }
    return first;
}

} // namespace

std::string balance_loss_in(const ConfigKeys& keys, const ModelConfig& model)
{
    for (const char* key : {"router_aux_loss_coef", "aux_loss_alpha"})
        if (model.experts > 0 && keys.number(key, 0) > 0)
            return str(key, " = ", keys.number(key));
    return "";
}

bool is_experts_key(const ClassKeys& of, const std::string& key)
{
    return of.has(experts_key) && std::ranges::find(experts_keys, key) != experts_keys.end();
}

void read_experts(const ConfigKeys& keys, const ClassKeys& of, ModelConfig& m)
{
    if (!of.has(experts_key))
        return;
    const i64 dense = read_dense_layers(keys, of, std::min(m.layers, most_layers));
    m.experts = dense < m.layers ? read_count(keys, of) : 0;
    if (m.experts == 0)
        return;
    m.dense_layers = dense;
    m.expert_slots = positive_whole(keys, slots_key);
    m.expert_dim = of.has(width_key) ? positive_whole(keys, width_key) : 0;
    if (of.has(normalised_key))
        m.router_normalised = keys.flag(normalised_key);
    if (of.has(shared_key)) {
        m.shared_dim = keys.whole(shared_key, 0) * m.expert_dim;
        if (m.ffn_bias)
            keys.unsupported("it has biases in dense blocks and none in experts", "mlp_bias is true");
    }
    if (of.has(scale_key))
        m.router_scale = keys.positive(scale_key);
    if (of.has(groups_key)) {
        m.router_groups = keys.whole(groups_key, 1);
        m.router_top_groups = keys.whole(top_groups_key, 1);
    }
    if (const std::string method = of.has(method_key) ? keys.text(method_key) : in_groups;
        method != in_groups) {
        if (method != "greedy")
            keys.unsupported(str("its ", method_key, " is ", in_quotes(method)),
                             str("supported: \"greedy\", \"", in_groups, "\""));
        m.router_groups = m.router_top_groups = 1;
    }
}

void write_experts(const ModelConfig& m, const ClassKeys& of, nlohmann::ordered_json& to)
{
    if (!of.has(experts_key))
        return;
    const i64 dense = m.experts > 0 ? m.dense_layers : m.layers;
    if (of.has(first_dense_key))
        to[first_dense_key] = dense;
    if (of.has(step_key)) {
        to[step_key] = 1;
        to[dense_key] = Json::array();
        for (i64 layer = 0; layer < dense; ++layer)
            to[dense_key].push_back(layer);
    }
    if (m.experts == 0)
        return;
    to[of.name(experts_key)] = m.experts;
    to[slots_key] = m.expert_slots;
    to[of.has(width_key) ? width_key : "intermediate_size"] = m.expert_dim;
    if (of.has(normalised_key))
        to[normalised_key] = m.router_normalised;
    if (of.has(shared_key))
        to[shared_key] = m.shared_dim / m.expert_dim;
    if (of.has(scale_key))
        to[scale_key] = m.router_scale;
    if (of.has(groups_key)) {
        to[groups_key] = m.router_groups;
        to[top_groups_key] = m.router_top_groups;
    }
    if (of.has(method_key))
        to[method_key] = m.router_groups > 1 ? in_groups : "greedy";
}

} // namespace trivium
