#pragma once
// Runs the programs of generation around one KV cache, on all ranks of a grid.
#include "compile/forward.hpp"
#include "train/engine.hpp"

#include <span>

namespace trivium {

/// One call of a program: new tokens for some of the sequences.
struct GeneratorCall {
    std::size_t program = prefill_program;
    std::vector<std::int32_t> tokens{}; ///< [rows, queries(program)], padded
    std::vector<std::int32_t> start{};  ///< [rows]: tokens of the sequence in the cache
    std::vector<std::int32_t> given{};  ///< [rows]: new tokens; 0: the row's sequence stays as it is
};

class Generator {
public:
    /// Uses compile_generation()'s programs. \pre the engine's arena contains the parameters
    explicit Generator(Engine& engine);

    i64 rows() const { return rows_; }         ///< over all ranks
    i64 capacity() const { return capacity_; } ///< tokens in the cache of a sequence
    i64 vocab() const;                         ///< logits of a token
    bool has_scores() const;                   ///< whether there is the program `score`
    i64 queries(std::size_t program) const;    ///< tokens per sequence and call

    /// Collective, with the same call on all ranks. \pre start + queries(program) <= capacity() in each row
    void run(const GeneratorCall& call);

    /// The box of the logits that the rank at `at` has: rows and tokens of the vocabulary, in `score` with
    /// the new tokens between them.
    Box part(std::size_t program, const Coordinates& at) const;
    /// From `first` on, elements of this rank's part of the logits of the last run, which was of `program`.
    void copy_logits(std::size_t program, i64 first, std::span<double> to) const;

    // One sequence, row 0, on one rank.

    /// Starts a new sequence with an empty cache.
    void reset() { length_ = 0; }
    /// Appends tokens and returns the logits of the next token, valid until the next call. \pre tokens is not
    /// empty; length() + tokens.size() <= capacity()
    std::span<const double> append(std::span<const std::int32_t> tokens);
    i64 length() const { return length_; }

private:
    const Value& logits(std::size_t program) const; ///< of all ranks
    void append_part(std::size_t program, std::span<const std::int32_t> tokens);

    Engine& engine_;
    i64 rows_ = 0, capacity_ = 0, length_ = 0;
    i64 positions_ = 0; ///< maximum number of positions of the model
    std::vector<double> logits_;
};

} // namespace trivium
