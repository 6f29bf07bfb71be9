// logits_program CONFIG CHECKPOINT OUTPUT ID…: the model's logits after each of the token ids, as f32 [ids,
// vocab].
#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "io/files/files.hpp"
#include "runtime/device.hpp"
#include "train/data/inputs.hpp"
#include "train/generator.hpp"
#include "train/save/saved_tensors.hpp"

#include <cstdio>
#include <cstdlib>

using namespace trivium;

namespace {

void write_logits(const std::string& config_file, const std::string& path, const std::string& output,
                  const std::vector<std::int32_t>& ids)
{
    const RunConfig config = load_config({config_file, {}, false});
    const CheckpointReader checkpoint = open_checkpoint(path, config);
    require_same_model(checkpoint, config);
    const Computing computing(1);
    GenerationShape shape;
    shape.prefill = 16;
    shape.capacity = round_up(static_cast<i64>(ids.size()), shape.prefill);
    Engine engine(compile_generation(config, shape, {machine_called("cpu"), {}, 0}));
    for (const Role role : {Role::constant, Role::state})
        engine.initialise(0, role);
    restore_parameters(checkpoint, engine.program(prefill_program), engine.arenas());
    Generator generator(engine);
    FileWriter file(output);
    for (const std::int32_t& id : ids) {
        const std::span<const double> logits = generator.append({&id, 1});
        const std::vector<float> singles(logits.begin(), logits.end());
        file.write(singles.data(), static_cast<Bytes>(singles.size() * sizeof(float)));
    }
    file.close();
}

} // namespace

int main(int argc, char* argv[])
{
    try {
        std::vector<std::int32_t> ids;
        for (int i = 4; i < argc; ++i)
            ids.push_back(std::atoi(argv[i]));
        if (ids.empty())
            return 2;
        write_logits(argv[1], argv[2], argv[3], ids);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
