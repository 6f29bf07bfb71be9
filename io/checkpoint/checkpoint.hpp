#pragma once
// Checkpoints: tensors by global name and box, and the state of the run. A checkpoint knows tensors, not
// ranks: any grid writes it, any other reads it. A folder "step-00000100" is complete or absent:
//
//   shard-00000.h5   what one rank wrote: a dataset per piece of "param/<name>", "adam_m/<name>", …
//   index.h5         each tensor as a virtual dataset over its pieces
//   manifest.json    the state of the run, sizes and hashes; written last, verified first
//
// docs/checkpoint.md has the whole format.
#include "base/units.hpp"
#include "config/run_config.hpp"
#include "ir/mesh.hpp"
#include "mpi/comm.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trivium {

/// Element types of a checkpoint's tensors; the file format numbers them in this order.
inline constexpr std::array<DType, 2> stored_types{DType::f32, DType::f64};

/// A box of a tensor. `data` is its dense row-major content, owned by the caller; a save reads it, and
/// CheckpointReader::read fills it.
struct TensorPiece {
    std::string name; ///< of the tensor: "param/blocks.0.wq"
    Shape whole;      ///< of the tensor
    Box box;          ///< which part of it `data` is
    DType type = DType::f32;
    void* data = nullptr;
    bool save = true; ///< this rank writes it: of a piece that several ranks hold, one does
    /// For a save of what is not in memory, where `data` is null: gives bytes [begin, begin + to.size()) of
    /// the content; called front to back. It may throw.
    std::function<void(Bytes begin, std::span<std::byte> to)> fetch{};

    i64 count() const { return element_count(box.shape); } ///< elements
    Bytes bytes() const { return count() * size_of(type); }
};

/// All of a tensor.
TensorPiece whole_tensor(std::string name, Shape shape, DType type, void* data);

/// The progress of a run, and what it is a run of.
struct RunState {
    i64 step = 0;    ///< steps done
    i64 updates = 0; ///< of these, with an update (the others were skipped)
    i64 samples = 0; ///< sequences consumed: the next sample's global index
    i64 tokens = 0;  ///< tokens consumed
    i64 seed = 0;
    std::string config{};    ///< the resolved config, as to_toml prints it
    std::string build{};     ///< version of the program that wrote it
    std::string tokenizer{}; ///< fingerprint
    std::string
        grid{}; ///< that wrote it: "data 2 x pipeline 2 x tensor 2, zero 1"; for people, empty where unknown
    i64 ranks = 0;                       ///< of that grid; 0 where unknown
    std::string machine{};               ///< that it was planned for
    std::string cost_table{};            ///< hash of that machine's rates and sizes
    std::string job{};                   ///< of the cluster, that saved it; empty: none
    std::vector<double> recent_losses{}; ///< nats per token, oldest first: what train.spike_z compares with
    i64 skipped_in_row = 0;              ///< steps up to this one
    std::map<std::string, std::string> imported{}; ///< settings of the model that this one was imported as,
                                                   ///< by file name (io/hugging_face/files.hpp)
    std::string imported_tokenizer{}; ///< fingerprint of that model's; empty: it could not be read
    std::string data{},
        valid{}; ///< TokenStore::content() of what it is trained and validated on; empty: none, or not known

    bool operator==(const RunState&) const = default;
};

/// "step-00000100".
std::string checkpoint_name(i64 step);

/// The saves of one run into the folder `dir`, which all ranks share. Each rank's share of a save is written
/// by write() and publish() alone, which touch no communicator, so that a thread of its own may call them.
class CheckpointWriter {
public:
    /// All ranks of `world` make one, each with the pieces that it holds: where they lie is the same in every
    /// save, what `data` points to is read anew. Those with `save` must tile each tensor, empty ones aside.
    /// Makes `dir`. Throws on all ranks alike: InternalError if the pieces leave a hole, overlap, or
    /// differ in type or whole shape; IoError.
    CheckpointWriter(Comm& world, const std::string& dir, std::vector<TensorPiece> pieces);
    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;
    ~CheckpointWriter();

    /// All ranks call it: makes the folder that the save is written to before it gets its name. IoError on
    /// all.
    void begin(i64 step);
    /// This rank's shard. What goes wrong is for collect(), and for failed().
    void write() noexcept;
    bool failed() const;
    /// All ranks call it, each after its write(): on any rank's failure all throw what the lowest failing one
    /// met, no folder of the checkpoint's name appears, and older checkpoints stay.
    void collect();
    /// Rank 0 calls it: index, manifest, name, the marker dir/latest. Returns the path: from then on it is a
    /// checkpoint, and on the disk. IoError, and then the folder is gone.
    std::string publish(const RunState& state);
    /// Rank 0 calls it, after publish(): removes all but the newest `keep` (0: none); the new one always
    /// stays. IoError.
    void prune(i64 keep);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// One save in one go. All ranks of `world` call it at the same state.step; the rest of `state`, and `keep`,
/// are rank 0's. Returns the checkpoint's path. Errors as CheckpointWriter's, on all ranks.
std::string save_checkpoint(Comm& world, const std::string& dir, const RunState& state,
                            std::span<const TensorPiece> pieces, i64 keep);

/// For a run that starts at `step` although `dir` holds later checkpoints (of another beginning, or from
/// before a roll-back): moves those aside, to `.superseded-NAME`, so that no restart takes them for this
/// run's. Says so. One rank calls it.
void supersede_checkpoints(const std::string& dir, i64 step);

/// Makes `dir` and shows that it can be written to. One rank calls it. IoError if it cannot.
void probe_folder(const std::string& dir);

/// Removes the checkpoint `name` of `dir`; should it be cut short, what is left looks like none. IoError.
void remove_checkpoint(const std::string& dir, const std::string& name);

/// Whether `path` is a checkpoint, complete or not: by its name or its manifest.
bool looks_like_checkpoint(const std::string& path);

/// The newest checkpoint of the folder `path`, complete or not; `path` itself if it holds none.
std::string newest_checkpoint(const std::string& path);

/// The step in the name of the checkpoint `path`; 0 if it has no such name.
i64 checkpoint_step(const std::string& path);

/// Checkpoints of `dir` by name, newest first; complete or not, good or not. Empty where there is no such
/// folder. UserError if it is a file, IoError.
std::vector<std::string> list_checkpoints(const std::string& dir);

class CheckpointReader {
public:
    struct Entry {
        std::string name;
        Shape shape;
        DType type;
        i64 pieces; ///< that it is stored in
    };

    /// `path`: the checkpoint's own folder. Reads the manifest and opens the index; shards are opened, and
    /// blocks of them verified, when a read first touches them. UserError if there is none, or one of a
    /// version that this program does not read; DamagedCheckpoint (a UserError, io/files/damaged.hpp) where
    /// it is not as it was written; IoError.
    static CheckpointReader open(const std::string& path);
    CheckpointReader(CheckpointReader&&) noexcept;
    ~CheckpointReader();

    const std::string& path() const;
    const RunState& state() const;
    std::vector<Entry> tensors() const; ///< sorted by name
    bool has(const std::string& name) const;
    i64 version() const; ///< of the format
    Bytes bytes() const; ///< on disk, without the manifest
    i64 shards() const;  ///< files with tensors

    /// Fills into.data from the stored pieces that intersect into.box; f32 and f64 convert. Verifies the
    /// blocks that it reads, and holds nothing larger than a few of them besides. `save` does not matter.
    /// UserError: no such tensor (names the nearest), another whole shape; DamagedCheckpoint; IoError. \pre
    /// the box is in it
    void read(const TensorPiece& into) const;
    /// `count` values from flattened index `begin` of tensor `name` on, as `type`.
    void read(const std::string& name, i64 begin, i64 count, DType type, void* data) const;

    /// Checks all but the tensors' data, or this part of it: index and headers, sizes. Little is read for it.
    /// DamagedCheckpoint, IoError.
    void check(i64 part = 0, i64 parts = 1) const;
    /// Checks every byte, or this part of them: with parts 0 to parts - 1 (of as many ranks) all are checked.
    /// DamagedCheckpoint, IoError.
    void verify(i64 part = 0, i64 parts = 1) const;

private:
    struct Impl;
    explicit CheckpointReader(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// What a rank reads of a checkpoint.
using UseCheckpoint = std::function<void(const CheckpointReader&)>;

/// Restores from `path`, a checkpoint or a folder of them. All ranks of `world` call it and get the same
/// answer, the path of the checkpoint. `use` gets each candidate, on all ranks, and reads what it needs; it
/// may do so more than once: where a rank finds damage, in what it reads or in its share of what nobody
/// reads, all continue with the checkpoint before, and rank 0 warns. Changes nothing on the disk. UserError,
/// on all ranks, where there is none, or where all that exist are bad; and what else `use` throws.
std::string restore_from(Comm& world, const std::string& path, const UseCheckpoint& use);

/// Resumes from the run's own checkpoint, if there is one. config.resume: "never"; "auto": the newest good
/// one of config.dir, whose bad ones are set aside then (renamed to `.bad-NAME`); or a path, as
/// restore_from() takes it.
std::optional<std::string> restore_newest(Comm& world, const CheckpointConfig& config,
                                          const UseCheckpoint& use);

} // namespace trivium
