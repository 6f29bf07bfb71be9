// Experts of gpt-oss as published: 4-bit numbers with a common exponent.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/hugging_face/small_models.hpp"
#include "io/temporary_folder.hpp"

using namespace trivium;

namespace {

std::uint8_t byte_of(const std::string& name, i64 index)
{
    return static_cast<std::uint8_t>(
        (std::hash<std::string>()(name) % 977 + static_cast<std::size_t>(index) * 37) % 251);
}

/// A number of E2M1, by its bits.
double number_of(int bits)
{
    const int exponent = bits >> 1 & 3, mantissa = bits & 1;
    const double size = exponent == 0 ? mantissa * 0.5 : std::ldexp(1 + mantissa * 0.5, exponent - 1);
    return (bits & 8) != 0 ? -size : size;
}

ModelConfig model_of_blocks()
{
    ModelConfig m = small_model(Family::gpt_oss);
    m.heads = 8;
    m.dim = 64; // two blocks
    m.expert_dim = 32;
    resolve(m);
    return m;
}

bool is_packed(const std::string& name) { return name.ends_with("_proj"); }

/// A folder with the experts in blocks, whose bytes are a formula of name and index.
void write_blocks(const ModelConfig& model, const std::string& folder,
                  const std::function<void(SafetensorsEntry&)>& change = {})
{
    std::vector<SafetensorsEntry> entries;
    for (const HuggingFaceTensor& tensor : tensors_of(model)) {
        if (!is_packed(tensor.name)) {
            entries.push_back({tensor.name, "F32", tensor.shape});
            continue;
        }
        const Shape groups{tensor.shape[0], tensor.shape[2], tensor.shape[1] / 32};
        entries.push_back({tensor.name + "_blocks", "U8", {groups[0], groups[1], groups[2], 16}});
        entries.push_back({tensor.name + "_scales", "U8", groups});
    }
    for (SafetensorsEntry& entry : entries)
        if (change)
            change(entry);
    std::string content = print_safetensors_header(entries, {});
    for (const SafetensorsEntry& entry : entries)
        for (i64 i = 0; i < entry.bytes; ++i) {
            const bool scale = entry.name.ends_with("_scales");
            content.push_back(static_cast<char>(entry.type == "F32" ? 0
                                                : scale             ? 120 + byte_of(entry.name, i) % 12
                                                                    : byte_of(entry.name, i)));
        }
    put(folder + "/model.safetensors", content);
    put(folder + "/config.json", print_config(model));
}

} // namespace

TEST_CASE("experts in MXFP4 have the values that the format defines")
{
    const TemporaryFolder folder;
    const ModelConfig m = model_of_blocks();
    write_blocks(m, folder.path());
    const HuggingFaceModel theirs = open_hugging_face(folder.path());
    const std::map<std::string, std::string> stored{{"layers.1.ffn.experts.gate.weight", "gate_up_proj"},
                                                    {"layers.1.ffn.experts.up.weight", "gate_up_proj"},
                                                    {"layers.1.ffn.experts.down.weight", "down_proj"}};
    std::size_t found = 0;
    for (const ImportedParameter& parameter : imported_parameters(theirs)) {
        const auto at = stored.find(parameter.name);
        if (at == stored.end())
            continue;
        ++found;
        const std::string tensor = "model.layers.1.mlp.experts." + at->second;
        const i64 in = parameter.shape[1], out = parameter.shape[2],
                  every = at->second == "down_proj" ? 1 : 2,
                  part = parameter.name.find(".up.") != std::string::npos ? 1 : 0;
        std::vector<float> values(static_cast<std::size_t>(m.experts * in * out));
        for (i64 first = 0; first < static_cast<i64>(values.size()); first += 1000)
            parameter.read(first,
                           std::span(values).subspan(
                               static_cast<std::size_t>(first),
                               std::min<std::size_t>(1000, values.size() - static_cast<std::size_t>(first))));
        i64 wrong = 0;
        for (i64 e = 0; e < m.experts; ++e)
            for (i64 i = 0; i < in; ++i)
                for (i64 o = 0; o < out; ++o) {
                    const i64 group = (e * out * every + o * every + part) * (in / 32) + i / 32;
                    const int pair = byte_of(tensor + "_blocks", group * 16 + i % 32 / 2),
                              scale = 120 + byte_of(tensor + "_scales", group) % 12;
                    const double expected =
                        std::ldexp(number_of(i % 2 == 0 ? pair % 16 : pair / 16), scale - 127);
                    wrong += values[static_cast<std::size_t>((e * in + i) * out + o)] != expected ? 1 : 0;
                }
        INFO(parameter.name);
        CHECK(wrong == 0);
    }
    CHECK(found == stored.size());
}

TEST_CASE("blocks that do not fit config.json are refused, by their name")
{
    for (const bool of_type : {true, false}) {
        const TemporaryFolder folder;
        write_blocks(model_of_blocks(), folder.path(), [&](SafetensorsEntry& entry) {
            if (entry.name != "model.layers.0.mlp.experts.down_proj_scales")
                return;
            if (of_type)
                entry.type = "I8";
            else
                entry.shape.back() += 1;
        });
        CHECK(says(message_of<UserError>([&] { (void)open_hugging_face(folder.path()); }), "down_proj_scales",
                   of_type ? "I8" : "[6, 64, 2]", "U8"));
    }
}
