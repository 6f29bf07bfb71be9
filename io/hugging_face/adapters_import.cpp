#include "io/hugging_face/adapters.hpp"

#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/merged.hpp"
#include "io/hugging_face/peft_modules.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace trivium {

namespace {

std::size_t index_of(i64 index) { return static_cast<std::size_t>(index); }

/// adapter_config.json.
struct PeftConfig {
    std::string place;
    nlohmann::json json;

    [[noreturn]] void refuse(const std::string& problem, const std::string& reason = "") const
    {
        throw UserError(
            {place, problem, reason, "export it again with PEFT, as LoRA for causal language models"});
    }
    bool flag(const char* key) const
    {
        const auto found = json.find(key);
        if (found == json.end() || found->is_null())
            return false;
        if (!found->is_boolean())
            refuse(str("has ", key, " = ", shown(*found)), "it must be true or false");
        return found->get<bool>();
    }
    double number(const char* key, double otherwise) const
    {
        const auto found = json.find(key);
        if (found == json.end() || found->is_null())
            return otherwise;
        if (!found->is_number())
            refuse(str("has ", key, " = ", shown(*found)), "it must be a number");
        return found->get<double>();
    }
    /// Whether target_modules, if it is a list, names the module; nullopt: it is none.
    std::optional<bool> targets(const std::string& module) const
    {
        const auto found = json.find("target_modules");
        if (found == json.end() || !found->is_array() || found->empty())
            return {};
        return std::ranges::any_of(*found, [&](const nlohmann::json& each) {
            return each.is_string() && is_called(module, each.get<std::string>());
        });
    }
    /// Whether modules that target_modules names may be without an adapter.
    bool has_exceptions() const
    {
        return std::ranges::any_of(
            std::initializer_list<const char*>{"layers_to_transform", "exclude_modules", "modules_to_save"},
            [&](const char* key) {
                const auto found = json.find(key);
                return found != json.end() && !found->is_null();
            });
    }
    static bool is_called(const std::string& module, const std::string& name)
    {
        return module == name || module.ends_with("." + name);
    }
    /// rank_pattern or alpha_pattern of a module, by the end of its name.
    double pattern(const char* key, const std::string& module, double otherwise) const
    {
        const auto found = json.find(key);
        if (found == json.end() || !found->is_object())
            return otherwise;
        for (const auto& [pattern, value] : found->items()) {
            std::string name = pattern;
            name.erase(0, name.starts_with('^') ? 1 : 0);
            if (name.find_first_of("*+?()[]{}|\\$") != std::string::npos)
                refuse(str("has the ", key, " ", shown(pattern)), "only names of modules are read, no "
                                                                  "regular expressions");
            if (value.is_number() && is_called(module, name))
                return value.get<double>();
        }
        return otherwise;
    }
};

PeftConfig read_peft_config(const std::string& folder)
{
    const std::string path = folder + "/" + adapter_config_file;
    PeftConfig config{path, parse_strict_json(read_file(path, adapter_config_file, Bytes{1} << 20), path)};
    if (!config.json.is_object())
        config.refuse("is not a JSON object");
    const auto is = [&](const char* key, const char* value) {
        const auto found = config.json.find(key);
        return found == config.json.end() || found->is_null() || *found == value;
    };
    if (!is("peft_type", "LORA"))
        config.refuse(str("has peft_type = ", shown(config.json["peft_type"])), "only LORA can be imported");
    if (!is("bias", "none"))
        config.refuse(str("has bias = ", shown(config.json["bias"])), "trained biases cannot be imported");
    return config;
}

/// Patterns that name exactly the weights of `adapted`.
std::vector<std::string> targets_of(const ModelConfig& model, const std::set<std::string>& adapted)
{
    TrainedParameters usual;
    usual.lora.rank = 1;
    std::set<std::string> by_default, targets;
    std::map<std::string, i64> missing; // by the name in a layer
    const auto in_layer = [](const std::string& name) {
        return name.starts_with("layers.") ? name.substr(name.find('.', 7)) : "";
    };
    for (const ModelParameter& parameter : all_parameters(model)) {
        if (usual.has_adapter(parameter))
            by_default.insert(parameter.name);
        missing[in_layer(parameter.name)] += adapted.contains(parameter.name) ? 0 : 1;
    }
    if (by_default == adapted)
        return {};
    for (const std::string& name : adapted)
        targets.insert(in_layer(name).empty() || missing[in_layer(name)] > 0 ? name
                                                                             : "layers.*" + in_layer(name));
    return {targets.begin(), targets.end()};
}

} // namespace

ImportedAdapter imported_adapter(const std::string& folder, const ModelConfig& model,
                                 const Architecture& architecture, const ReadParameter& base)
{
    const PeftConfig config = read_peft_config(folder);
    const SafetensorsReader files = SafetensorsReader::open(folder + "/" + adapter_file);
    ImportedAdapter made;
    made.lora.rank_stable = config.flag("use_rslora");
    made.lora.magnitudes = config.flag("use_dora");
    made.lora.dropout = config.number("lora_dropout", 0);
    std::set<std::string> read;
    const auto values = [&](const SafetensorsEntry& entry) {
        std::vector<float> all(index_of(element_count(entry.shape)));
        files.read(entry, i64{0}, std::span(all));
        read.insert(entry.name);
        return all;
    };
    const auto name_of = [&](const PeftModule& module, const char* part) {
        return peft_prefix + module.name +
               (module.is_table ? str(".lora_embedding_", part) : str(".lora_", part, ".weight"));
    };
    const auto refuse = [&](const std::string& problem, const std::string& reason) {
        throw UserError(
            {folder + "/" + adapter_file, problem, reason,
             str("use the ", adapter_config_file, " and the tensors of one adapter, for this model")});
    };
    const auto require_shape = [&](const std::string& name, const SafetensorsEntry* entry, const Shape& shape,
                                   const std::string& reason) {
        if (!entry)
            refuse(str("lacks the tensor ", in_quotes(name)), reason);
        if (entry->shape != shape)
            refuse(str("has the tensor ", in_quotes(name), " of shape ", print_shape(entry->shape), " where ",
                       print_shape(shape), " is expected"),
                   reason);
    };
    const double alpha = config.number("lora_alpha", 8), configured = config.number("r", 8);
    const std::vector<PeftModule> modules = modules_of(model, {}, architecture);
    struct Found {
        const PeftModule* module;
        const SafetensorsEntry *a, *b;
        i64 rank;
    };
    std::vector<Found> all;
    for (const PeftModule& module : modules) {
        const std::string name_a = name_of(module, "A"), name_b = name_of(module, "B");
        const SafetensorsEntry *a = files.find(name_a), *b = files.find(name_b);
        const std::optional<bool> targeted = config.targets(module.name);
        const bool is_expert = module.parts[0].expert >= 0; // in some versions no module of its own
        if (!a && !b && !(targeted.value_or(false) && !is_expert && !config.has_exceptions()))
            continue;
        if (!targeted.value_or(true))
            refuse(str("has the tensor ", in_quotes(a ? name_a : name_b)),
                   str("target_modules of ", adapter_config_file, " does not name its module"));
        const double wanted = config.pattern("rank_pattern", module.name, configured);
        if (!(wanted >= 1 && wanted <= 65536 && wanted == std::floor(wanted)))
            config.refuse(str("says that ", module.name, " has an adapter of rank ", wanted), "");
        const auto own_rank = static_cast<i64>(wanted);
        const std::string reason =
            str("the module has ", module.in, " inputs and ", module.out, " outputs, and ",
                adapter_config_file, " says it has an adapter of rank ", own_rank, " (r, rank_pattern)");
        require_shape(name_a, a, {own_rank, module.in}, reason);
        require_shape(name_b, b, {module.out, own_rank}, reason);
        all.push_back({&module, a, b, own_rank});
        made.lora.rank = std::max(made.lora.rank, own_rank);
    }
    if (all.empty())
        config.refuse(str("has no adapter of a module of ", architecture.name),
                      files.tensors().empty()
                          ? "it has no tensors"
                          : str("its tensors are such as ", in_quotes(files.tensors()[0].name)));
    const auto scale_of = [&](double of_module, i64 rank) {
        const auto r = static_cast<double>(rank);
        return of_module / (made.lora.rank_stable ? std::sqrt(r) : r);
    };
    // That of the largest rank, if it has the usual scale.
    const double scale = scale_of(alpha, static_cast<i64>(configured));
    if (!(scale > 0) || !std::isfinite(scale))
        config.refuse(str("has lora_alpha = ", alpha, " and r = ", configured), "both must be positive");
    const auto rank = static_cast<double>(made.lora.rank);
    made.lora.alpha = scale * (made.lora.rank_stable ? std::sqrt(rank) : rank);
    std::set<std::string> adapted;
    for (const Found& found : all) {
        const PeftModule& module = *found.module;
        const std::vector<float> a = values(*found.a), b = values(*found.b);
        const double own = scale_of(config.pattern("alpha_pattern", module.name, alpha), found.rank) / scale;
        std::vector<float> lengths;
        if (made.lora.magnitudes) {
            const SafetensorsEntry* entry = files.find(peft_prefix + module.name + ".lora_magnitude_vector");
            if (!entry)
                entry = files.find(peft_prefix + module.name + ".lora_magnitude_vector.weight");
            if (entry && element_count(entry->shape) == module.out)
                lengths = values(*entry);
            else
                require_shape(peft_prefix + module.name + ".lora_magnitude_vector", entry, {module.out},
                              "use_dora is true");
        }
        for (const PeftPart& part : module.parts) {
            adapted.insert(part.weight.name);
            const std::vector<ModelParameter> names = adapter_of(part.weight, made.lora);
            const i64 r_all = made.lora.rank, expert = std::max<i64>(0, part.expert),
                      experts = part.expert >= 0 ? model.experts : 1;
            std::vector<float>&to_a = made.values[names[0].name], &to_b = made.values[names[1].name];
            to_a.resize(index_of(experts * part.in * r_all));
            to_b.resize(index_of(experts * r_all * part.out));
            for (i64 i = 0; i < part.in; ++i)
                for (i64 r = 0; r < found.rank; ++r)
                    to_a[index_of((expert * part.in + i) * r_all + r)] = a[index_of(r * part.in + i)];
            each_column(part, [&](i64 ours, i64 theirs) {
                for (i64 r = 0; r < found.rank; ++r)
                    to_b[index_of((expert * r_all + r) * part.out + ours)] =
                        static_cast<float>(own * static_cast<double>(b[index_of(theirs * found.rank + r)]));
            });
            if (!made.lora.magnitudes)
                continue;
            const std::vector<double> before = column_lengths(model, part.weight, base, part.expert);
            std::vector<float>& to_m = made.values[names[2].name];
            to_m.resize(index_of(experts * part.out));
            each_column(part, [&](i64 ours, i64 theirs) {
                to_m[index_of(expert * part.out + ours)] = static_cast<float>(
                    static_cast<double>(lengths[index_of(theirs)]) - before[index_of(ours)]);
            });
        }
    }
    made.lora.targets = targets_of(model, adapted);
    // Modules that were trained as a whole.
    for (const HuggingFaceTensor& tensor : hugging_face_tensors(model, architecture)) {
        const SafetensorsEntry* const entry = files.find(peft_prefix + tensor.name);
        if (!entry)
            continue;
        if (entry->shape != tensor.shape || tensor.ours.size() != 1 || tensor.ours[0].first != 0)
            refuse(
                str("has the whole tensor ", in_quotes(entry->name), " of shape ", print_shape(entry->shape)),
                "it does not fit this model");
        const OurTensor& ours = tensor.ours[0];
        const std::vector<float> theirs = values(*entry);
        std::vector<float>& to = made.values[ours.name];
        to = theirs;
        if (tensor.transposed)
            for (i64 i = 0; i < ours.rows; ++i)
                for (i64 j = 0; j < ours.columns; ++j)
                    to[index_of(i * ours.columns + j)] = theirs[index_of(j * ours.rows + i)];
        made.lora.train.push_back(ours.name);
    }
    for (const SafetensorsEntry& entry : files.tensors())
        // With adapters of embeddings, PEFT may repeat weights of the base.
        if (!read.contains(entry.name) && entry.name.find(".base_layer.") == std::string::npos)
            config.refuse(
                str("has a tensor ", in_quotes(entry.name), " that ", architecture.name, " does not have"),
                "it adapts another model");
    return made;
}

} // namespace trivium
