#pragma once
// manifest.json of a checkpoint: the state of the run, and what every file must be. Its last line is the hash
// of all that stands before, so that it is the first thing that is verified; HDF5 sees no file before that.
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/index.hpp"
#include "io/checkpoint/shard.hpp"

namespace trivium {

inline constexpr const char* checkpoint_kind = "trivium checkpoint";
inline constexpr i64 checkpoint_version = 1;
inline constexpr const char* manifest_file = "manifest.json";
/// The longest that is read: that of 100 000 ranks has some 12 MB.
inline constexpr Bytes max_manifest_bytes = Bytes{64} << 20;

struct Manifest {
    RunState state;
    Bytes block_bytes = default_block_bytes;
    IndexPlace index;
    std::vector<Shard> shards; ///< by rank; without bytes where a rank wrote none

    bool operator==(const Manifest&) const = default;
};

/// JSON, a line per shard.
std::string print_manifest(const Manifest& manifest);

/// Of the checkpoint at `path`. \throws DamagedCheckpoint if print_manifest did not make the text,
/// UserError if the text is of another format version
Manifest parse_manifest(const std::string& text, const std::string& path);

} // namespace trivium
