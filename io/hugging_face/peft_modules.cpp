#include "io/hugging_face/peft_modules.hpp"

namespace trivium {

namespace {

i64 extent_of_all(const ModelConfig& model, const std::string& dims)
{
    i64 product = 1;
    for (const char dim : dims)
        product *= extent_of(model, dim);
    return product;
}

std::string without_weight(const std::string& name) { return name.substr(0, name.rfind(".weight")); }

} // namespace

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

} // namespace trivium
