// How fast a checkpoint is saved, and loaded on another grid, against dd on the same disk. Under a launcher,
// on 2 ranks: data 2 with ZeRO 1 saves, tensor 2 loads, so that every tensor is resharded.
#include "base/clock.hpp"
#include "base/log.hpp"
#include "choose/decide.hpp"
#include "mpi/session.hpp"
#include "train/save/saver.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

using namespace trivium;

namespace {

namespace fs = std::filesystem;

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

RunConfig config_of(i64 layers, i64 data, i64 tensor)
{
    RunConfig config;
    set_family(config.model, Family::gpt2);
    config.model.layers = layers;
    config.model.dim = 768;
    config.model.heads = 12;
    config.model.seq = 64;
    config.model.vocab = 512;
    config.train.global_batch = 2;
    config.parallel.data = data;
    config.parallel.tensor = tensor;
    config.parallel.zero = data > 1 ? 1 : 0;
    resolve_and_validate(config);
    return config;
}

/// One rank's shard of the state on a grid, in memory that has been written.
struct Side {
    Compiled compiled;
    Arenas arenas;
    std::vector<SavedTensor> tensors;

    Side(const RunConfig& config, i64 rank)
        : compiled(compile_training(config, {{}, {}, rank})),
          arenas(compiled.memory.arena, compiled.host.arena), tensors(saved_tensors(compiled, arenas))
    {
        for (SavedTensor& tensor : tensors) {
            auto* values = reinterpret_cast<float*>(tensor.window.data());
            for (i64 i = 0; i < tensor.window.bytes() / 4; ++i)
                values[i] = static_cast<float>((i * 2654435761 + rank) % 1000003);
        }
    }
};

/// Seconds from the arrival of all ranks until all are done.
Seconds timed(Comm& world, const std::function<void()>& work)
{
    agree(world, 0);
    const Seconds begin = now();
    work();
    agree(world, 0);
    return now() - begin;
}

/// Seconds of a shell command, on rank 0 only.
Seconds timed_command(Comm& world, const std::string& command)
{
    return timed(world, [&] {
        if (world.rank() == 0 && std::system((command + " 2>/dev/null").c_str()) != 0)
            throw IoError({command, "failed", "", "is the disk full?"});
    });
}

/// Makes the next read of these files come from the disk.
void forget(Comm& world)
{
    timed(world, [&] {
        if (world.rank() != 0)
            return;
        ::sync();
        if (!(std::ofstream("/proc/sys/vm/drop_caches") << "3\n").flush())
            throw IoError({"/proc/sys/vm/drop_caches", "cannot be written",
                           "cold reads require dropping the system's caches", "run this as root"});
    });
}

int run(Session& session, const std::string& dir, int pairs, i64 layers)
{
    Comm& world = session.world();
    if (session.rank() > 0)
        set_log_level(LogLevel::quiet);
    if (session.ranks() != 2)
        throw UserError({"perf_checkpoint", fmt::format("was started on {} ranks", session.ranks()),
                         "its grids have 2", "use perf/checkpoint"});
    Side from(config_of(layers, 2, 1), session.rank()), to(config_of(layers, 1, 2), session.rank());
    Saver saver(world, {dir, 2, false, false}, from.tensors);
    RunState state;
    Bytes bytes = 0;
    std::vector<double> save, write, load, read;
    const auto save_one = [&] {
        state.step += 1;
        const Seconds seconds = timed(world, [&] { saver.start(state); });
        saver.finish();
        return seconds;
    };
    const auto dd_write = [&] {
        const std::string file = dir + "/dd.bin";
        const Seconds seconds = timed_command(
            world, fmt::format("dd if=/dev/zero of={} bs=1M count={} conv=fsync", file, bytes >> 20));
        timed_command(world, "rm " + file);
        return seconds;
    };
    // Once each as warm-up: from here on both write to pages that have been used before.
    for (int i = 0; i < 3; ++i)
        save_one();
    const std::string newest = dir + "/" + checkpoint_name(state.step);
    for (const auto& entry : fs::directory_iterator(newest))
        bytes += static_cast<Bytes>(entry.file_size());
    dd_write();
    for (int pair = 0; pair < pairs; ++pair) {
        ::sync();
        save.push_back(save_one());
        ::sync();
        write.push_back(dd_write());
    }
    const std::string path = dir + "/" + checkpoint_name(state.step);
    const Program& train = to.compiled.programs[train_program];
    for (int pair = -1; pair < pairs; ++pair) {
        forget(world);
        const Seconds seconds = timed(world, [&] {
            const CheckpointReader reader = CheckpointReader::open(path);
            reader.check(session.rank(), session.ranks());
            restore(reader, train, to.tensors);
        });
        forget(world);
        const Seconds dd = timed_command(
            world, fmt::format("for file in {}/*; do dd if=$file of=/dev/null bs=1M || exit 1; done", path));
        if (pair >= 0) {
            load.push_back(seconds);
            read.push_back(dd);
        }
    }
    if (session.rank() > 0)
        return 0;
    const auto rates = [&](const char* what, const std::vector<double>& ours, const char* theirs_name,
                           const std::vector<double>& theirs, double target) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < ours.size(); ++i)
            ratios.push_back(theirs[i] / ours[i]);
        const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds / 1e9; };
        fmt::print(
            "{:<10} {:.3f} s ({:.2f} GB/s), {} {:.3f} s ({:.2f} GB/s): {:.2f} of its throughput, {:.2f} to "
            "{:.2f} (target {})\n",
            what, median(ours), rate(median(ours)), theirs_name, median(theirs), rate(median(theirs)),
            median(ratios), *std::min_element(ratios.begin(), ratios.end()),
            *std::max_element(ratios.begin(), ratios.end()), target);
    };
    fmt::print("state      {} bytes on 2 ranks, medians of {} pairs\n", bytes, pairs);
    rates("save", save, "dd conv=fsync", write, 0.8);
    rates("cold load", load, "dd", read, 0.7);
    return 0;
}

} // namespace

int main(int argc, char** argv)
{
    CLI::App app("saving and loading against dd");
    std::string dir;
    int pairs = 7;
    i64 layers = 13;
    app.add_option("dir", dir, "a folder on the disk to measure")->required();
    app.add_option("--pairs", pairs);
    app.add_option("--layers", layers, "13: 1 GiB of state");
    CLI11_PARSE(app, argc, argv);
    return run_session([&](Session& session) { return run(session, dir, pairs, layers); });
}
