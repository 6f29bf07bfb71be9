#include "lifecycle/run_folders.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "config/about_key.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/files.hpp"
#include "io/metrics/metrics.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <random>

namespace trivium {

namespace {

namespace fs = std::filesystem;

/// Content of a `.run`: a run's id, and the folder of its checkpoints.
struct RunMark {
    std::string id, checkpoints;
};

std::string mark_file(const std::string& folder) { return folder + "/.run"; }

std::optional<RunMark> read_mark(const std::string& folder)
{
    if (!fs::exists(mark_file(folder)))
        return std::nullopt;
    const std::string text = read_file(mark_file(folder), "mark of a run");
    const std::size_t space = text.find(' ');
    const std::string id = text.substr(0, space);
    if (id.empty() || id.find_first_not_of("0123456789abcdef") != std::string::npos ||
        space == std::string::npos)
        return std::nullopt;
    return RunMark{id, text.substr(space + 1, text.find('\n') - space - 1)};
}

void write_mark(const std::string& folder, const RunMark& mark)
{
    write_file(mark_file(folder), str(mark.id, " ", mark.checkpoints, "\n"));
}

bool are_same(const std::string& a, const std::string& b)
{
    std::error_code absent;
    return fs::equivalent(a, b, absent);
}

/// The id of the run whose checkpoints are in `folder`. A copy of a folder belongs to another run.
RunMark mark_of(const std::string& folder)
{
    const std::string path = fs::canonical(folder).string();
    std::optional<RunMark> mark = read_mark(folder);
    if (mark && mark->checkpoints == path)
        return *mark;
    if (mark && !are_same(mark->checkpoints, path)) {
        std::error_code absent;
        const std::optional<RunMark> there =
            fs::is_directory(mark->checkpoints, absent) ? read_mark(mark->checkpoints) : std::nullopt;
        if (there && there->id == mark->id)
            mark.reset();
    }
    if (!mark)
        mark = RunMark{fmt::format("{:08x}", std::random_device()()), ""};
    mark->checkpoints = path;
    write_mark(folder, *mark);
    return *mark;
}

const char* const kinds[] = {".jsonl", ".superseded.jsonl", ".samples.jsonl", ".layers.jsonl"};

std::string kept_as(const std::string& logs, const std::string& id) { return str(logs, "/metrics.run-", id); }

void move_metrics(const std::string& from, const std::string& to)
{
    for (const char* kind : kinds)
        if (fs::exists(from + kind)) {
            std::error_code error;
            fs::rename(from + kind, to + kind, error);
            if (error)
                throw IoError({from + kind, "cannot be renamed to " + to + kind, error.message(),
                               "check the folder's permissions and its disk"});
        }
}

} // namespace

RunFolders::RunFolders(const std::string& checkpoints, const std::string& logs, const LockPatience& patience)
{
    about_key("checkpoint.dir", [&] { probe_folder(checkpoints); });
    about_key("log.dir", [&] { probe_folder(logs); });
    checkpoints_.emplace(checkpoints, patience);
    if (!are_same(checkpoints, logs))
        logs_.emplace(logs, patience, "metrics");
}

void claim_metrics(const std::string& checkpoints, const std::string& logs, const std::string& resumed,
                   i64 step)
{
    const std::string file = logs + "/metrics";
    const bool is_new = !read_mark(checkpoints);
    const bool shared = are_same(checkpoints, logs); // then both have one mark
    const std::optional<RunMark> before = shared ? std::nullopt : read_mark(logs);
    const RunMark own = mark_of(checkpoints);
    const bool has_lines = fs::exists(file + ".jsonl") && fs::file_size(file + ".jsonl") > 0;
    // Lines without a mark belong to this run if it resumes from one of its checkpoints.
    const bool foreign = !shared && has_lines && (before ? before->id != own.id : is_new && resumed.empty());
    if (foreign) {
        std::string aside = kept_as(logs, before ? before->id : "unknown");
        for (int copy = 2; fs::exists(aside + ".jsonl"); ++copy)
            aside = str(kept_as(logs, before ? before->id : "unknown"), ".", copy);
        const std::optional<RunMark> origin = resumed.empty() ? std::nullopt : read_mark(str(resumed, "/.."));
        const bool forked = before && origin && origin->id == before->id;
        move_metrics(file, aside);
        log_warning(str(
            logs, " has the metrics of another run",
            before && !before->checkpoints.empty() ? str(" (checkpoints in ", before->checkpoints, ")") : "",
            ": kept as ", aside, ".jsonl; set a different log.dir for each run"));
        if (forked)
            copy_metrics(aside + ".jsonl", file + ".jsonl", step);
    }
    if (!shared && !fs::exists(file + ".jsonl"))
        move_metrics(kept_as(logs, own.id), file);
    if (!shared)
        write_mark(logs, own);
}

} // namespace trivium
