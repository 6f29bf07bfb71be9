#include "io/hugging_face/adapters.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/merged.hpp"
#include "io/hugging_face/peft_modules.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace trivium {

namespace {

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

constexpr std::array<i64, 6> server_ranks{32, 64, 128, 256, 320, 512}; // vLLM's max_lora_rank above its
constexpr i64 usual_server_rank = 16;                                  // default

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
                         const std::vector<double> lengths =
                             column_lengths(model, part.weight, from, part.expert);
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
            throw UserError({"--adapter",
                             str(parameter.name, " has an adapter that is not written in PEFT's form"),
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
    warn(next != server_ranks.end() && most > usual_server_rank,
         str("vLLM reads ranks up to ", usual_server_rank, " by default, this has ", most,
             ": start vLLM with --max-lora-rank ", next == server_ranks.end() ? 0 : *next));
    warn(has_experts, "transformers from version 5 has the experts of a layer in one tensor, for which PEFT "
                      "does not read these adapters, and has neither dropout nor DoRA");
    return made;
}

} // namespace trivium
