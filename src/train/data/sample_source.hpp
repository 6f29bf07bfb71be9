#pragma once
// A source of samples: a token store, or files of arrays.
#include "ir/graph.hpp"

#include <string>
#include <vector>

namespace trivium {

/// Several threads may call the functions of a source.
class SampleSource {
public:
    /// An array: a tensor per sample.
    struct Array {
        std::string name;
        TensorType type;
    };

    virtual ~SampleSource() = default;

    /// As the config names it.
    virtual const std::string& path() const = 0;
    virtual i64 samples() const = 0;
    /// Those of all sources of a run are the same.
    virtual const std::vector<Array>& arrays() const = 0;
    /// Writes the elements in `box` of an array of a sample to `to`, row-major. UserError if the data are
    /// damaged or cannot be used; IoError. \pre 0 <= sample < samples()
    virtual void read(std::size_t array, i64 sample, const Box& box, void* to) const = 0;
    /// As read(), of a sample that only fills a batch.
    virtual void pad(std::size_t array, const Box& box, void* to) const = 0;
    /// Asks the system to read that box ahead; does not wait.
    virtual void will_read(std::size_t /*array*/, i64 /*sample*/, const Box& /*box*/) const {}

    /// Number and hash of what it has: "123456 tokens, 0123456789abcdef". Sources that differ in it have
    /// other data.
    virtual std::string content() const = 0;
    /// What must be the same on all ranks.
    virtual std::string facts() const { return content(); }
    /// 0: it has no tokens.
    virtual i64 tokens() const { return 0; }
    /// Fingerprint of the tokenizer; empty: unknown, or none.
    virtual std::string tokenizer() const { return {}; }
};

} // namespace trivium
