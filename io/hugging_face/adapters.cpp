#include "io/hugging_face/adapters.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/merged.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace trivium {

namespace {

constexpr const char *peft_prefix = "base_model.model.", *adapter_config_file = "adapter_config.json",
                     *adapter_file = "adapter_model.safetensors";

/// One of our weights in a module of theirs.
struct PeftPart {
    ModelParameter weight;
    i64 expert = -1; ///< of a tensor of one expert; -1: the whole weight
    i64 in = 0, out = 0;
    bool adapted = false;
    std::vector<std::pair<i64, i64>> columns; ///< of `out`: ours, theirs; for each run the first
    std::vector<i64> counts;                  ///< of the runs
};

/// A linear layer or an embedding of theirs.
struct PeftModule {
    std::string name; ///< "model.layers.0.self_attn.q_proj"
    bool is_table = false;
    std::vector<PeftPart> parts;
    i64 in = 0, out = 0;

    i64 adapted() const { return std::ranges::count_if(parts, &PeftPart::adapted); }
};

i64 extent_of_all(const ModelConfig& model, const std::string& dims)
{
    i64 product = 1;
    for (const char dim : dims)
        product *= extent_of(model, dim);
    return product;
}

std::string without_weight(const std::string& name) { return name.substr(0, name.rfind(".weight")); }

/// Those with a weight of two dimensions. Experts in one tensor have none.
std::vector<PeftModule> modules_of(const ModelConfig& model, const TrainedParameters& trained,
                                   const Architecture& architecture)
{
    std::map<std::string, ModelParameter> parameters;
    for (ModelParameter& parameter : all_parameters(model))
        parameters[parameter.name] = parameter;
    std::vector<PeftModule> modules;
    for (const HuggingFaceTensor& tensor : hugging_face_tensors(model, architecture)) {
        const ModelParameter& first = parameters.at(tensor.ours[0].name);
        if (!first.is_matrix() || (first.has_experts() && tensor.shape.size() > 2) ||
            tensor.shape.size() != 2)
            continue;
        PeftModule module;
        module.name = without_weight(tensor.name);
        module.is_table = first.name == "embed.weight" || first.name == "positions.weight";
        for (const OurTensor& ours : tensor.ours) {
            PeftPart part;
            part.weight = parameters.at(ours.name);
            part.in = extent_of_all(model, part.weight.in);
            part.out = extent_of_all(model, part.weight.out);
            part.expert = part.weight.has_experts() ? ours.first / ours.count() : -1;
            part.adapted = trained.has_adapter(part.weight);
            module.in = part.in;
            module.out += part.out;
            module.parts.push_back(std::move(part));
        }
        if (first.name == "head.weight") { // its columns are inputs
            module.parts[0].columns = {{0, 0}};
            module.parts[0].counts = {module.out};
        } else {
            for (const ColumnRun& run : runs_of(tensor)) {
                PeftPart& part = module.parts[run.part];
                part.columns.emplace_back(run.column, run.theirs);
                part.counts.push_back(run.count);
            }
        }
        modules.push_back(std::move(module));
    }
    return modules;
}

/// Calls visit(ours, theirs) for each column of a part.
template <class Visit>
void each_column(const PeftPart& part, Visit&& visit)
{
    for (std::size_t run = 0; run < part.columns.size(); ++run)
        for (i64 i = 0; i < part.counts[run]; ++i)
            visit(part.columns[run].first + i, part.columns[run].second + i);
}

/// Of a part: A [in, rank], B [rank, out] or the magnitudes [out], of its expert.
std::vector<float> values_of(const ModelConfig& model, const ModelParameter& parameter, i64 rank,
                             const PeftPart& part, const ReadParameter& from)
{
    i64 count = 1;
    for (const char dim : parameter.dims)
        count *= dim == rank_dim ? rank : dim == 'x' && part.expert >= 0 ? 1 : extent_of(model, dim);
    std::vector<float> values(static_cast<std::size_t>(count));
    from(parameter.name, std::max<i64>(0, part.expert) * count, values);
    return values;
}

/// The last parts of names that all of `modules` with this end have, otherwise whole names.
nlohmann::ordered_json short_names(const std::set<std::string>& chosen, const std::vector<std::string>& all)
{
    const auto end_of = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
    std::set<std::string> partly, names;
    for (const std::string& name : all)
        if (!chosen.contains(name))
            partly.insert(end_of(name));
    for (const std::string& name : chosen)
        names.insert(partly.contains(end_of(name)) ? name : end_of(name));
    return names;
}

std::size_t place(i64 index) { return static_cast<std::size_t>(index); }

nlohmann::ordered_json as_number(double value)
{
    if (value == std::floor(value) && std::abs(value) < 1e15)
        return static_cast<i64>(value);
    return value;
}

constexpr std::array<i64, 9> server_ranks{1, 8, 16, 32, 64, 128, 256, 320, 512}; // vLLM's max_lora_rank

} // namespace

PeftAdapter exported_adapter(const ModelConfig& model, const TrainedParameters& trained,
                             const Architecture& architecture, const std::string& base, ReadParameter from)
{
    const LoraConfig& lora = trained.lora;
    const i64 rank = lora.rank;
    const double alpha = lora.alpha > 0 ? lora.alpha : 2 * static_cast<double>(rank);
    PeftAdapter made;
    nlohmann::ordered_json ranks = nlohmann::json::object(), alphas = nlohmann::json::object();
    std::vector<std::string> all;
    std::set<std::string> adapted, known;
    bool has_experts = false;
    i64 most = rank;
    for (const PeftModule& module : modules_of(model, trained, architecture)) {
        all.push_back(module.name);
        for (const PeftPart& part : module.parts)
            known.insert(part.weight.name);
        const i64 blocks = module.adapted();
        if (blocks == 0)
            continue;
        adapted.insert(module.name);
        has_experts = has_experts || module.parts[0].expert >= 0;
        if (blocks > 1) {
            ranks[module.name] = blocks * rank;
            const auto times = static_cast<double>(blocks);
            alphas[module.name] = as_number(alpha * (lora.rank_stable ? std::sqrt(times) : times));
            most = std::max(most, blocks * rank);
        }
        const std::string name = peft_prefix + module.name;
        made.tensors.push_back({name + (module.is_table ? ".lora_embedding_A" : ".lora_A.weight"),
                                {blocks * rank, module.in},
                                [=] {
                                    std::vector<float> theirs;
                                    for (const PeftPart& part : module.parts) {
                                        if (!part.adapted)
                                            continue;
                                        const std::vector<float> a = values_of(
                                            model, adapter_of(part.weight, lora)[0], rank, part, from);
                                        for (i64 r = 0; r < rank; ++r)
                                            for (i64 i = 0; i < module.in; ++i)
                                                theirs.push_back(a[place(i * rank + r)]);
                                    }
                                    return theirs;
                                }});
        made.tensors.push_back({name + (module.is_table ? ".lora_embedding_B" : ".lora_B.weight"),
                                {module.out, blocks * rank},
                                [=] {
                                    std::vector<float> theirs(place(module.out * blocks * rank));
                                    i64 block = 0;
                                    for (const PeftPart& part : module.parts) {
                                        if (!part.adapted)
                                            continue;
                                        const std::vector<float> b = values_of(
                                            model, adapter_of(part.weight, lora)[1], rank, part, from);
                                        each_column(part, [&](i64 ours, i64 column) {
                                            for (i64 r = 0; r < rank; ++r)
                                                theirs[place((column * blocks + block) * rank + r)] =
                                                    b[place(r * part.out + ours)];
                                        });
                                        ++block;
                                    }
                                    return theirs;
                                }});
        if (lora.magnitudes)
            made.tensors.push_back(
                {name + ".lora_magnitude_vector", {module.out}, [=] {
                     std::vector<float> theirs(place(module.out));
                     for (const PeftPart& part : module.parts) {
                         const std::vector<double> lengths = column_lengths(model, part.weight, from);
                         std::vector<float> change(lengths.size());
                         if (part.adapted)
                             change = values_of(model, adapter_of(part.weight, lora)[2], rank, part, from);
                         each_column(part, [&](i64 ours, i64 column) {
                             theirs[place(column)] = static_cast<float>(
                                 lengths[place(ours)] + static_cast<double>(change[place(ours)]));
                         });
                     }
                     return theirs;
                 }});
    }
    for (const ModelParameter& parameter : all_parameters(model))
        if (trained.has_adapter(parameter) && !known.contains(parameter.name))
            throw UserError({"--adapter", str(parameter.name, " has an adapter that PEFT cannot express"),
                             str(architecture.name, " has the experts of a layer in one tensor"),
                             "export the merged model, without --adapter"});
    // Modules that were trained as a whole, with all their tensors.
    std::set<std::string> saved;
    const std::vector<HuggingFaceTensor> tensors = hugging_face_tensors(model, architecture);
    const auto module_of = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
    std::vector<std::string> every;
    for (const HuggingFaceTensor& tensor : tensors) {
        every.push_back(module_of(tensor.name));
        if (std::ranges::any_of(tensor.ours,
                                [&](const OurTensor& ours) { return !trained.is_frozen(ours.name); }))
            saved.insert(module_of(tensor.name));
    }
    for (const HuggingFaceTensor& tensor : tensors)
        if (saved.contains(module_of(tensor.name)))
            made.tensors.push_back({peft_prefix + tensor.name, tensor.shape, [=] {
                                        std::vector<float> values;
                                        export_values(tensor, from, [&](std::span<const float> some) {
                                            values.insert(values.end(), some.begin(), some.end());
                                        });
                                        return values;
                                    }});
    nlohmann::ordered_json config{
        {"peft_type", "LORA"},
        {"task_type", "CAUSAL_LM"},
        {"auto_mapping", nullptr},
        {"base_model_name_or_path", base},
        {"revision", nullptr},
        {"inference_mode", true},
        {"r", rank},
        {"lora_alpha", as_number(alpha)},
        {"lora_dropout", as_number(lora.dropout)},
        {"target_modules", short_names(adapted, all)},
        {"fan_in_fan_out", architecture.names == TensorNames::gpt2},
        {"bias", "none"},
        {"use_rslora", lora.rank_stable},
        {"use_dora", lora.magnitudes},
        {"modules_to_save", saved.empty() ? nlohmann::ordered_json() : short_names(saved, every)},
        {"init_lora_weights", true},
        {"layers_to_transform", nullptr},
        {"layers_pattern", nullptr},
        {"rank_pattern", ranks},
        {"alpha_pattern", alphas}};
    made.config = config.dump(2) + "\n";
    const auto warn = [&](bool holds, const std::string& text) {
        if (holds)
            made.warnings.push_back(text);
    };
    warn(lora.magnitudes, "vLLM does not read DoRA (train.lora.magnitudes); the merged model is read by all");
    warn(!saved.empty(),
         "vLLM does not read modules_to_save (train.lora.train); the merged model is read by all");
    warn(!ranks.empty(),
         str("vLLM ignores rank_pattern and alpha_pattern, which ", architecture.name,
             " needs because one module has several weights; the merged model is read by all"));
    const auto next = std::ranges::lower_bound(server_ranks, most);
    warn(next == server_ranks.end(),
         str("vLLM reads ranks up to ", server_ranks.back(), ", this has ", most));
    warn(next != server_ranks.end() && *next != most,
         str("vLLM has no --max-lora-rank ", most, ": start it with --max-lora-rank ",
             next == server_ranks.end() ? 0 : *next));
    warn(has_experts, "transformers from version 5 has the experts of a layer in one tensor, for which PEFT "
                      "does not read these adapters");
    return made;
}

namespace {

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
    /// alpha_pattern of a module, by the end of its name.
    double alpha_of(const std::string& module, double otherwise) const
    {
        const auto found = json.find("alpha_pattern");
        if (found == json.end() || !found->is_object())
            return otherwise;
        for (const auto& [pattern, value] : found->items()) {
            std::string name = pattern;
            name.erase(0, name.starts_with('^') ? 1 : 0);
            if (name.find_first_of("*+?()[]{}|\\$") != std::string::npos)
                refuse(str("has the alpha_pattern ", shown(pattern)), "only names of modules are read, no "
                                                                      "regular expressions");
            if (value.is_number() && (module == name || module.ends_with("." + name)))
                return value.get<double>();
        }
        return otherwise;
    }
};

PeftConfig read_config(const std::string& folder)
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
    const PeftConfig config = read_config(folder);
    const SafetensorsReader files = SafetensorsReader::open(folder + "/" + adapter_file);
    ImportedAdapter made;
    made.lora.rank_stable = config.flag("use_rslora");
    made.lora.magnitudes = config.flag("use_dora");
    made.lora.dropout = config.number("lora_dropout", 0);
    std::set<std::string> read;
    const auto values = [&](const SafetensorsEntry& entry) {
        std::vector<float> all(place(element_count(entry.shape)));
        files.read(entry, i64{0}, std::span(all));
        read.insert(entry.name);
        return all;
    };
    const auto find = [&](const PeftModule& module, const char* linear, const char* table) {
        return files.find(peft_prefix + module.name + (module.is_table ? table : linear));
    };
    const std::vector<PeftModule> modules = modules_of(model, {}, architecture);
    struct Found {
        const PeftModule* module;
        const SafetensorsEntry *a, *b;
        i64 rank;
    };
    std::vector<Found> all;
    for (const PeftModule& module : modules) {
        const SafetensorsEntry *a = find(module, ".lora_A.weight", ".lora_embedding_A"),
                               *b = find(module, ".lora_B.weight", ".lora_embedding_B");
        if (!a && !b)
            continue;
        if (!a || !b || a->shape.size() != 2 || a->shape[1] != module.in ||
            b->shape != Shape{module.out, a->shape[0]})
            config.refuse(str("has an adapter of ", module.name, " that does not fit this model"),
                          str("the module has ", module.in, " inputs and ", module.out, " outputs"));
        all.push_back({&module, a, b, a->shape[0]});
        made.lora.rank = std::max(made.lora.rank, a->shape[0]);
    }
    if (all.empty())
        config.refuse(str("has no adapter of a module of ", architecture.name),
                      files.tensors().empty()
                          ? "it has no tensors"
                          : str("its tensors are such as ", in_quotes(files.tensors()[0].name)));
    const auto scale_of = [&](double alpha, i64 rank) {
        const auto r = static_cast<double>(rank);
        return alpha / (made.lora.rank_stable ? std::sqrt(r) : r);
    };
    const double alpha = config.number("lora_alpha", 8), configured = config.number("r", 8);
    // That of the largest rank, if it has the usual scale.
    const double scale = scale_of(alpha, static_cast<i64>(configured));
    const auto rank = static_cast<double>(made.lora.rank);
    made.lora.alpha = scale * (made.lora.rank_stable ? std::sqrt(rank) : rank);
    std::set<std::string> adapted;
    for (const Found& found : all) {
        const PeftModule& module = *found.module;
        const std::vector<float> a = values(*found.a), b = values(*found.b);
        const double own = scale_of(config.alpha_of(module.name, alpha), found.rank) / scale;
        std::vector<float> lengths;
        if (made.lora.magnitudes) {
            const SafetensorsEntry* entry = files.find(peft_prefix + module.name + ".lora_magnitude_vector");
            if (!entry)
                entry = files.find(peft_prefix + module.name + ".lora_magnitude_vector.weight");
            if (!entry || element_count(entry->shape) != module.out)
                config.refuse(str("lacks the magnitudes of ", module.name), "use_dora is true");
            lengths = values(*entry);
        }
        for (const PeftPart& part : module.parts) {
            adapted.insert(part.weight.name);
            const std::vector<ModelParameter> names = adapter_of(part.weight, made.lora);
            const i64 r_all = made.lora.rank, expert = std::max<i64>(0, part.expert),
                      experts = part.expert >= 0 ? model.experts : 1;
            std::vector<float>&to_a = made.values[names[0].name], &to_b = made.values[names[1].name];
            to_a.resize(place(experts * part.in * r_all));
            to_b.resize(place(experts * r_all * part.out));
            for (i64 i = 0; i < part.in; ++i)
                for (i64 r = 0; r < found.rank; ++r)
                    to_a[place((expert * part.in + i) * r_all + r)] = a[place(r * part.in + i)];
            each_column(part, [&](i64 ours, i64 theirs) {
                for (i64 r = 0; r < found.rank; ++r)
                    to_b[place((expert * r_all + r) * part.out + ours)] =
                        static_cast<float>(own * static_cast<double>(b[place(theirs * found.rank + r)]));
            });
            if (!made.lora.magnitudes)
                continue;
            const std::vector<double> before = column_lengths(model, part.weight, base);
            std::vector<float>& to_m = made.values[names[2].name];
            to_m.resize(place(part.out));
            each_column(part, [&](i64 ours, i64 theirs) {
                to_m[place(ours)] =
                    static_cast<float>(static_cast<double>(lengths[place(theirs)]) - before[place(ours)]);
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
            config.refuse(str("has a whole tensor ", in_quotes(entry->name)), "it does not fit this model");
        const OurTensor& ours = tensor.ours[0];
        const std::vector<float> theirs = values(*entry);
        std::vector<float>& to = made.values[ours.name];
        to = theirs;
        if (tensor.transposed)
            for (i64 i = 0; i < ours.rows; ++i)
                for (i64 j = 0; j < ours.columns; ++j)
                    to[place(i * ours.columns + j)] = theirs[place(j * ours.rows + i)];
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
