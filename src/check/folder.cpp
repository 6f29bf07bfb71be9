// The folder for checkpoints: shared by all ranks, writable, and how fast.
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/counted.hpp"
#include "base/median.hpp"
#include "check/parts.hpp"
#include "io/files/files.hpp"
#include "io/files/plain_file.hpp"
#include "mpi/records.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <thread>
#include <tuple>

namespace trivium {

namespace {

namespace fs = std::filesystem;

/// The test folder; rank 0 removes it with the object.
class Trial {
public:
    Trial(Comm& world, const std::string& dir) : owns_(world.rank() == 0)
    {
        const std::string name = share_record(
            world, str("/.trivium-check-", std::hex, std::random_device{}(), std::random_device{}()));
        path_ = dir + name;
        try {
            if (owns_)
                make_folders(path_);
        } catch (const Error& error) {
            problem_ = error.what();
        }
    }
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;
    ~Trial()
    {
        if (std::error_code ignored; owns_)
            fs::remove_all(path_, ignored);
    }
    std::string file(int rank) const { return str(path_, "/rank-", rank); }
    const std::string& path() const { return path_; }
    /// On rank 0: why it could not be made.
    const std::string& problem() const { return problem_; }

private:
    bool owns_;
    std::string path_, problem_;
};

/// Whether a path appears; network file systems show the files of other nodes with a delay.
bool appears(const std::string& path)
{
    for (int tries = 0; tries < 20; ++tries) {
        if (std::error_code unknown; fs::exists(path, unknown))
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
}

std::string content_of(int rank) { return str("rank ", rank, " of a check\n"); }

/// "" on success; otherwise the error on one line.
std::string try_to(const std::function<std::string()>& work)
{
    try {
        return work();
    } catch (const Error& error) {
        std::string text = error.what();
        std::ranges::replace(text, '\n', ';');
        return text;
    }
}

/// Adds a finding for each group of ranks with the same problem.
void report_ranks(const CheckGround& ground, CheckReport& report, const std::string& own,
                  const std::string& problem, const std::string& expected, const std::string& remedy)
{
    const std::vector<std::string> all = gather_to_first(ground.world, own);
    if (!ground.first())
        return;
    for (const auto& [said, ranks] : group_ranks(all))
        if (!said.empty())
            report.findings.push_back(
                {CheckPart::folder, Severity::fault, ranks, problem, expected, said, remedy});
}

bool all_well(Comm& world, const std::string& own) { return agree(world, own.empty() ? 0 : 1) == 0; }

Bytes trial_bytes(int nodes, bool longer)
{
    const Bytes total = Bytes{longer ? 16 : 2} << 30, most = Bytes{longer ? 1024 : 64} << 20;
    return std::clamp(total / nodes, Bytes{8} << 20, most);
}

/// Nodes whose throughput is far below the median. Only a warning, because others use the file system too.
void judge(CheckReport& report, double slow)
{
    struct Rate {
        const char* what;
        double FolderRate::*member;
    };
    for (const Rate& rate :
         {Rate{"slow writing", &FolderRate::write}, Rate{"slow reading", &FolderRate::read}}) {
        std::vector<double> all;
        for (const FolderRate& each : report.folder)
            all.push_back(each.*rate.member);
        for (std::size_t node = 0; node < all.size(); ++node)
            if (all[node] < slow * median(all))
                report.findings.push_back(
                    {CheckPart::folder, Severity::warning, report.ranks_on(static_cast<int>(node)),
                     str(rate.what, " in the folder"),
                     fmt::format("{:.3f} GB/s (median node)", median(all) / 1e9),
                     fmt::format("{:.3f} GB/s", all[node] / 1e9),
                     "check the node's mounts and its storage network; run the check again, "
                     "because others may have used the file system"});
    }
}

/// The first rank of each node writes a file; when all are done, it reads that of the next node.
void measure(const CheckGround& ground, const Trial& trial, CheckReport& report)
{
    Comm& world = ground.world;
    const std::vector<int>& node_of_rank = ground.grid.node_of_rank();
    const int node = node_of_rank[static_cast<std::size_t>(world.rank())], nodes = ground.grid.nodes();
    const bool works = ground.grid.local_rank() == 0;
    const auto first_of = [&](int which) {
        return static_cast<int>(std::ranges::find(node_of_rank, which) - node_of_rank.begin());
    };
    const Bytes bytes = trial_bytes(nodes, ground.config.longer), at_once = Bytes{1} << 20;
    std::vector<char> block(static_cast<std::size_t>(at_once));
    for (std::size_t i = 0; i < block.size(); ++i)
        block[i] = static_cast<char>(i * 2654435761u >> 13); // data that a file system cannot compress away
    FolderRate rate;
    std::string problem = try_to([&] {
        if (!works)
            return "";
        const Seconds begin = now();
        FileWriter out(trial.file(world.rank()));
        for (Bytes at = 0; at < bytes; at += at_once)
            out.write(block.data(), at_once);
        out.close();
        sync_path(trial.file(world.rank()));
        ground.timed("write");
        rate.write = static_cast<double>(bytes) / (now() - begin);
        return "";
    });
    if (all_well(world, problem))
        problem = try_to([&]() -> std::string {
            if (!works)
                return "";
            std::vector<char> got(block.size());
            const Seconds begin = now();
            const PlainFile in = PlainFile::open(trial.file(first_of((node + 1) % nodes)), "file of a check");
            for (Bytes at = 0; at < bytes; at += at_once) {
                in.read(at, got.data(), at_once);
                if (got != block)
                    return str(in.path(), ": bytes differ from those written, below offset ", at + at_once);
            }
            ground.timed("read");
            rate.read = static_cast<double>(bytes) / (now() - begin);
            return "";
        });
    report_ranks(ground, report, problem, "a file cannot be written and read",
                 str(format_bytes(bytes), " written, synced and read"),
                 "check the file system: space, quota, mounts");
    const auto all = gather_records_to_first(world, std::tuple(works, rate.write, rate.read));
    if (!ground.first())
        return;
    double write = 0, read = 0;
    for (const auto& [measured, its_write, its_read] : all)
        if (measured) {
            report.folder.push_back({its_write, its_read});
            write += its_write;
            read += its_read;
        }
    judge(report, ground.config.slow_link);
    report.parts.push_back(
        fmt::format("folder       {}: shared by all ranks; {} {} {:.2f} GB/s together and {} {:.2f} GB/s{}",
                    ground.config.dir, counted(report.folder.size(), "node"),
                    report.folder.size() == 1 ? "writes" : "write", write / 1e9,
                    report.folder.size() == 1 ? "reads" : "read", read / 1e9,
                    nodes == 1 ? " (from memory, because there is one node)" : ""));
}

} // namespace

void check_folder(const CheckGround& ground, CheckReport& report)
{
    if (ground.config.dir.empty())
        return;
    Comm& world = ground.world;
    const int rank = world.rank();
    const Trial trial(world, ground.config.dir);
    const std::string remedy =
        "name a folder that all nodes share and that you may write to (checkpoint.dir of the run)";
    report_ranks(ground, report, trial.problem(), str("no folder can be made in ", ground.config.dir),
                 "a folder that can be written to", remedy);
    if (!all_well(world, trial.problem()))
        return;
    std::string own = appears(trial.path()) ? "" : trial.path() + " does not exist";
    report_ranks(ground, report, own, str(ground.config.dir, " is not the folder that rank 0 sees"),
                 "one folder for all ranks", remedy);
    if (!all_well(world, own))
        return;
    own = try_to([&] {
        write_file(trial.file(rank), content_of(rank));
        return "";
    });
    report_ranks(ground, report, own, str(ground.config.dir, " is not writable"),
                 "a folder that all ranks can write to", remedy);
    if (!all_well(world, own))
        return;
    own = try_to([&]() -> std::string {
        const int other =
            (rank + ground.grid.local_ranks()) % world.size(); // on another node, if there are several
        if (!appears(trial.file(other)))
            return str("the file of rank ", other, " does not exist");
        return read_file(trial.file(other)) == content_of(other)
                   ? ""
                   : str("the file of rank ", other, " has different content");
    });
    report_ranks(ground, report, own, str(ground.config.dir, " does not show what another rank has written"),
                 "the complete file of the other rank", remedy);
    if (all_well(world, own))
        measure(ground, trial, report);
}

} // namespace trivium
