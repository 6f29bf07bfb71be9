#include "io/hugging_face/hugging_face.hpp"

#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/files/files.hpp"
#include "io/files/folders.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/mxfp4.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

namespace trivium {

namespace {

constexpr const char *head_name = "lm_head.weight", *neox_head_name = "embed_out.weight";

[[noreturn]] void refuse(const std::string& folder, const std::string& problem, const std::string& reason)
{
    throw UserError({folder, problem, reason,
                     "get the folder again from where it came from, config.json with its tensors"});
}

/// Constant buffers that old versions of transformers stored with the weights.
bool is_ignored(std::string_view name)
{
    constexpr std::array<std::string_view, 5> buffers{".attn.bias", ".attn.masked_bias", ".attention.bias",
                                                      ".attention.masked_bias", ".rotary_emb.inv_freq"};
    return std::ranges::any_of(buffers, [&](std::string_view end) { return name.ends_with(end); });
}

/// Whether a tensor belongs to the part of Gemma 3 that reads images.
bool is_of_images(std::string_view name)
{
    name.remove_prefix(name.starts_with("model.") ? 6 : 0);
    return name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.");
}

/// Whether a tensor belongs to a layer behind the last one: DeepSeek V3 has one that predicts further tokens.
bool is_of_prediction(const std::string& name, const ModelConfig& model)
{
    const std::string layers = "model.layers.";
    return name.starts_with(layers) && std::atoll(name.c_str() + layers.size()) >= model.layers;
}

/// The prefix that stands for `prefix` in the files, where one of them has the tensor `prefix` + `name`:
/// that of the base model is nothing, that of a text model is longer.
std::string prefix_in(const SafetensorsReader& files, const std::string& name, const std::string& prefix)
{
    for (const std::string& candidate :
         {prefix, std::string(), "language_model." + prefix, prefix + "language_model."})
        if (files.find(candidate + name))
            return candidate;
    return prefix;
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
        throw UserError({folder, str("has a tensor ", head.name, " that is not the embedding"),
                         "config.json has tie_word_embeddings = true",
                         "set tie_word_embeddings to false in config.json, or remove the tensor"});
}

} // namespace

HuggingFaceModel open_hugging_face(const std::string& folder)
{
    const std::string config = file_in_folder(folder, "config.json");
    if (config.empty())
        throw UserError({folder, "has no config.json", "",
                         "name a folder that save_pretrained of transformers has written"});
    const HuggingFaceConfig description =
        parse_hugging_face_config(read_file(config, "config.json", max_settings_bytes), config);
    HuggingFaceModel result{description.model,
                            description.architecture,
                            description.balance_loss,
                            SafetensorsReader::open(folder),
                            {}};
    const ModelConfig& model = result.model;
    const SafetensorsReader& files = result.files;
    if (model.layers > static_cast<i64>(files.tensors().size())) // before allocating a list of this length
        refuse(folder, str("has ", files.tensors().size(), " tensors"),
               str("config.json has ", model.layers, " layers"));
    if (model.experts > 0 && result.architecture->names != TensorNames::gpt_oss &&
        (model.layers - model.dense_layers) > static_cast<i64>(files.tensors().size()) / (3 * model.experts))
        refuse(folder, str("has ", files.tensors().size(), " tensors"),
               str("config.json has ", model.experts, " experts in ", model.layers - model.dense_layers,
                   " layers"));
    result.tensors = hugging_face_tensors(model, *result.architecture);
    const std::string first = result.tensors[0].name, prefix = first.substr(0, first.find('.') + 1);
    const std::string prefix_in_file = prefix_in(files, first.substr(prefix.size()), prefix);
    const auto name_in_file = [&](const std::string& name) {
        if (name == neox_head_name && !files.find(name)) // some versions of transformers 5
            return std::string(head_name);
        return name.starts_with(prefix) ? prefix_in_file + name.substr(prefix.size()) : name;
    };
    std::set<std::string> known;
    for (HuggingFaceTensor& tensor : result.tensors) {
        const std::string name = name_in_file(tensor.name);
        tensor.name = name;
        if (has_mxfp4(tensor, files, folder)) {
            tensor.mxfp4 = true;
            known.insert({Mxfp4Names(name).blocks, Mxfp4Names(name).scales});
            continue;
        }
        const SafetensorsEntry* entry = files.find(name);
        if (!entry)
            refuse(folder, "has no tensor " + in_quotes(tensor.name), "the model in config.json needs it");
        if (entry->shape != tensor.shape)
            refuse(folder,
                   str("tensor ", in_quotes(tensor.name), " has the shape ", print_shape(entry->shape)),
                   "according to config.json it is " + print_shape(tensor.shape));
        float value = 0; // checks that the type can be read
        files.read(*entry, i64{0}, std::span(&value, 1));
        known.insert(tensor.name);
    }
    for (const SafetensorsEntry& entry : files.tensors()) {
        if (known.contains(entry.name) || is_ignored(entry.name) ||
            (description.is_part && is_of_images(entry.name)) ||
            (model.family == Family::deepseek3 && is_of_prediction(entry.name, model)))
            continue;
        if (!model.tied_embeddings || (!entry.name.ends_with(head_name) && entry.name != neox_head_name))
            refuse(folder, "has a tensor " + in_quotes(entry.name),
                   "the model in config.json does not have it");
        require_tied(files, entry, *files.find(result.tensors[0].name), folder);
    }
    return result;
}

} // namespace trivium
