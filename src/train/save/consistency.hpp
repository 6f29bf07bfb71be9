#pragma once
// Checks that all ranks of a run use the same config, data and folder. All functions are collective over
// `world`.
#include "compile/compile.hpp"
#include "mpi/comm.hpp"
#include "train/data/sample_source.hpp"

#include <string>

namespace trivium {

/// Throws UserError, on all ranks, if a rank's config differs from that of rank 0; the message has the first
/// different line.
void require_same_config(Comm& world, const RunConfig& config);

/// Throws UserError, on all ranks, if a rank chose another config or order than rank 0: ranks would wait for
/// each other forever. Buckets are not compared: ranks know those of their own stage.
void require_same_choices(Comm& world, const Choices& choices);

/// Throws UserError, on all ranks, if a rank's store differs from that of rank 0 in files, size, vocabulary,
/// tokenizer or tokens (compared by the hashes in the store).
void require_same_data(Comm& world, const SampleSource& source);

/// Throws UserError or IoError, on all ranks, if a rank does not see the files that rank 0 writes to `dir`,
/// or cannot write to `dir`.
void require_shared_folder(Comm& world, const std::string& dir);

} // namespace trivium
