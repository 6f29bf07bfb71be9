// Checkpoints of mixtures of experts between numbers of ranks that share the experts, or sequences, and
// between orders of the mesh.
#include "catch.hpp"
#include "io/temporary_folder.hpp"
#include "train/tiny_run.hpp"

#include <cmath>

using namespace trivium;
using namespace trivium::tiny;

namespace {

struct Shared {
    Layout layout;
    i64 expert, context = 1;
};

RunConfig config_of(const Ground& ground, const Shared& shared, const std::string& name)
{
    RunConfig c = ground.config(model_of(0), Precision::f32, shared.layout, name);
    c.model.layers = 3;
    c.model.seq = 8;
    c.model.experts = 8;
    c.model.expert_dim = 13;
    c.parallel.expert = shared.expert;
    c.parallel.context = shared.context;
    return c;
}

} // namespace

TEST_CASE("checkpoints move between numbers of expert and context ranks, and orders, bit for bit")
{
    const TemporaryFolder folder;
    const Ground ground(folder.path());
    const Shared all[] = {{{4, 1, 1, 2, "1f1b", true, 3}, 4},
                          {{1, 1, 1, 0, "1f1b", true, 12}, 1},
                          {{4, 1, 1, 3, "1f1b", true, 3}, 2},
                          {{2, 2, 2, 2, "1f1b", true, 3, 0, {"pipeline", "tensor", "data"}}, 2},
                          {{1, 1, 2, 2, "1f1b", true, 6}, 2, 2},
                          {{1, 1, 1, 3, "1f1b", true, 6}, 4, 4}};
    constexpr std::size_t count = std::size(all);
    for (std::size_t from = 0; from < count; ++from) {
        if (contracts_on && from % 3 != 0) // sanitizers take their time
            continue;
        const std::size_t to = (from + 1) % count;
        RunConfig source = config_of(ground, all[from], "from-" + std::to_string(from));
        source.checkpoint.every = 3;
        const std::vector<double> later = train(source, 4);
        const std::string path = source.checkpoint.dir + "/" + checkpoint_name(3);
        RunConfig config = config_of(ground, all[to], "to-" + std::to_string(from));
        config.checkpoint.resume = path;
        RunConfig still = standing_still(config);
        train(still);
        CHECK(difference(content(still.checkpoint.dir + "/" + checkpoint_name(4)), content(path)) == "");
        config.checkpoint.dir += "-more";
        config.log.dir += "-more";
        const std::vector<double> losses = train(config, 4);
        REQUIRE(losses.size() == later.size());
        for (std::size_t i = 0; i < losses.size(); ++i)
            CHECK(std::abs(losses[i] - later[i]) <= 1e-5 * later[i]);
    }
}
