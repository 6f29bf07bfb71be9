#include "io/metrics/layer_norms.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/files/lines.hpp"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

namespace trivium {

std::vector<LayerNorms> read_layer_norms(const std::string& path)
{
    std::vector<LayerNorms> all;
    const std::string file = std::filesystem::is_directory(path) ? path + "/metrics.layers.jsonl" : path;
    if (!std::filesystem::exists(file))
        return all;
    for_each_line(read_file(file, "file of norms", max_log_bytes), [&](const std::string& text, bool) {
        const auto line = text.size() > 4096 ? nlohmann::json() : nlohmann::json::parse(text, nullptr, false);
        if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer() ||
            !line.contains("part") || !line["part"].is_string())
            return;
        LayerNorms norms{line["step"].get<i64>(), line["part"].get<std::string>(), {}};
        if (line.contains("layer") && line["layer"].is_number_integer())
            norms.part = str("layers.", line["layer"].get<i64>(), ".", norms.part);
        for (std::size_t i = 0; i < layer_norm_keys.size(); ++i) {
            const auto found = line.find(layer_norm_keys[i]);
            norms.norms[i] = found != line.end() && found->is_number()
                                 ? found->get<double>()
                                 : std::numeric_limits<double>::quiet_NaN();
        }
        all.push_back(std::move(norms));
    });
    return all;
}

} // namespace trivium
