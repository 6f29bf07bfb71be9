// `trivium checkpoint list | show | verify`.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "cli/commands.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/values.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

constexpr std::size_t most_faults = 20; ///< tensors that `verify` names

struct CheckpointArguments {
    std::string path;
    bool json = false;
};

/// `path` itself if it is a checkpoint, otherwise the checkpoints in it, newest first.
std::vector<std::string> checkpoints_at(const std::string& path)
{
    std::vector<std::string> found;
    for (const std::string& name : list_checkpoints(path))
        found.push_back(path + "/" + name);
    if (found.empty())
        found.push_back(path);
    return found;
}

int list(const CheckpointArguments& a)
{
    if (std::error_code error;
        !std::filesystem::exists(a.path, error) && error != std::errc::permission_denied)
        throw UserError({a.path, "there is no such folder", "",
                         "name a checkpoint, or the folder of a run's checkpoints"});
    nlohmann::ordered_json out = nlohmann::json::array();
    if (!looks_like_checkpoint(a.path) && list_checkpoints(a.path).empty()) { // a run may not have saved yet
        fmt::print("{}",
                   a.json ? "[]\n"
                          : a.path +
                                ": contains no checkpoint (none was saved yet, or this is the wrong folder)\n"
                                "  remedy: name the folder in checkpoint.dir; `trivium train` "
                                "saves there every checkpoint.every steps\n");
        return 0;
    }
    const std::string best = best_checkpoint(a.path);
    for (const std::string& path : checkpoints_at(a.path)) {
        const bool is_best = !best.empty() && path == a.path + "/" + best;
        nlohmann::ordered_json row{{"path", path}, {"best", is_best}};
        try {
            const CheckpointReader reader = CheckpointReader::open(path);
            reader.check();
            row.update({{"step", reader.state().step},
                        {"tokens", reader.state().tokens},
                        {"bytes", reader.bytes()}});
            const BestLoss& lowest = reader.state().best;
            if (is_best)
                row["valid_loss"] = lowest.loss;
            if (!a.json)
                fmt::print("{}  step {}, {} tokens, {}{}\n", path, reader.state().step,
                           format_count(reader.state().tokens), format_bytes(reader.bytes()),
                           is_best ? fmt::format(", the best: validation loss {:.4f}{}", lowest.loss,
                                                 lowest.set.empty() ? "" : " of " + lowest.set)
                                   : "");
        } catch (const InternalError&) {
            throw;
        } catch (const Error& error) {
            row["error"] = error.what();
            if (!a.json)
                fmt::print("{}  bad: {}\n", path, error.what());
        }
        out.push_back(row);
    }
    if (a.json)
        fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
}

int show(const CheckpointArguments& a)
{
    const CheckpointReader reader = CheckpointReader::open(newest_checkpoint(a.path));
    reader.check();
    const RunState& state = reader.state();
    nlohmann::ordered_json tensors = nlohmann::json::array();
    i64 values = 0, parameters = 0, pieces = 0;
    for (const CheckpointReader::Entry& entry : reader.tensors()) {
        tensors.push_back({{"name", entry.name},
                           {"shape", entry.shape},
                           {"type", name_of(entry.type)},
                           {"pieces", entry.pieces}});
        values += element_count(entry.shape);
        parameters += entry.name.starts_with("param/") ? element_count(entry.shape) : 0;
        pieces += entry.pieces;
    }
    nlohmann::ordered_json mixture = nlohmann::ordered_json::array(); // of several training stores
    for (const MixtureSource& source : state.mixture.sources)
        mixture.push_back({{"path", source.path}, {"data", source.data}, {"samples", source.samples}});
    nlohmann::ordered_json best; // null: none
    if (state.best.step > 0)
        best = {{"set", state.best.set}, {"step", state.best.step}, {"loss", state.best.loss}};
    if (a.json) {
        fmt::print("{}\n", nlohmann::ordered_json{{"path", reader.path()},
                                                  {"step", state.step},
                                                  {"updates", state.updates},
                                                  {"samples", state.samples},
                                                  {"tokens", state.tokens},
                                                  {"seed", state.seed},
                                                  {"build", state.build},
                                                  {"tokenizer", state.tokenizer},
                                                  {"grid", state.grid},
                                                  {"ranks", state.ranks},
                                                  {"mixture", mixture},
                                                  {"best", best},
                                                  {"rewinds", state.rewinds.count},
                                                  {"version", reader.version()},
                                                  {"shards", reader.shards()},
                                                  {"pieces", pieces},
                                                  {"config", state.config},
                                                  {"tensors", tensors}}
                               .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return 0;
    }
    const std::string ranks = state.ranks == 0 ? "unknown" : counted(state.ranks, "rank");
    fmt::print("{}\n  step       {} ({}, {} skipped)\n  samples    {}\n  tokens     {}\n  tokenizer  "
               "{}\n  build      {}\n"
               "  grid       {}\n  size       {}, {}, {}, version {}\n  tensors    {}, {} "
               "values, {} of them parameters\n\n",
               reader.path(), state.step, counted(state.updates, "update"), state.step - state.updates,
               format_count(state.samples), format_count(state.tokens), state.tokenizer, state.build,
               state.grid.empty() ? ranks : fmt::format("{} ({})", ranks, state.grid),
               format_bytes(reader.bytes()), counted(reader.shards(), "shard"), counted(pieces, "piece"),
               reader.version(), reader.tensors().size(), format_count(values), format_count(parameters));
    if (state.best.step > 0)
        fmt::print("  best       validation loss {:.4f} at step {}{}\n", state.best.loss, state.best.step,
                   state.best.set.empty() ? "" : ", of " + state.best.set);
    if (state.rewinds.count > 0)
        fmt::print("  rewinds    {}, {} samples left out\n", state.rewinds.count,
                   format_count(state.rewinds.samples));
    for (const MixtureSource& source : state.mixture.sources)
        fmt::print("  read       {} samples of {}\n", format_count(source.samples), source.path);
    for (const auto& tensor : tensors)
        fmt::print("  {:<44} {} {}\n", tensor["name"].get<std::string>(), tensor["type"].get<std::string>(),
                   tensor["shape"].dump());
    fmt::print("\nconfig\n{}", state.config);
    return 0;
}

/// Prints "good", or which values are bad. Returns whether all are good.
bool print_values(const CheckpointReader& reader)
{
    const std::vector<ValueFault> faults = find_value_faults(reader);
    if (faults.empty()) {
        fmt::print("{}: good, {}\n", reader.path(), format_bytes(reader.bytes()));
        return true;
    }
    const auto not_finite =
        std::count_if(faults.begin(), faults.end(), [](const ValueFault& fault) { return fault.not_finite; });
    fmt::print("{}: bad\n  the bytes are those that were written, but {}\n", reader.path(),
               not_finite > 0 ? "some values are not finite" : "no run has such values");
    for (std::size_t i = 0; i < faults.size() && i < most_faults; ++i)
        fmt::print("  {}: {}\n", faults[i].tensor, faults[i].problem);
    if (faults.size() > most_faults)
        fmt::print("  and {} more tensors, of {}\n", faults.size() - most_faults, reader.tensors().size());
    fmt::print("  remedy: use an earlier checkpoint\n");
    return false;
}

int check(const CheckpointArguments& a)
{
    bool good = true;
    for (const std::string& path : checkpoints_at(a.path)) {
        try {
            const CheckpointReader reader = CheckpointReader::open(path);
            reader.verify();
            good = print_values(reader) && good;
        } catch (const InternalError&) {
            throw;
        } catch (const Error& error) { // damaged or unreadable
            good = false;
            fmt::print("{}: bad\n  {}\n", path, error.what());
        }
    }
    return good ? 0 : 2;
}

} // namespace

void add_checkpoint_command(Command& program, const std::string& build)
{
    Command command =
        program.add("checkpoint", "list, show, verify, compare, average and prune checkpoints; import "
                                  "and export Hugging Face models, export GGUF files");
    const auto add = [&](const char* name, const char* help, int (*run)(const CheckpointArguments&),
                         bool with_json) {
        Command sub = command.add(name, help);
        auto arguments = std::make_shared<CheckpointArguments>();
        sub.option("path", arguments->path, "a checkpoint, or the folder of a run's checkpoints",
                   {.required = true});
        if (with_json)
            sub.flag("--json", arguments->json, "print JSON");
        sub.action([=] { return run(*arguments); });
    };
    add("list", "list the checkpoints of a folder, newest first", list, true);
    add("show", "show state, config and tensors of a checkpoint (of a folder: the newest)", show, true);
    add("verify", "verify that checkpoints contain the bytes that were written, and plausible values", check,
        false);
    add_diff_command(command);
    add_prune_command(command);
    add_average_command(command);
    add_export_command(command);
    add_import_command(command, build);
}

} // namespace trivium
