// The stores of a run that begins or continues.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "train/data/training_data.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace trivium {

namespace {

/// The shares of the stores of data.train.
std::vector<i64> weights_of(const TrainingStores& train, const Batches& data)
{
    std::vector<double> weights;
    for (std::size_t i = 0; i < train.list.size(); ++i) {
        const DataSource& source = train.list[i];
        const auto size = static_cast<double>(data.sources()[i]->samples());
        weights.push_back(source.weight
                              ? *source.weight
                              : std::max(1.0, std::floor((source.epochs > 0 ? source.epochs : 1) * size)));
    }
    return integer_weights(weights);
}

/// "a.h5 70 %, b.h5 30 %".
std::string describe_weights(const MixtureHistory& history, const MixtureSegment& segment)
{
    const auto sum = static_cast<double>(segment.weight_sum());
    std::string text;
    for (std::size_t i = 0; i < segment.weights.size(); ++i)
        if (segment.weights[i] > 0)
            text += fmt::format("{}{} {:.4g} %", text.empty() ? "" : ", ", history.sources[i].path,
                                100 * static_cast<double>(segment.weights[i]) / sum);
    return text;
}

/// What a source has at the end of the run.
struct SourceEnd {
    i64 samples = 0;   ///< of one epoch
    double share = 0;  ///< of the samples from here on
    double read = 0;   ///< samples, within one
    bool fits = false; ///< in the epochs that are allowed
};

SourceEnd end_of(const MixtureHistory& history, std::size_t place, const DataSource& source, i64 samples,
                 i64 end)
{
    const MixtureSegment& segment = history.segments.back();
    const i64 sum = segment.weight_sum(),
              weight = place < segment.weights.size() ? segment.weights[place] : 0,
              before = place < segment.counts.size() ? segment.counts[place] : 0;
    const double epochs = source.epochs > 0 ? source.epochs : 1,
                 allowed = std::floor(epochs * static_cast<double>(samples));
    SourceEnd result{samples, static_cast<double>(weight) / static_cast<double>(sum), 0, true};
    const i64 left = std::max<i64>(0, end - segment.first);
    // left * weight / sum without rounding: the sample count at the end is within one of it.
    __extension__ using Wide = __int128;
    const Wide due = Wide{left} * weight;
    result.read = static_cast<double>(before) + static_cast<double>(static_cast<i64>(due / sum)) +
                  static_cast<double>(static_cast<i64>(due % sum)) / static_cast<double>(sum);
    result.fits = source.repeat || weight == 0 || allowed >= 0x1p62 ||
                  due <= (Wide{static_cast<i64>(allowed)} - before) * sum;
    return result;
}

/// Samples of the run when its last step is done.
i64 samples_at_end(const RunState& state, const TrainConfig& train)
{
    const i64 to_come = samples_in(train, train.steps) - samples_in(train, state.step);
    return state.samples + std::max<i64>(0, to_come);
}

void require_enough(const SourceEnd& end, const DataSource& source, i64 samples)
{
    if (end.fits)
        return;
    const double epochs = end.read / static_cast<double>(end.samples);
    throw UserError(
        {"data.train",
         fmt::format("{} has {}, but the run reads {} of it, {:.4g} epochs{}", source.path,
                     counted_in_groups(end.samples, "sample"),
                     format_count(static_cast<i64>(std::ceil(end.read))), epochs,
                     source.epochs > 0 ? fmt::format("; its epochs are {:.4g}", source.epochs) : ""),
         fmt::format("its share is {:.4g} % of the {} of train.steps", 100 * end.share,
                     counted_in_groups(samples, "sample")),
         fmt::format(
             "give it epochs = {} or repeat = true to read it again, or lower its weight or train.steps",
             std::ceil(100 * epochs) / 100)});
}

} // namespace

std::vector<std::string> continue_data(RunState& state, const RunConfig& config, Batches& data)
{
    const TrainingStores& train = config.data.train;
    std::vector<std::string> changes;
    if (train.is_plain() && state.mixture.empty())
        return changes;
    const MixtureHistory before = state.mixture;
    MixtureHistory history = before;
    if (before.empty() && state.samples > 0) { // one store until now
        if (state.data.empty())
            throw UserError({"data.train",
                             "is a mixture, and the checkpoint does not say which data it has read",
                             "an older version wrote it", "name its store as a string"});
        history = {{{"the store until now", state.data, state.samples}}, {{0, {1}, {0}}}};
    }
    std::vector<MixtureSource> sources;
    for (std::size_t i = 0; i < train.list.size(); ++i)
        sources.push_back({train.list[i].path, data.sources()[i]->content(), 0});
    const std::size_t known = history.sources.size(), segments = history.segments.size();
    std::vector<std::size_t> place;
    history = continue_mixture(std::move(history), sources, weights_of(train, data), state.samples, place);
    if (static_cast<i64>(history.sources.size()) > most_sources)
        throw UserError({"data.train",
                         str("has, with the stores of the run before, ", history.sources.size(), " stores"),
                         str("a run has at most ", most_sources), "join some of them"});
    const i64 end = samples_at_end(state, config.train);
    const i64 read = end - state.rewinds.samples; // without those that were left out
    for (std::size_t i = 0; i < sources.size(); ++i)
        require_enough(end_of(history, place[i], train.list[i], data.sources()[i]->samples(), read),
                       train.list[i], read);
    if (state.samples > 0 && segments > 0 && history.segments.size() > segments) {
        changes.push_back(str("data.train: from sample ", state.samples, " on the shares are ",
                              describe_weights(history, history.segments.back()), " (they were ",
                              describe_weights(history, history.segments[segments - 1]),
                              "); each store continues where its reading ended"));
        for (std::size_t i = 0; i < sources.size(); ++i)
            if (place[i] >= known)
                changes.push_back(
                    str("data.train: ", sources[i].path,
                        " is new to this run and begins with its first sample; a store is known by "
                        "its content, not by its path"));
    }
    data.mix(history, place, state.samples);
    state.mixture = std::move(history);
    return changes;
}

std::vector<std::string> describe_data(const RunState& state, const RunConfig& config, const Batches& data)
{
    const TrainConfig& t = config.train;
    const i64 end = samples_at_end(state, t);
    i64 tokens = 0;
    for (const auto& source : data.sources())
        tokens += source->tokens();
    std::string batches; // "8 per step", or "8, 16, 32 per step"
    for (const BatchRamp::Stage& stage : t.batch_ramp.stages)
        batches += str(stage.batch, ", ");
    const std::string whole =
        fmt::format("{}{}; {}{} per step", tokens > 0 ? format_count(tokens) + " tokens, " : "",
                    counted_in_groups(data.samples(), "sample"), batches, t.global_batch);
    if (state.mixture.empty())
        return {fmt::format("data     {}; {:.2f} epochs in {}", whole,
                            static_cast<double>(end) / static_cast<double>(data.samples()),
                            counted(t.steps, "step"))};
    std::vector<std::string> lines{fmt::format("data     {}: {}; {}",
                                               counted(static_cast<i64>(data.sources().size()), "store"),
                                               whole, counted(t.steps, "step"))};
    for (std::size_t i = 0; i < data.sources().size(); ++i) {
        const std::string content = data.sources()[i]->content();
        const auto place =
            static_cast<std::size_t>(std::ranges::find(state.mixture.sources, content, &MixtureSource::data) -
                                     state.mixture.sources.begin());
        const SourceEnd facts =
            end_of(state.mixture, place, config.data.train.list[i], data.sources()[i]->samples(), end);
        const i64 read = state.mixture.sources[place].samples;
        lines.push_back(fmt::format("         {:5.1f} % {}: {} of {}, {:.2f} epochs{}", 100 * facts.share,
                                    config.data.train.list[i].path, format_count(std::llround(facts.read)),
                                    counted_in_groups(facts.samples, "sample"),
                                    facts.read / static_cast<double>(facts.samples),
                                    read > 0 ? fmt::format("; {} read before", format_count(read)) : ""));
    }
    return lines;
}

} // namespace trivium
