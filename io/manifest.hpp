#pragma once
// manifest.json of a checkpoint: which files it has, and where in them the pieces of each tensor lie.
#include "io/checkpoint.hpp"

namespace trivium {

inline constexpr const char* checkpoint_kind = "trivium checkpoint";
inline constexpr i64 checkpoint_version = 2;
inline constexpr const char* state_file = "state.h5";
inline constexpr const char* manifest_file = "manifest.json";

/// "shard-00003.h5", which rank 3 writes.
std::string shard_file(int rank);

struct Manifest {
    struct File {
        std::string name; ///< state.h5 or shard-NUMBER.h5, beside the manifest
        Bytes bytes = 0;
        std::string xxh64;
    };
    struct Piece {
        std::string file;
        std::string dataset; ///< the tensor's name, or NAME@1, NAME@2, … where a file has several boxes of it
        Box box;
    };
    struct Tensor {
        std::string name;
        StoredType type = StoredType::f32;
        Shape shape;
        std::vector<Piece> pieces;
    };

    i64 version = checkpoint_version;
    i64 step = 0;
    std::vector<File> files;
    std::vector<Tensor> tensors; ///< sorted by name; none in version 1, whose state.h5 lists them
};

/// JSON, a line per file and tensor.
std::string print_manifest(const Manifest& manifest);

/// Of the checkpoint at `path`. UserError where the text is no manifest, or one of a version that this program does
/// not read, or claims what cannot be: names of other places, boxes outside of their tensor or larger than their
/// file, tensors with holes or overlaps.
Manifest parse_manifest(const std::string& text, const std::string& path);

/// Throws the UserError of a checkpoint that is not as it was written.
[[noreturn]] void throw_damaged_checkpoint(const std::string& path, const std::string& problem);

/// One manifest of what each rank has written; InternalError where ranks differ about a tensor or its pieces do not
/// tile it. `parts`: by rank, as print_manifest gives them.
Manifest merge_manifests(const std::vector<std::string>& parts);

} // namespace trivium
