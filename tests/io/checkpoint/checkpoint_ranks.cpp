// Under a launcher: `save FOLDER` saves two checkpoints and damages the newer one; `read FOLDER` restores the
// good one on all ranks, with several shardings. Exit status 0 if all checks pass.
#include "base/check.hpp"
#include "io/find_resume.hpp"
#include "io/limited_files.hpp"
#include "io/temporary_folder.hpp"
#include "io/tiled_model.hpp"
#include "mpi/session.hpp"

#include <optional>

using namespace trivium;

namespace {

/// Shardings for this number of ranks.
std::vector<Tiling> shardings(i64 ranks)
{
    std::vector<Tiling> all{{"rows", {{{"a", ranks}}}, {"a"}, {}},
                            {"columns", {{{"a", ranks}}}, {}, {"a"}},
                            {"replicas", {{{"a", ranks}}}, {}, {}}};
    if (ranks % 2 == 0) {
        all.push_back({"both", {{{"a", ranks / 2}, {"b", 2}}}, {"a"}, {"b"}});
        all.push_back({"replicas of rows", {{{"replica", ranks / 2}, {"b", 2}}}, {"b"}, {}});
    }
    return all;
}

void save(Comm& world, const std::string& folder)
{
    for (const i64 step : {1, 2}) {
        const Tiling tiling = shardings(world.size()).back();
        RankTensors own(tiling, world.rank());
        own.fill();
        RunState state;
        state.step = step;
        state.ranks = world.size();
        save_checkpoint(world, folder, state, own.pieces, 2);
    }
    // The last rank has half a tensor, or a full disk: all ranks throw, and there is no checkpoint.
    const bool last = world.rank() == world.size() - 1;
    RankTensors half, large;
    if (last) {
        half.add({"param/half", {4}, DType::f32}, {{0}, {2}}, DType::f32, true);
        large.add({"param/large", {1 << 18}, DType::f32}, {{0}, {1 << 18}}, DType::f32, true);
    }
    const auto refused = [&]<class Kind>(const RankTensors& own, const Kind*) {
        try {
            save_checkpoint(world, folder, {3}, own.pieces, 1);
        } catch (const Kind&) {
            return true;
        }
        return false;
    };
    TRV_CHECK(refused(half, static_cast<InternalError*>(nullptr)), "half a tensor was saved");
    std::optional<LimitedFiles> full;
    if (last)
        full.emplace(16); // HDF5 cannot even close the file, and must still end without a crash
    TRV_CHECK(refused(large, static_cast<IoError*>(nullptr)), "a megabyte was saved in 16 bytes");
    if (world.rank() == 0)
        put(folder + "/step-00000002/shard-00001.h5", "damaged");
}

void read(Comm& world, const std::string& folder)
{
    CheckpointConfig config;
    config.dir = folder;
    const std::optional<std::string> path = find_resume(world, config);
    TRV_CHECK(path == folder + "/step-00000001", "resumes from ", path.value_or("nothing"));
    for (const Tiling& tiling : shardings(world.size())) {
        RankTensors own(tiling, world.rank());
        const CheckpointReader reader = CheckpointReader::open(*path);
        for (const TensorPiece& piece : own.pieces)
            reader.read(piece);
        TRV_CHECK(own.wrong().empty(), tiling.name, ": ", own.wrong());
    }
}

} // namespace

int main(int argc, char** argv)
{
    return run_session([&](Session& session) {
        TRV_CHECK(argc == 3, "save FOLDER or read FOLDER");
        const std::string work = argv[1], folder = argv[2];
        if (work == "save") {
            succeed_together(session.world(), [&] {
                if (session.rank() == 0)
                    std::filesystem::remove_all(folder);
            });
            save(session.world(), folder);
        } else {
            read(session.world(), folder);
        }
        return 0;
    });
}
