// The folder of a run's checkpoints: lists and removes them, and selects the one to resume from.
#include "base/check.hpp"
#include "base/log.hpp"
#include "config/about_key.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/parts.hpp"
#include "io/files/damaged.hpp"
#include "io/files/files.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "step-";
// Prefixes of folders that are not checkpoints: incomplete, about to be removed, about to be replaced.
constexpr const char* best_file = "best";
constexpr std::string_view incomplete = ".tmp-step-", removed = ".gone-", replaced = ".old-";

bool is_checkpoint_name(const std::string& name)
{
    return name.starts_with(prefix) && name.size() > prefix.size() &&
           name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

/// The step in a checkpoint's name; the largest number if it overflows.
i64 step_of(const std::string& name)
{
    i64 step = 0;
    for (const char digit : name.substr(prefix.size()))
        if (__builtin_mul_overflow(step, i64{10}, &step) ||
            __builtin_add_overflow(step, i64{digit - '0'}, &step))
            return std::numeric_limits<i64>::max();
    return step;
}

void use_checkpoint(Comm& world, const std::string& path, const UseCheckpoint& use)
{
    const CheckpointReader reader = CheckpointReader::open(path);
    reader.check(world.rank(), world.size());
    use(reader);
}

/// The damage that the lowest such rank finds in the checkpoint at `path`; "" if no rank finds any.
std::string first_problem(Comm& world, const std::string& path, const UseCheckpoint& use)
{
    std::string problem;
    succeed_together(world, [&] { // other errors are for the user to repair
        try {
            use_checkpoint(world, path, use);
        } catch (const DamagedCheckpoint& error) {
            problem = error.what();
        } catch (const MediaError& error) {
            problem = error.what();
        }
    });
    for (std::string& theirs : gather_texts(world, problem))
        if (!theirs.empty())
            return theirs;
    return "";
}

/// The first of `names` that all ranks can use; nullopt if `names` is empty. Appends those before it to
/// `bad`; rank 0 warns about each. UserError if all are damaged.
std::optional<std::string> first_good(Comm& world, const std::string& dir,
                                      const std::vector<std::string>& names, const UseCheckpoint& use,
                                      std::vector<std::string>& bad)
{
    std::string why;
    for (const std::string& name : names) {
        const std::string problem = first_problem(world, dir + "/" + name, use);
        if (problem.empty())
            return name;
        if (world.rank() == 0)
            log_warning(str("this checkpoint is not used: ", problem));
        why = why.empty() ? problem : why;
        bad.push_back(name);
    }
    succeed_together(world, [&] { // so that one rank reports it
        if (!bad.empty())
            throw UserError({dir, "every checkpoint in it is bad", why,
                             "restore one from a copy, or start from scratch with checkpoint.resume=never"});
    });
    return std::nullopt;
}

/// Rank 0's list, on all ranks: other nodes may see an older state of a shared folder.
std::vector<std::string> list_together(Comm& world, const std::function<std::vector<std::string>()>& list)
{
    std::vector<std::string> names;
    succeed_together(world, [&] {
        if (world.rank() == 0)
            names = list();
    });
    return share_record(world, names);
}

/// Removes a file, or a folder with its content; nothing if `path` does not exist. IoError.
void remove_all(const std::string& path)
{
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
        throw IoError({path, "cannot be removed", error.message(), "remove it by hand"});
}

/// As remove_all, with a warning instead of an error.
void remove_if_possible(const std::string& path)
{
    try {
        remove_all(path);
    } catch (const IoError& error) { // on NFS, another program may have it open; the next launch tries again
        log_warning(error.what());
    }
}

/// Renames a file or a folder. IoError.
void rename_path(const std::string& from, const std::string& to)
{
    if (std::rename(from.c_str(), to.c_str()) != 0)
        throw_errno(to, "make");
}

/// Removes a checkpoint that no run needs any more, now or at a later launch.
void discard(const std::string& dir, const std::string& path, const std::string& name)
{
    const std::string doomed = str(dir, "/", removed, name);
    rename_path(path, doomed);
    remove_if_possible(doomed);
}

/// Renames a checkpoint to PREFIX-NAME, or PREFIX-NAME.2 … if that exists: nothing is overwritten. Returns
/// the new path.
std::string move_aside(const std::string& dir, const std::string& name, const std::string& new_prefix)
{
    std::string aside = dir + "/" + new_prefix + name;
    for (int i = 2; fs::exists(fs::symlink_status(aside)); ++i)
        aside = str(dir, "/", new_prefix, name, ".", i);
    rename_path(dir + "/" + name, aside);
    return aside;
}

void set_aside(const std::string& dir, const std::vector<std::string>& bad, const std::string& good)
{
    for (const std::string& name : bad)
        log_warning(str(dir, "/", name, " is damaged: renamed to ", move_aside(dir, name, ".bad-")));
    if (!bad.empty())
        mark_latest(dir, good);
}

} // namespace

std::string checkpoint_name(i64 step)
{
    char digits[32];
    std::snprintf(digits, sizeof digits, "%08lld", static_cast<long long>(step));
    return str(prefix, digits);
}

void put_in_place(const std::string& dir, const std::string& temporary, const std::string& name)
{
    const std::string path = dir + "/" + name;
    if (!fs::exists(path)) {
        rename_path(temporary, path);
        return sync_path(dir);
    }
    std::string old = temporary; // the old one's path after the exchange
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
        // The file system cannot exchange names. If we are killed in between, remove_leftovers() restores it.
        old = str(dir, "/", replaced, name);
        rename_path(path, old);
        try {
            rename_path(temporary, path);
        } catch (...) {
            rename_path(old, path);
            throw;
        }
    }
    sync_path(dir);
    discard(dir, old, name);
}

/// The checkpoint that the file `path` names; empty if it is no such file.
static std::string named_by(const std::string& path)
{
    std::error_code error;
    if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > 64 || error)
        return "";
    std::string name = read_file(path, "mark of a checkpoint", 64);
    while (name.ends_with('\n'))
        name.pop_back();
    return is_checkpoint_name(name) ? name : "";
}

/// `path`, or the checkpoint that DIR/best or DIR/latest names. "best" alone is that of the usual folder.
static std::string without_mark(const std::string& path)
{
    const fs::path given(path_of_checkpoint(path, CheckpointConfig{}.dir));
    if (given.filename() != best_file && given.filename() != "latest")
        return path;
    const std::string name = named_by(given.string());
    return name.empty() ? path : (given.parent_path() / name).string();
}

std::string best_checkpoint(const std::string& dir)
{
    const std::string name = named_by(str(dir, "/", best_file));
    std::error_code error;
    return !name.empty() && fs::is_directory(dir + "/" + name, error) ? name : "";
}

void write_best(const std::string& dir, const std::string& name)
{
    write_file(str(dir, "/", best_file), name + "\n");
}

BestLoss best_recorded_by(const std::string& path)
{
    try {
        return CheckpointReader::open(path).state().best;
    } catch (const Error&) { // who needs the checkpoint reports it
        return {};
    }
}

bool mark_best(const std::string& dir, const BestLoss& best)
{
    const std::string name = best.step > 0 ? checkpoint_name(best.step) : "";
    // Another run may have left a checkpoint of this step.
    const BestLoss own = name.empty() ? BestLoss{} : best_recorded_by(dir + "/" + name);
    const bool exists = !name.empty() && own.step == best.step && own.loss == best.loss;
    if (exists && named_by(str(dir, "/", best_file)) != name)
        write_best(dir, name);
    if (!exists)
        remove_all(str(dir, "/", best_file));
    return exists;
}

void mark_latest(const std::string& dir, const std::string& name)
{
    // Other tools use this name for a link to a checkpoint, which copies may turn into a folder.
    const fs::file_status status = fs::symlink_status(dir + "/latest");
    if (fs::is_symlink(status))
        remove_all(dir + "/latest");
    if (fs::is_directory(status))
        log_warning(str(dir, "/latest is a folder, not the name of a checkpoint: renamed to ",
                        move_aside(dir, "latest", ".old-")));
    write_file(dir + "/latest", name + "\n");
}

void remove_checkpoint(const std::string& dir, const std::string& name)
{
    discard(dir, str(dir, "/", name), name);
}

void remove_leftovers(const std::string& dir)
{
    const auto is_leftover =
        [](const std::string& name) { // the last five: temporary files of write_file(), and probes
            const std::string_view beginnings[] = {incomplete,  removed,       replaced,
                                                   ".scratch-", "latest.tmp-", "best.tmp-",
                                                   ".run.tmp-", ".probe",      ".seen-by-all"};
            return std::any_of(std::begin(beginnings), std::end(beginnings),
                               [&](std::string_view beginning) { return name.starts_with(beginning); });
        };
    std::vector<std::string> leftovers;
    std::error_code error;
    fs::directory_iterator at(dir, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (is_leftover(name))
            leftovers.push_back(name);
    }
    if (error)
        throw_errno(dir, "list this folder of checkpoints", error.value());
    for (const std::string& name : leftovers) {
        const std::string path = dir + "/" + name;
        if (name.starts_with(replaced) && !fs::exists(dir + "/" + name.substr(replaced.size())))
            rename_path(path, dir + "/" + name.substr(replaced.size()));
        else if (name.starts_with(incomplete))
            remove_all(path); // must succeed: the next save may need the name
        else
            remove_if_possible(path);
    }
}

void supersede_checkpoints(const std::string& dir, i64 step)
{
    bool moved = false;
    for (const std::string& name : list_checkpoints(dir)) {
        if (step_of(name) <= step)
            continue;
        log_warning(str(dir, "/", name, " is later than step ", step, ", where this run begins: renamed to ",
                        move_aside(dir, name, ".superseded-")));
        moved = true;
    }
    if (const std::vector<std::string> left = list_checkpoints(dir); moved && !left.empty())
        mark_latest(dir, left.front());
    else if (moved)
        remove_all(dir + "/latest");
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
    if (error == std::errc::not_a_directory)
        throw UserError({dir, "is not a checkpoint, nor a folder of them",
                         "it is a file; a checkpoint is a folder like step-00000100",
                         "name a checkpoint, or the folder of a run's checkpoints (checkpoint.dir)"});
    if (error && error != std::errc::no_such_file_or_directory)
        throw_errno(dir, "list this folder of checkpoints", error.value());
    if (error)
        return names;
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
        std::error_code unknown; // set if the entry was removed in the meantime
        if (is_checkpoint_name(at->path().filename().string()) && at->is_directory(unknown))
            names.push_back(at->path().filename().string());
        if (unknown && unknown != std::errc::no_such_file_or_directory)
            throw IoError(
                {at->path().string(), "cannot be examined", unknown.message(), "check the file system"});
    }
    if (error) // an incomplete list would make a run resume from an older checkpoint
        throw IoError({dir, "cannot list this folder of checkpoints", error.message(),
                       "check the file system, and start again"});
    // Numerically: steps may differ in the number of digits.
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        return a.size() != b.size() ? a.size() > b.size() : a > b;
    });
    return names;
}

i64 checkpoint_step(const std::string& path)
{
    const fs::path given(path);
    const std::string name =
        (given.has_filename() ? given : given.parent_path()).filename(); // "…/step-00000004/" has none
    return is_checkpoint_name(name) ? step_of(name) : 0;
}

bool looks_like_checkpoint(const std::string& path)
{
    std::error_code error;
    return fs::is_directory(path, error) &&
           (fs::exists(path + "/" + manifest_file, error) ||
            is_checkpoint_name(fs::canonical(path, error).filename().string()));
}

std::string newest_checkpoint(const std::string& path)
{
    if (const std::string named = without_mark(path); named != path)
        return named;
    const std::vector<std::string> names = list_checkpoints(path);
    return names.empty() ? path : path + "/" + names.front();
}

std::string restore_from(Comm& world, const std::string& given, const UseCheckpoint& use,
                         const std::string& key)
{
    std::error_code ignored;
    std::string path;
    succeed_together(world, [&] {
        if (world.rank() == 0)
            path = without_mark(given);
    });
    path = share_record(world, path);
    const std::vector<std::string> names = list_together(world, [&] {
        const bool is_checkpoint =
            !fs::is_directory(path, ignored) || fs::exists(path + "/" + manifest_file, ignored);
        return is_checkpoint ? std::vector<std::string>{}
                             : about_key(key, [&] { return list_checkpoints(path); });
    });
    std::vector<std::string> bad;
    if (const std::optional<std::string> good = first_good(world, path, names, use, bad))
        return path + "/" + *good;
    succeed_together(world, [&] { // `path` itself is the checkpoint
        about_key(key, [&] { use_checkpoint(world, path, use); });
    });
    return path;
}

std::optional<std::string> restore_wanted(Comm& world, const std::string& dir,
                                          const std::function<bool(i64 step)>& wanted,
                                          const UseCheckpoint& use)
{
    const std::vector<std::string> names = list_together(world, [&] {
        std::vector<std::string> all = list_checkpoints(dir);
        std::erase_if(all, [&](const std::string& name) { return !wanted(step_of(name)); });
        return all;
    });
    const UseCheckpoint verify = [&](const CheckpointReader& reader) {
        reader.verify(world.rank(), world.size());
    };
    for (const std::string& name : names) {
        const std::string path = dir + "/" + name;
        std::string problem = first_problem(world, path, verify);
        if (problem.empty())
            problem = first_problem(world, path, use);
        if (problem.empty())
            return path;
        if (world.rank() == 0)
            log_warning(str("this checkpoint is not used: ", problem));
    }
    return std::nullopt;
}

std::string path_of_checkpoint(const std::string& path, const std::string& dir)
{
    std::error_code error;
    const bool is_mark = path == best_file && !fs::exists(fs::symlink_status(path, error));
    return is_mark ? str(dir, "/", best_file) : path;
}

std::string resumed_path(const CheckpointConfig& config)
{
    const std::string path = path_of_checkpoint(config.resume, config.dir);
    if (path != config.resume && best_checkpoint(config.dir).empty())
        throw UserError({config.dir, "no checkpoint is marked as the best",
                         "a run with checkpoint.best marks one after its evaluations",
                         "set it to \"auto\", or to the path of a checkpoint"});
    return path;
}

std::optional<std::string> restore_newest(Comm& world, const CheckpointConfig& config,
                                          const UseCheckpoint& use)
{
    if (config.resume == "never")
        return std::nullopt;
    if (config.resume != "auto")
        return restore_from(world, resumed_path(config), use,
                            "checkpoint.resume (neither \"auto\" nor \"never\")");
    const std::string& dir = config.dir;
    const std::vector<std::string> names = list_together(world, [&] {
        if (std::error_code ignored; fs::exists(dir, ignored))
            remove_leftovers(dir);
        return list_checkpoints(dir);
    });
    std::vector<std::string> bad;
    const std::optional<std::string> good = first_good(world, dir, names, use, bad);
    if (!good)
        return std::nullopt;
    succeed_together(world, [&] {
        if (world.rank() == 0)
            set_aside(dir, bad, *good);
    });
    return dir + "/" + *good;
}

} // namespace trivium
