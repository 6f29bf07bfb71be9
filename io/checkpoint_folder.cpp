// The folder of a run's checkpoints: its list, what goes, which one a run goes on from.
#include "base/check.hpp"
#include "base/log.hpp"
#include "io/checkpoint_parts.hpp"
#include "io/files.hpp"
#include "io/manifest.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "step-";

bool is_checkpoint_name(const std::string& name)
{
    return name.starts_with(prefix) && name.size() > prefix.size() &&
           name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

/// The step, from the digits of a checkpoint's name; the largest number where they are too many.
i64 step_of(const std::string& name)
{
    i64 step = 0;
    for (const char digit : name.substr(prefix.size()))
        if (__builtin_mul_overflow(step, i64{10}, &step) || __builtin_add_overflow(step, i64{digit - '0'}, &step))
            return std::numeric_limits<i64>::max();
    return step;
}

/// Rank 0's texts, on all ranks.
std::vector<std::string> share(Comm& world, const std::vector<std::string>& texts)
{
    std::string lengths_and_texts; // "LENGTH:TEXT…"
    for (const std::string& text : texts)
        lengths_and_texts += str(text.size(), ":", text);
    const std::string all = gather_texts(world, world.rank() == 0 ? lengths_and_texts : "").front();
    std::vector<std::string> shared;
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t colon = all.find(':', at);
        const std::size_t length = std::stoull(all.substr(at, colon - at));
        shared.push_back(all.substr(colon + 1, length));
        at = colon + 1 + length;
    }
    return shared;
}

/// This rank's share of the files of a checkpoint is as it was written: else the problem.
std::string problem_of(Comm& world, const std::string& path)
{
    try {
        CheckpointReader::open(path).verify(world.rank(), world.size());
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

/// The newest good checkpoint of `dir`; rank 0 warns about each bad one. Throws where all that exist are bad.
std::optional<std::string> newest_good(Comm& world, const std::string& dir, const std::vector<std::string>& names)
{
    std::string first_problem;
    for (const std::string& name : names) {
        const std::string path = dir + "/" + name;
        const std::vector<std::string> problems = gather_texts(world, problem_of(world, path));
        const auto problem = std::find_if(problems.begin(), problems.end(), [](const std::string& p) { return !p.empty(); });
        if (problem == problems.end())
            return path;
        if (first_problem.empty())
            first_problem = *problem;
        if (world.rank() == 0)
            log_warning(str("this checkpoint is not used: ", *problem));
    }
    succeed_together(world, [&] { // all know it, one says it
        if (!first_problem.empty())
            throw UserError({dir, "every checkpoint in it is bad", first_problem,
                             "restore one from a copy, or start anew with checkpoint.resume=never"});
    });
    return std::nullopt;
}

} // namespace

std::string checkpoint_name(i64 step)
{
    char digits[32];
    std::snprintf(digits, sizeof digits, "%08lld", static_cast<long long>(step));
    return str(prefix, digits);
}

void remove_all(const std::string& path)
{
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
        throw IoError({path, "cannot be removed", error.message(), "remove it by hand"});
}

void rename_path(const std::string& from, const std::string& to)
{
    if (std::rename(from.c_str(), to.c_str()) != 0)
        throw_errno(to, "make");
}

void prune(const std::string& dir, const std::string& newest, i64 keep)
{
    if (keep <= 0)
        return;
    i64 kept = 1;
    for (const std::string& name : list_checkpoints(dir)) {
        if (name == newest || ++kept <= keep)
            continue;
        // Renamed first: a folder that is half removed must not look like a checkpoint.
        const std::string doomed = str(dir, "/.old-", name);
        rename_path(str(dir, "/", name), doomed);
        remove_all(doomed);
    }
}

void remove_leftovers(const std::string& dir)
{
    std::vector<std::string> leftovers;
    std::error_code error;
    fs::directory_iterator at(dir, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name.starts_with(".tmp-step-") || name.starts_with(".old-step-"))
            leftovers.push_back(at->path().string());
    }
    if (error)
        throw IoError({dir, "cannot list this folder of checkpoints", error.message(), "check the path and its permissions"});
    for (const std::string& path : leftovers)
        remove_all(path);
}

void supersede_checkpoints(const std::string& dir, i64 step)
{
    for (const std::string& name : list_checkpoints(dir)) {
        if (step_of(name) <= step)
            continue;
        const std::string aside = dir + "/.superseded-" + name;
        remove_all(aside);
        rename_path(dir + "/" + name, aside);
        log_warning(str(dir, "/", name, " is later than step ", step, ", where this run begins: moved aside to ", aside));
    }
}

void probe_folder(const std::string& dir)
{
    make_folders(dir);
    const std::string probe = dir + "/.probe";
    write_file(probe, "");
    remove_all(probe);
}

std::vector<std::string> list_checkpoints(const std::string& dir)
{
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator at(dir, error);
    if (error && error != std::errc::no_such_file_or_directory)
        throw IoError({dir, "cannot list this folder of checkpoints", error.message(), "check the path and its permissions"});
    for (; !error && at != fs::directory_iterator(); at.increment(error))
        if (is_checkpoint_name(at->path().filename().string()) && at->is_directory(error))
            names.push_back(at->path().filename().string());
    // By number: a step may have more digits than others.
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        return a.size() != b.size() ? a.size() > b.size() : a > b;
    });
    return names;
}

std::optional<std::string> find_resume(Comm& world, const CheckpointConfig& config)
{
    if (config.resume == "never")
        return std::nullopt;
    // One rank looks: what the others see of a shared folder may be older.
    std::vector<std::string> names;
    const std::string& dir = config.resume == "auto" ? config.dir : config.resume;
    succeed_together(world, [&] {
        if (world.rank() == 0 && (config.resume == "auto" || (fs::is_directory(dir) && !fs::exists(dir + "/" + manifest_file))))
            names = list_checkpoints(dir);
    });
    names = share(world, names);
    if (config.resume == "auto" || !names.empty())
        return newest_good(world, dir, names);
    succeed_together(world, [&] { CheckpointReader::open(dir).verify(world.rank(), world.size()); }); // says what is wrong with it
    return dir;
}

std::optional<std::string> find_resume(const CheckpointConfig& config) { return find_resume(*make_self_comm(), config); }

} // namespace trivium
