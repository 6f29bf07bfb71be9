#include "io/hugging_face/hugging_face.hpp"

#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/files/files.hpp"
#include "io/files/folders.hpp"
#include "io/files/strict_json.hpp"

#include <algorithm>
#include <set>

namespace trivium {

namespace {

/// A row of the name table. `ours`: "NAME:dims", with the dims of src/model/model.hpp and a bar between
/// inputs and outputs. "N" in a name is the number of the layer.
struct Row {
    const char* theirs;
    std::vector<const char*> ours;
    bool transposed = false;
};

constexpr bool transposed = true;
constexpr const char* head_name = "lm_head.weight"; // only if not tied

// Llama uses torch.nn.Linear: weights [out, in].
const std::vector<Row>& llama_rows()
{
    static const std::vector<Row> rows{
        {"model.embed_tokens.weight", {"embed.weight:v|d"}},
        {"model.layers.N.input_layernorm.weight", {"layers.N.attn_norm.weight:d"}},
        {"model.layers.N.self_attn.q_proj.weight", {"layers.N.attn.q.weight:d|gre"}, transposed},
        {"model.layers.N.self_attn.k_proj.weight", {"layers.N.attn.k.weight:d|ge"}, transposed},
        {"model.layers.N.self_attn.v_proj.weight", {"layers.N.attn.v.weight:d|ge"}, transposed},
        {"model.layers.N.self_attn.o_proj.weight", {"layers.N.attn.o.weight:gre|d"}, transposed},
        {"model.layers.N.post_attention_layernorm.weight", {"layers.N.ffn_norm.weight:d"}},
        {"model.layers.N.mlp.gate_proj.weight", {"layers.N.ffn.gate.weight:d|f"}, transposed},
        {"model.layers.N.mlp.up_proj.weight", {"layers.N.ffn.up.weight:d|f"}, transposed},
        {"model.layers.N.mlp.down_proj.weight", {"layers.N.ffn.down.weight:f|d"}, transposed},
        {"model.norm.weight", {"final_norm.weight:d"}},
        {head_name, {"head.weight:v|d"}},
    };
    return rows;
}

// GPT-2 uses transformers' Conv1D: weights [in, out], with query, key and value in one tensor.
const std::vector<Row>& gpt2_rows()
{
    static const std::vector<Row> rows{
        {"transformer.wte.weight", {"embed.weight:v|d"}},
        {"transformer.wpe.weight", {"positions.weight:p|d"}},
        {"transformer.h.N.ln_1.weight", {"layers.N.attn_norm.weight:d"}},
        {"transformer.h.N.ln_1.bias", {"layers.N.attn_norm.bias:d"}},
        {"transformer.h.N.attn.c_attn.weight",
         {"layers.N.attn.q.weight:d|gre", "layers.N.attn.k.weight:d|ge", "layers.N.attn.v.weight:d|ge"}},
        {"transformer.h.N.attn.c_attn.bias",
         {"layers.N.attn.q.bias:gre", "layers.N.attn.k.bias:ge", "layers.N.attn.v.bias:ge"}},
        {"transformer.h.N.attn.c_proj.weight", {"layers.N.attn.o.weight:gre|d"}},
        {"transformer.h.N.attn.c_proj.bias", {"layers.N.attn.o.bias:d"}},
        {"transformer.h.N.ln_2.weight", {"layers.N.ffn_norm.weight:d"}},
        {"transformer.h.N.ln_2.bias", {"layers.N.ffn_norm.bias:d"}},
        {"transformer.h.N.mlp.c_fc.weight", {"layers.N.ffn.up.weight:d|f"}},
        {"transformer.h.N.mlp.c_fc.bias", {"layers.N.ffn.up.bias:f"}},
        {"transformer.h.N.mlp.c_proj.weight", {"layers.N.ffn.down.weight:f|d"}},
        {"transformer.h.N.mlp.c_proj.bias", {"layers.N.ffn.down.bias:d"}},
        {"transformer.ln_f.weight", {"final_norm.weight:d"}},
        {"transformer.ln_f.bias", {"final_norm.bias:d"}},
        {head_name, {"head.weight:v|d"}},
    };
    return rows;
}

/// The prefix of names that a file of the base model (without the head) omits.
std::string_view prefix_of(Family family) { return family == Family::llama ? "model." : "transformer."; }

i64 extent_of(char dim, const ModelConfig& m)
{
    switch (dim) {
    case 'v': return m.vocab;
    case 'd': return m.dim;
    case 'p': return m.seq;
    case 'g': return m.kv_heads;
    case 'r': return m.heads / m.kv_heads;
    case 'e': return m.head_dim;
    case 'f': return m.ffn_dim;
    }
    TRV_CHECK(false, "no dimension '", dim, "'");
    return 0;
}

std::string with_layer(std::string name, i64 layer)
{
    if (const std::size_t at = name.find(".N."); at != std::string::npos)
        name.replace(at + 1, 1, std::to_string(layer));
    return name;
}

OurTensor our_tensor(const std::string& text, i64 layer, const ModelConfig& model)
{
    OurTensor tensor;
    tensor.name = with_layer(text.substr(0, text.find(':')), layer);
    const std::string dims = text.substr(text.find(':') + 1);
    const std::size_t bar = dims.find('|');
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (i == bar)
            continue;
        tensor.shape.push_back(extent_of(dims[i], model));
        (bar != std::string::npos && i < bar ? tensor.rows : tensor.columns) *= tensor.shape.back();
    }
    return tensor;
}

HuggingFaceTensor their_tensor(const Row& row, i64 layer, const ModelConfig& model)
{
    HuggingFaceTensor tensor;
    tensor.name = with_layer(row.theirs, layer);
    tensor.transposed = row.transposed;
    i64 columns = 0;
    for (const char* ours : row.ours) {
        tensor.ours.push_back(our_tensor(ours, layer, model));
        columns += tensor.ours.back().columns;
    }
    if (std::string_view(row.ours[0]).find('|') == std::string_view::npos)
        tensor.shape = {columns};
    else if (row.transposed)
        tensor.shape = {columns, tensor.ours[0].rows};
    else
        tensor.shape = {tensor.ours[0].rows, columns};
    return tensor;
}

[[noreturn]] void refuse(const std::string& folder, const std::string& problem, const std::string& reason)
{
    throw UserError({folder, problem, reason,
                     "get the folder again from where it came from, config.json with its tensors"});
}

/// Constant buffers that old versions of transformers stored with the weights.
bool is_ignored(std::string_view name)
{
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
           name.ends_with(".rotary_emb.inv_freq");
}

/// If a tied head is stored nevertheless, it must equal the embedding.
void require_tied(const SafetensorsReader& files, const SafetensorsEntry& head,
                  const SafetensorsEntry& embedding, const std::string& folder)
{
    const i64 count = head.shape == embedding.shape ? element_count(head.shape) : 0, at_once = i64{1} << 20;
    bool same = head.shape == embedding.shape;
    std::vector<float> a(static_cast<std::size_t>(std::min(count, at_once))), b(a.size());
    for (i64 first = 0; same && first < count; first += at_once) {
        const auto size = static_cast<std::size_t>(std::min(at_once, count - first));
        files.read(head, first, std::span(a).first(size));
        files.read(embedding, first, std::span(b).first(size));
        same = std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin());
    }
    if (!same)
        throw UserError({folder, str("has a tensor ", head_name, " that is not the embedding"),
                         "config.json has tie_word_embeddings = true",
                         "set tie_word_embeddings to false in config.json, or remove the tensor"});
}

} // namespace

std::vector<HuggingFaceTensor> hugging_face_tensors(const ModelConfig& model)
{
    TRV_EXPECT(model.vocab > 0 && model.kv_heads > 0 && model.ffn_dim > 0 &&
                   (model.family == Family::llama || model.kv_heads == model.heads),
               "a model that is not resolved");
    const std::vector<Row>& rows = model.family == Family::llama ? llama_rows() : gpt2_rows();
    const auto of_layer = [](const Row& row) {
        return std::string_view(row.theirs).find(".N.") != std::string_view::npos;
    };
    const auto first = std::find_if(rows.begin(), rows.end(), of_layer),
               last = std::find_if_not(first, rows.end(), of_layer);
    std::vector<HuggingFaceTensor> tensors;
    for (auto row = rows.begin(); row != first; ++row)
        tensors.push_back(their_tensor(*row, 0, model));
    for (i64 layer = 0; layer < model.layers; ++layer)
        for (auto row = first; row != last; ++row)
            tensors.push_back(their_tensor(*row, layer, model));
    for (auto row = last; row != rows.end(); ++row)
        if (!(model.tied_embeddings && row->theirs == head_name))
            tensors.push_back(their_tensor(*row, 0, model));
    return tensors;
}

HuggingFaceModel open_hugging_face(const std::string& folder)
{
    const std::string config = file_in_folder(folder, "config.json");
    if (config.empty())
        throw UserError({folder, "has no config.json", "",
                         "name a folder that save_pretrained of transformers has written"});
    const HuggingFaceConfig description =
        parse_hugging_face_config(read_file(config, "config.json", max_settings_bytes), config);
    HuggingFaceModel result{description.model, description.window, SafetensorsReader::open(folder), {}};
    const ModelConfig& model = result.model;
    const SafetensorsReader& files = result.files;
    if (model.layers > static_cast<i64>(files.tensors().size())) // before allocating a list of this length
        refuse(folder, str("has ", files.tensors().size(), " tensors"),
               str("config.json has ", model.layers, " layers"));
    result.tensors = hugging_face_tensors(model);
    const std::string prefix(prefix_of(model.family));
    const bool is_bare = !files.find(result.tensors[0].name);
    const auto name_in_file = [&](const std::string& name) {
        return is_bare && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    };
    std::set<std::string> known;
    for (HuggingFaceTensor& tensor : result.tensors) {
        tensor.name = name_in_file(tensor.name);
        const SafetensorsEntry* entry = files.find(tensor.name);
        if (!entry)
            refuse(folder, "has no tensor " + in_quotes(tensor.name), "the model in config.json needs it");
        if (entry->shape != tensor.shape)
            refuse(folder,
                   str("tensor ", in_quotes(tensor.name), " has the shape ", print_shape(entry->shape)),
                   "according to config.json it is " + print_shape(tensor.shape));
        float first = 0; // checks that the type can be read
        files.read(*entry, i64{0}, std::span(&first, 1));
        known.insert(tensor.name);
    }
    for (const SafetensorsEntry& entry : files.tensors()) {
        if (known.contains(entry.name) || is_ignored(entry.name))
            continue;
        if (entry.name != head_name)
            refuse(folder, "has a tensor " + in_quotes(entry.name),
                   "the model in config.json does not have it");
        require_tied(files, entry, *files.find(result.tensors[0].name), folder);
    }
    return result;
}

} // namespace trivium
