#include "io/hugging_face/config_parts.hpp"

#include <algorithm>

namespace trivium {

using Json = nlohmann::json;

namespace {

constexpr const char *full_type = "full_attention", *sliding_type = "sliding_attention";

/// The shortest list that yields `values` when it is repeated.
template <class T>
std::vector<T> period_of(const std::vector<T>& values)
{
    for (std::size_t length = 1; length < values.size(); ++length) {
        std::size_t i = length;
        while (i < values.size() && values[i] == values[i - length])
            ++i;
        if (i == values.size())
            return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(length)};
    }
    return values;
}

/// 1 for each layer that rotates.
std::vector<i64> read_rotations(const ConfigKeys& keys, i64 layers)
{
    std::vector<i64> rotations;
    if (keys.find("no_rope_layers")) {
        for (const double rotates : keys.numbers("no_rope_layers"))
            rotations.push_back(rotates != 0 ? 1 : 0);
        if (static_cast<i64>(rotations.size()) != layers)
            keys.refuse(str("has ", rotations.size(), " entries in no_rope_layers, and ", layers, " layers"));
        return rotations;
    }
    const i64 interval = keys.whole("no_rope_layer_interval");
    if (interval == 0)
        keys.refuse("has no_rope_layer_interval = 0");
    for (i64 i = 0; i < layers; ++i)
        rotations.push_back((i + 1) % interval != 0 ? 1 : 0);
    return rotations;
}

std::vector<bool> read_layer_types(const ConfigKeys& keys, const Json& types, i64 layers)
{
    std::vector<bool> slides;
    if (!types.is_array() || static_cast<i64>(types.size()) != layers)
        keys.refuse("has a wrong layer_types",
                    str("it must be a list with an entry for each of ", layers, " layers"));
    for (const Json& type : types) {
        if (type != full_type && type != sliding_type)
            keys.unsupported("its layer_types have " + shown(type),
                             str("supported: \"", full_type, "\", \"", sliding_type, "\""));
        slides.push_back(type == sliding_type);
    }
    return slides;
}

/// By the rules of the classes where layer_types is missing.
bool slides_by_rule(const ConfigKeys& keys, const ClassKeys& of, i64 layer, const std::vector<i64>& rotations)
{
    if (of.has("sliding_window_pattern")) {
        const i64 pattern = keys.whole("sliding_window_pattern");
        if (pattern == 0)
            keys.refuse("has sliding_window_pattern = 0");
        return (layer + 1) % pattern != 0;
    }
    if (of.has("max_window_layers"))
        return layer >= keys.whole("max_window_layers");
    return of.has("no_rope_layers") ? rotations[static_cast<std::size_t>(layer)] == 0 : true;
}

} // namespace

void read_layers(const ConfigKeys& keys, const ClassKeys& of, ModelConfig& model)
{
    const i64 layers = std::min(model.layers, most_layers);
    std::vector<i64> rotations;
    if (of.has("no_rope_layers")) {
        rotations = read_rotations(keys, layers);
        model.rotary_pattern = period_of(rotations);
        if (model.rotary_pattern == std::vector<i64>{1})
            model.rotary_pattern.clear();
    }
    if (!of.has("sliding_window"))
        return;
    const bool used = !of.has("use_sliding_window") || keys.flag("use_sliding_window");
    const i64 window = keys.find("sliding_window") ? keys.whole("sliding_window") : 0;
    if (window == 0 && keys.find("sliding_window"))
        keys.refuse("has sliding_window = 0");
    std::vector<LayerKind> kinds;
    if (const Json* types = of.has("layer_types") ? keys.find("layer_types") : nullptr) {
        for (const bool slides : read_layer_types(keys, *types, layers))
            kinds.push_back(slides ? LayerKind::sliding : LayerKind::full);
    } else {
        for (i64 layer = 0; layer < layers; ++layer)
            kinds.push_back(used && (window > 0 || of.has("sliding_window_pattern")) &&
                                    slides_by_rule(keys, of, layer, rotations)
                                ? LayerKind::sliding
                                : LayerKind::full);
    }
    if (std::find(kinds.begin(), kinds.end(), LayerKind::sliding) == kinds.end())
        return;
    if (window == 0 || !used)
        keys.refuse("has sliding layers, but no sliding_window");
    model.window = window;
    model.layer_pattern = period_of(kinds);
    if (model.layer_pattern == std::vector{LayerKind::sliding})
        model.layer_pattern.clear();
}

void write_layers(const ModelConfig& m, const ClassKeys& of, nlohmann::ordered_json& to)
{
    if (of.has("no_rope_layers"))
        for (i64 layer = 0; layer < m.layers; ++layer)
            to["no_rope_layers"].push_back(rotates(m, layer) ? 1 : 0);
    if (!of.has("sliding_window"))
        return;
    std::vector<bool> slides;
    for (i64 layer = 0; layer < m.layers; ++layer)
        slides.push_back(kind_of_layer(m, layer) == LayerKind::sliding);
    const bool any = std::find(slides.begin(), slides.end(), true) != slides.end();
    to["sliding_window"] = any ? Json(m.window) : Json();
    if (of.has("use_sliding_window"))
        to["use_sliding_window"] = any;
    const auto follow = [&](const auto& rule) {
        for (i64 layer = 0; layer < m.layers; ++layer)
            if (slides[static_cast<std::size_t>(layer)] != rule(layer))
                return false;
        return true;
    };
    // Rules for versions of transformers without layer_types.
    if (of.has("max_window_layers"))
        for (i64 from = m.layers; from >= 0; --from)
            if (follow([&](i64 layer) { return layer >= from; }))
                to["max_window_layers"] = from;
    if (of.has("sliding_window_pattern"))
        for (i64 pattern = m.layers + 1; pattern > 0; --pattern)
            if (follow([&](i64 layer) { return (layer + 1) % pattern != 0; }))
                to["sliding_window_pattern"] = pattern;
    if (of.has("layer_types"))
        for (const bool layer_slides : slides)
            to["layer_types"].push_back(layer_slides ? sliding_type : full_type);
}

} // namespace trivium
