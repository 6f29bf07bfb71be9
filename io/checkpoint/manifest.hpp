#pragma once
// manifest.json of a checkpoint: the state of the run, and size and hashes of every file. Its last line is
// the hash of the text before it. It is verified first; HDF5 opens no file before that.
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/index.hpp"
#include "io/checkpoint/shard.hpp"

namespace trivium {

inline constexpr const char* checkpoint_kind = "trivium checkpoint";
inline constexpr i64 checkpoint_version = 1;
inline constexpr const char* manifest_file = "manifest.json";
/// Limit on the manifest: a run of 100 000 ranks has one of about 12 MB.
inline constexpr Bytes max_manifest_bytes = Bytes{64} << 20;

struct Manifest {
    RunState state;
    Bytes block_bytes = default_block_bytes;
    IndexPlace index;
    std::vector<Shard> shards; ///< by rank; 0 bytes if the rank wrote none

    bool operator==(const Manifest&) const = default;
};

/// JSON with one line per shard.
std::string print_manifest(const Manifest& manifest);

/// `path`: the folder of the checkpoint, for messages. \throws DamagedCheckpoint if the text is not what
/// print_manifest wrote, UserError if it has another format version
Manifest parse_manifest(const std::string& text, const std::string& path);

} // namespace trivium
