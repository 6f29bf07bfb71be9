// `trivium checkpoint average`: the mean of the weights of several checkpoints.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "config/run_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/config_file.hpp"
#include "io/files/folders.hpp"
#include "train/data/inputs.hpp"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace trivium {

namespace {

struct AverageArguments {
    std::vector<std::string> checkpoints, weights;
    std::string output;
    bool averages = false;
};

/// The share of each checkpoint; they sum to 1.
std::vector<double> shares_of(const AverageArguments& a)
{
    std::vector<double> shares;
    for (const std::string& text : a.weights) {
        double weight = 0;
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), weight);
        if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || !std::isfinite(weight) ||
            weight < 0)
            throw UserError({"--weights", str("has '", text, "', not a weight"),
                             "a weight is a number of at least 0", "write for example --weights 1,1,2"});
        shares.push_back(weight);
    }
    if (shares.empty())
        shares.assign(a.checkpoints.size(), 1);
    if (shares.size() != a.checkpoints.size())
        throw UserError({"--weights",
                         str("has ", counted(shares.size(), "weight"), " for ",
                             counted(a.checkpoints.size(), "checkpoint")),
                         "", "give one for each, in the same order"});
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (!(sum > 0) || !std::isfinite(sum))
        throw UserError({"--weights", str("have the sum ", sum), "no checkpoint would count",
                         "give at least one that is above 0"});
    for (double& share : shares)
        share /= sum;
    return shares;
}

std::vector<CheckpointReader::Entry> parameters_of(const CheckpointReader& checkpoint)
{
    std::vector<CheckpointReader::Entry> all = checkpoint.tensors();
    std::erase_if(all, [](const auto& entry) { return !entry.name.starts_with(parameter_prefix); });
    return all;
}

/// Throws UserError unless both have the same model and tokenizer.
void require_alike(const CheckpointReader& first, const CheckpointReader& other)
{
    const auto refuse = [&](const std::string& problem, const std::string& reason) {
        throw UserError(
            {other.path(), problem, reason, "average checkpoints of one run, or of runs of one model"});
    };
    const auto own = parameters_of(first), theirs = parameters_of(other);
    for (std::size_t i = 0; i < std::max(own.size(), theirs.size()); ++i) {
        if (i < own.size() && i < theirs.size() && own[i].name == theirs[i].name &&
            own[i].shape == theirs[i].shape)
            continue;
        refuse(str("is of another model than ", first.path()),
               str("its parameters differ from '",
                   (i < theirs.size() ? theirs[i] : own[i]).name.substr(parameter_prefix.size()), "' on"));
    }
    require_same_model(other, parse_config(first.state().config, first.path() + " (its config)"));
    if (!first.state().tokenizer.empty() && !other.state().tokenizer.empty() &&
        first.state().tokenizer != other.state().tokenizer)
        refuse(str("has another tokenizer than ", first.path()),
               other.state().tokenizer + " and " + first.state().tokenizer);
}

/// The state of the result: that of the checkpoint with the most steps, without what only its run knows.
RunState state_of(const std::vector<CheckpointReader>& all)
{
    RunState state = all.front().state();
    for (const CheckpointReader& each : all)
        if (each.state().step > state.step)
            state = each.state();
    state.recent_losses.clear();
    state.skipped_in_row = 0;
    state.best = {};
    state.job.clear();
    return state;
}

int average(const AverageArguments& a)
{
    if (a.output.empty())
        throw UserError({"--output", "is missing", "the result needs a folder", "write -o FOLDER"});
    if (a.checkpoints.size() < 2)
        throw UserError({"checkpoints", "there is only one", "an average is of several",
                         "name two or more, such as checkpoints/step-00000100 checkpoints/step-00000200"});
    const std::vector<double> shares = shares_of(a);
    require_new_folder(a.output);
    std::vector<CheckpointReader> all;
    for (const std::string& path : a.checkpoints) {
        all.push_back(CheckpointReader::open(newest_checkpoint(path)));
        all.back().check();
        if (a.averages)
            all.back().read_averages();
        for (std::size_t before = 0; before + 1 < all.size(); ++before)
            if (all[before].path() == all.back().path())
                throw UserError({path, "is named twice", all.back().path(),
                                 "name it once; --weights gives it a larger share"});
        require_alike(all.front(), all.back());
    }
    const RunState state = state_of(all);
    Bytes bytes = 0, done = 0;
    std::vector<TensorPiece> pieces;
    for (const CheckpointReader::Entry& entry : parameters_of(all.front())) {
        pieces.push_back(whole_tensor(entry.name, entry.shape, entry.type, nullptr));
        bytes += pieces.back().bytes();
        pieces.back().fetch = [&, name = entry.name, type = entry.type](Bytes begin,
                                                                        std::span<std::byte> to) {
            const Bytes size = size_of(type);
            const auto count = static_cast<std::size_t>(static_cast<Bytes>(to.size()) / size);
            std::vector<double> sum(count, 0), part(count);
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (shares[i] == 0)
                    continue;
                all[i].read(name, begin / size, static_cast<i64>(count), DType::f64, part.data());
                for (std::size_t k = 0; k < count; ++k)
                    sum[k] += shares[i] * part[k];
            }
            with_type(type, [&](auto t) {
                using T = decltype(t);
                if constexpr (std::is_floating_point_v<T>)
                    std::ranges::transform(sum, reinterpret_cast<T*>(to.data()),
                                           [](double x) { return static_cast<T>(x); });
            });
            done += static_cast<Bytes>(to.size());
            log_progress(str("averaging: ", format_bytes(done), " of ", format_bytes(bytes)));
        };
    }
    make_whole_folder(a.output, [&](const std::string& folder) {
        save_checkpoint(*make_self_comm(), folder, state, pieces, 0);
    });
    log_progress("");
    fmt::print("{}: the mean of {} of {}, {}\n", a.output,
               a.averages ? "the averaged weights" : "the weights", counted(all.size(), "checkpoint"),
               format_bytes(bytes));
    for (std::size_t i = 0; i < all.size(); ++i)
        fmt::print("  {:.4f} of {}\n", shares[i], all[i].path());
    return 0;
}

} // namespace

void add_average_command(Command& checkpoint)
{
    Command command = checkpoint.add("average", "make a checkpoint of the mean of the weights of several");
    auto a = std::make_shared<AverageArguments>();
    command
        .option("checkpoints", a->checkpoints,
                "two or more checkpoints of one model (of a folder: the newest)", {.required = true})
        .option("-o,--output", a->output, "new folder for the checkpoint", {.type = "FOLDER"})
        .option("--weights", a->weights, "weight of each checkpoint, such as 1,1,2; by default all are equal",
                {.list = true, .type = "NUMBERS"})
        .flag("--average", a->averages, "of their averaged weights (train.ema)")
        .footer("The result has weights only: `eval`, `generate` and `checkpoint export` take it, and "
                "train.init_from.");
    command.action([=] { return average(*a); });
}

} // namespace trivium
