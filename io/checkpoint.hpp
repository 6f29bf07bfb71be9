#pragma once
// Checkpoints: tensors by global name, and the state of the run. A folder "step-00000100" is complete or absent:
//
//   state.h5       one dataset per tensor, "param/<name>", "adam_m/<name>", "adam_v/<name>"; the run state
//   manifest.json  the format, each file's size and xxHash64; written last
#include "base/units.hpp"
#include "config/run_config.hpp"

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

/// One whole tensor, row-major, owned by the caller. `data` is only read by save_checkpoint and written by
/// CheckpointReader::read.
struct TensorView {
    std::string name; ///< "param/blocks.0.wq"
    std::vector<i64> shape;
    StoredType type = StoredType::f32;
    void* data = nullptr;

    i64 count() const; ///< elements
    Bytes bytes() const { return count() * size_of(type); }
};

/// Where a run stands.
struct RunState {
    i64 step = 0;          ///< steps done
    i64 updates = 0;       ///< of these, with an update (the others were skipped)
    i64 samples = 0;       ///< sequences consumed: the next sample's global index
    i64 tokens = 0;        ///< tokens consumed
    i64 seed = 0;
    std::string config;    ///< the resolved config, as to_toml prints it
    std::string build;     ///< version of the program that wrote it
    std::string tokenizer; ///< fingerprint

    bool operator==(const RunState&) const = default;
};

/// "step-00000100".
std::string checkpoint_name(i64 step);

/// Writes the checkpoint `state.step` into the folder `dir`, then the marker dir/latest, then removes all but the
/// newest `keep` (0: keeps all; the new one always stays). One process calls it. Returns the checkpoint's path.
/// IoError where writing fails; then no folder of that name appears and older checkpoints stay.
std::string save_checkpoint(const std::string& dir, const RunState& state, std::span<const TensorView> tensors,
                            i64 keep);

/// For a run that starts at `step` although `dir` holds later checkpoints (of another beginning, or from before a
/// roll-back): moves those aside, to `.superseded-NAME`, so that no restart takes them for this run's. Says so.
void supersede_checkpoints(const std::string& dir, i64 step);

/// Makes `dir` and shows that it can be written to. IoError where not.
void probe_folder(const std::string& dir);

/// Checkpoints of `dir` by name, newest first; complete or not, good or not. Empty where there is no such folder.
std::vector<std::string> list_checkpoints(const std::string& dir);

class CheckpointReader {
public:
    struct Entry {
        std::string name;
        std::vector<i64> shape;
        StoredType type;
    };

    /// `path`: the checkpoint's own folder. UserError where it is missing, incomplete, of another version,
    /// truncated, or not the bytes that were written (`check_hash`).
    static CheckpointReader open(const std::string& path, bool check_hash = true);
    CheckpointReader(CheckpointReader&&) noexcept;
    ~CheckpointReader();

    const std::string& path() const;
    const RunState& state() const;
    const std::vector<Entry>& tensors() const; ///< sorted by name
    bool has(const std::string& name) const;
    Bytes bytes() const; ///< on disk

    /// Fills into.data; f32 and f64 convert. UserError: no such tensor (names the nearest), another shape.
    void read(const TensorView& into) const;
    /// `count` values from flattened index `begin` of tensor `name` on, as `type`.
    void read(const std::string& name, i64 begin, i64 count, StoredType type, void* data) const;

private:
    struct Impl;
    explicit CheckpointReader(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// The checkpoint to go on from, if any. config.resume: "never"; "auto": the newest good one of config.dir, with a
/// warning for each bad one; or a path, of a checkpoint or of a folder of them.
/// UserError where a path was given and has none, or where all that exist are bad.
std::optional<std::string> find_resume(const CheckpointConfig& config);

} // namespace trivium
