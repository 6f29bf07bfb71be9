#pragma once
// Checkpoints: tensors by global name and box, and the state of the run. A checkpoint knows tensors, not ranks: any
// grid writes it, any other reads it. A folder "step-00000100" is complete or absent:
//
//   state.h5         the run state
//   shard-00000.h5   what one rank wrote: a dataset per piece of "param/<name>", "adam_m/<name>", "adam_v/<name>", …
//   manifest.json    the format, each file's size and xxHash64, each tensor's pieces; written last
//
// Version 1, one process's, had whole tensors in state.h5; it reads like any other.
#include "base/units.hpp"
#include "config/run_config.hpp"
#include "ir/mesh.hpp"
#include "mpi/comm.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trivium {

/// Element types in a checkpoint. (StoredType is the name of the graph's types in src/ir/type.hpp.)
enum class StoredType { f32, f64 };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<StoredType>{"f32", "f64"};
constexpr Bytes size_of(StoredType type) { return type == StoredType::f32 ? 4 : 8; }

/// A box of a tensor: `data` is its dense row-major content, owned by the caller; save_checkpoint reads it and
/// CheckpointReader::read fills it.
struct TensorPiece {
    std::string name; ///< of the tensor: "param/blocks.0.wq"
    Shape whole;      ///< of the tensor
    Box box;          ///< which part of it `data` is
    StoredType type = StoredType::f32;
    void* data = nullptr;
    bool save = true; ///< this rank writes it: of a piece that several ranks hold, one does

    i64 count() const { return element_count(box.shape); } ///< elements
    Bytes bytes() const { return count() * size_of(type); }
};

/// All of a tensor.
TensorPiece whole_tensor(std::string name, Shape shape, StoredType type, void* data);

/// Where a run stands.
struct RunState {
    i64 step = 0;          ///< steps done
    i64 updates = 0;       ///< of these, with an update (the others were skipped)
    i64 samples = 0;       ///< sequences consumed: the next sample's global index
    i64 tokens = 0;        ///< tokens consumed
    i64 seed = 0;
    std::string config{};    ///< the resolved config, as to_toml prints it
    std::string build{};     ///< version of the program that wrote it
    std::string tokenizer{}; ///< fingerprint
    std::string grid{};      ///< that wrote it: "data 2 x pipeline 2 x tensor 2, zero 1"; for people, empty where unknown
    i64 ranks = 0;           ///< of that grid; 0 where unknown

    bool operator==(const RunState&) const = default;
};

/// "step-00000100".
std::string checkpoint_name(i64 step);

/// Writes the checkpoint `state.step` into the folder `dir`, which all ranks share, then the marker dir/latest, then
/// removes all but the newest `keep` (0: keeps all; the new one always stays). All ranks of `world` call it at the
/// same state.step, each with the pieces that it holds; the rest of `state`, and `keep`, are rank 0's. Those with
/// `save` must tile each tensor, empty ones aside. Returns the checkpoint's path.
/// On any rank's failure all throw what the lowest failing rank met, no folder of that name appears and older
/// checkpoints stay: IoError where writing fails, InternalError where the pieces of a tensor leave a hole, overlap, or
/// differ in type or whole shape.
std::string save_checkpoint(Comm& world, const std::string& dir, const RunState& state,
                            std::span<const TensorPiece> pieces, i64 keep);

/// For a run that starts at `step` although `dir` holds later checkpoints (of another beginning, or from before a
/// roll-back): moves those aside, to `.superseded-NAME`, so that no restart takes them for this run's. Says so.
/// One rank calls it.
void supersede_checkpoints(const std::string& dir, i64 step);

/// Makes `dir` and shows that it can be written to. One rank calls it. IoError where not.
void probe_folder(const std::string& dir);

/// Checkpoints of `dir` by name, newest first; complete or not, good or not. Empty where there is no such folder.
std::vector<std::string> list_checkpoints(const std::string& dir);

class CheckpointReader {
public:
    struct Entry {
        std::string name;
        Shape shape;
        StoredType type;
        i64 pieces; ///< that it is stored in
    };

    /// `path`: the checkpoint's own folder. Checks the manifest, the files' sizes, and the run state; other files are
    /// opened, and with `check_hash` checked, when a read first touches them.
    /// UserError where it is missing, incomplete, of another version, truncated, or inconsistent.
    static CheckpointReader open(const std::string& path, bool check_hash = true);
    CheckpointReader(CheckpointReader&&) noexcept;
    ~CheckpointReader();

    const std::string& path() const;
    const RunState& state() const;
    const std::vector<Entry>& tensors() const; ///< sorted by name
    bool has(const std::string& name) const;
    i64 version() const; ///< of the format
    Bytes bytes() const; ///< on disk, without the manifest
    i64 shards() const;  ///< files with tensors

    /// Fills into.data from all stored pieces that intersect into.box; f32 and f64 convert. Holds nothing larger
    /// than a bounded buffer besides. `save` is of no matter.
    /// UserError: no such tensor (names the nearest), another whole shape, a damaged file. \pre the box is in it
    void read(const TensorPiece& into) const;
    /// `count` values from flattened index `begin` of tensor `name` on, as `type`.
    void read(const std::string& name, i64 begin, i64 count, StoredType type, void* data) const;

    /// Checks every `parts`th file from `part` on: its hash, and that it has the pieces that the manifest claims.
    /// With parts 0 to parts - 1 (of as many ranks) all are checked. UserError where one is bad.
    void verify(i64 part = 0, i64 parts = 1) const;

private:
    struct Impl;
    explicit CheckpointReader(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// The checkpoint to go on from, if any. config.resume: "never"; "auto": the newest good one of config.dir, with a
/// warning for each bad one; or a path, of a checkpoint or of a folder of them. Every file of it has been verified.
/// All ranks of `world` call it and divide the files among them; all get the same answer. Rank 0 alone warns.
/// UserError, on all ranks, where a path was given and has none, or where all that exist are bad.
std::optional<std::string> find_resume(Comm& world, const CheckpointConfig& config);
/// The same for one process.
std::optional<std::string> find_resume(const CheckpointConfig& config);

} // namespace trivium
