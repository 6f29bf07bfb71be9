#pragma once
// Writes metrics.samples.jsonl of a run: slices of samples of the validation data, and of what the program
// makes of them.
#include "io/metrics/shown_samples.hpp"
#include "train/data/batches.hpp"

namespace trivium {

/// Whether a run with this config has samples to show.
bool shows_samples(const RunConfig& config);

/// Of rank 0. \pre shows_samples(config)
class SampleReport {
public:
    /// Reads the inputs of the first log.samples samples of `data`, and from the run's file the outputs up to
    /// `step`, from which the run continues. Throws as SampleSource::read(); UserError for a file of another
    /// kind.
    SampleReport(const RunConfig& config, const Batches& data, i64 step);

    /// Takes the outputs of the batch from sample `first` on, which the engine has evaluated last.
    void take(const Engine& engine, i64 first, std::size_t program = eval_program);
    /// Writes the file with the outputs taken, as those after `step`. If that fails, warns: a run does not
    /// end for that.
    void write(i64 step);

private:
    std::string dir_;
    i64 count_; ///< samples that are shown
    std::vector<ShownOutput> outputs_;
    std::vector<ShownSample> inputs_, earlier_, taken_; ///< taken: without a step
};

} // namespace trivium
