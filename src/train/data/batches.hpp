#pragma once
// Batches of samples from one or several sources.
#include "io/tokens/sample_order.hpp"
#include "train/data/mixture.hpp"
#include "train/data/read_ahead.hpp"
#include "train/data/sample_source.hpp"
#include "train/engine.hpp"

#include <limits>
#include <memory>
#include <vector>

namespace trivium {

using SampleSources = std::vector<std::unique_ptr<const SampleSource>>;

/// The samples of one or several sources in a fixed order.
class Batches {
public:
    /// One source, in its own order.
    explicit Batches(std::unique_ptr<const SampleSource> source);
    /// Each source in the order of SampleOrder, epoch after epoch. The first one alone, until mix() is
    /// called. \pre the same arrays in each
    Batches(SampleSources sources, u64 seed);

    /// From now on, reading a box of sample i lets a thread read that box of sample i + `samples`, which is
    /// expected next.
    void read_ahead(i64 samples);

    /// From sample `first` on, samples are dealt to the sources as `history` says. `place`: for each source
    /// its place among the sources of the history. \pre sources that are none of these have weight 0
    void mix(MixtureHistory history, const std::vector<std::size_t>& place, i64 first);
    /// The history up to before a sample; empty without mix(). \pre sample >= `first` of mix()
    MixtureHistory history(i64 sample) const;

    /// Gives `valid` another floating-point type.
    void set_valid(DType type) { valid_ = type; }

    const SampleSources& sources() const { return sources_; }
    /// The first source. All have the same tokenizer, or none.
    const SampleSource& source() const { return *sources_.front(); }
    /// SampleSource::content() of each source: "123456 tokens, 0123456789abcdef".
    std::string content() const;
    /// Number of samples of one epoch of all sources.
    i64 samples() const;

    /// The batch from sample `first` on: the arrays of the sources, and, unless they have arrays of these
    /// names, `samples` and `valid`. Samples from `end` on are padding, as SampleSource::pad() has it;
    /// `valid`, f32[] or as set_valid() says, is 0 for them and 1 for the others. The batch is valid while
    /// this object exists; reading it throws the errors of SampleSource::read(). \pre first >= that of mix()
    Batch at(i64 first, i64 end = std::numeric_limits<i64>::max()) const;

private:
    /// A sample of the run as one of a source.
    std::pair<const SampleSource*, i64> find(i64 sample) const;

    SampleSources sources_;
    std::vector<SampleOrder> orders_; ///< of each source; empty: the sources' own order
    i64 ahead_ = 0;
    std::unique_ptr<ReadAhead> reader_; ///< with read_ahead()
    DType valid_ = DType::f32;
    MixtureHistory history_;
    std::optional<MixtureOrder> mixture_;
    std::vector<std::size_t> source_of_place_; ///< in the history
};

} // namespace trivium
