#pragma once
// Checkpoints: tensors by global name and box, and the state of the run. They do not depend on the grid: any
// grid can read a checkpoint that another grid wrote. A folder "step-00000100" is either complete or absent:
//
//   shard-00000.h5   written by one rank: a dataset per piece of "param/<name>", "adam_m/<name>", …
//   index.h5         each tensor as a virtual dataset over its pieces
//   manifest.json    the state of the run, sizes and hashes; written last, verified first
//
// docs/checkpoint.md has the whole format.
#include "base/units.hpp"
#include "config/run_config.hpp"
#include "io/checkpoint/mixture_history.hpp"
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

/// Element types of a checkpoint's tensors, in the order of their numbers in the file format.
inline constexpr std::array<DType, 2> stored_types{DType::f32, DType::f64};

/// A box of a tensor on one rank. `data` is its dense row-major content, owned by the caller:
/// CheckpointWriter reads it, CheckpointReader::read fills it.
struct TensorPiece {
    std::string name; ///< of the tensor: "param/blocks.0.wq"
    Shape whole;      ///< of the tensor
    Box box;          ///< the box of the tensor that `data` holds
    DType type = DType::f32;
    void* data = nullptr;
    bool save = true; ///< this rank writes the piece; set on exactly one of its replicas
    /// For a save of content that is not in memory, if `data` is null: fills `to` with bytes
    /// [begin, begin + to.size()) of the content. Called front to back; may throw.
    std::function<void(Bytes begin, std::span<std::byte> to)> fetch{};

    i64 count() const { return element_count(box.shape); } ///< elements
    Bytes bytes() const { return count() * size_of(type); }
};

/// A piece that is the whole tensor.
TensorPiece whole_tensor(std::string name, Shape shape, DType type, void* data);

/// What the evaluations of a run have found of its set checkpoint.best (or, without one, of all).
struct BestLoss {
    std::string set{};     ///< its name; empty: all validation data
    i64 step = 0;          ///< of the lowest loss; 0: there is none yet
    double loss = 0;       ///< there, nats per token
    i64 evaluated = 0;     ///< the step of the last evaluation that counts here; 0: none
    i64 unimproved = 0;    ///< evaluations since then whose loss was no lower
    bool averages = false; ///< the losses are of averaged weights (train.ema)
    std::string data{};    ///< TokenStore::content() of the set, or of each; losses of others do not compare

    bool operator==(const BestLoss&) const = default;
};

/// How often a run went back to a checkpoint (train.rewind), and the samples that it left out by that.
struct Rewinds {
    i64 count = 0, samples = 0;
    i64 from = 0; ///< the step at which it last went back, until the metrics say so; then 0

    bool operator==(const Rewinds&) const = default;
};

/// The progress and the identity of a run.
struct RunState {
    i64 step = 0;    ///< completed steps
    i64 updates = 0; ///< completed steps that updated the parameters (the others were skipped)
    i64 samples = 0; ///< sequences consumed: the next sample's global index
    i64 tokens = 0;  ///< tokens consumed
    i64 seed = 0;
    std::string config{};     ///< the resolved config, as to_toml prints it
    std::string build{};      ///< version of the program that wrote the checkpoint
    std::string tokenizer{};  ///< Tokenizer::fingerprint()
    std::string grid{};       ///< description: "data 2 x pipeline 2 x tensor 2, zero 1"; empty: unknown
    i64 ranks = 0;            ///< of that grid; 0: unknown
    std::string machine{};    ///< name of the machine for which the run was planned
    std::string cost_table{}; ///< hash of that machine's throughputs and sizes
    std::string job{};        ///< id of the job that saved the checkpoint; empty: none
    std::string program{};    ///< ModelProgram::text; empty: a transformer
    std::vector<double> recent_losses{}; ///< nats per token, oldest first; the reference for train.spike_z
    i64 skipped_in_row = 0;              ///< consecutive skipped steps up to this one
    /// Files of the Hugging Face model that this one was imported from (io/hugging_face/files.hpp), by name.
    std::map<std::string, std::string> imported{};
    std::string imported_tokenizer{}; ///< fingerprint of that model's tokenizer; empty: it could not be read
    /// TokenStore::content() of the training and validation data (of each store); empty: none, or unknown.
    std::string data{}, valid{};
    MixtureHistory mixture{}; ///< of the training data
    BestLoss best{};
    Rewinds rewinds{};

    bool operator==(const RunState&) const = default;
};

/// "step-00000100".
std::string checkpoint_name(i64 step);

/// Tensors of these names and a parameter's: the parameter, and its moving average (train.ema).
inline constexpr std::string_view parameter_prefix = "param/", average_prefix = "ema/";

/// Saves the checkpoints of one run to the folder `dir`, which all ranks share. A save is begin(), write(),
/// collect(), publish(), prune(), in this order. write() and publish() do most of the file I/O and use no
/// communicator, so a background thread may call them. `world` must outlive the writer.
class CheckpointWriter {
public:
    /// Collective over `world`. `pieces`: those of this rank. Their boxes are the same in every save; each
    /// write() reads their data. The pieces of all ranks with `save`, except empty ones, must tile each
    /// tensor. Makes `dir`. Throws on all ranks: InternalError if the pieces leave a hole, overlap, or differ
    /// in type or whole shape; IoError.
    CheckpointWriter(Comm& world, const std::string& dir, std::vector<TensorPiece> pieces);
    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;
    ~CheckpointWriter();

    /// Collective: makes the temporary folder of the save. IoError on all ranks.
    void begin(i64 step);
    /// Writes this rank's shard; the data of the pieces must not change meanwhile. Keeps an error for
    /// failed() and collect().
    void write() noexcept;
    bool failed() const; ///< whether write() failed on this rank
    /// Collective, after write() on each rank. If any rank failed, all ranks throw the error of the lowest
    /// failed rank; the temporary folder is removed, and older checkpoints stay.
    void collect();
    /// On rank 0, after collect(): writes index and manifest, renames the folder, and writes dir/latest and,
    /// if state.best is of this step, dir/best. Returns the path of the checkpoint, which is then durable.
    /// IoError; if it occurs before the rename, the temporary folder is removed.
    std::string publish(const RunState& state);
    /// On rank 0, after publish(): removes all checkpoints but the newest `keep` (0: removes none). The new
    /// one, the best, and those of the steps `also` always stay. IoError.
    void prune(i64 keep, const std::vector<i64>& also = {});

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Makes one save. Collective over `world`, with the same state.step; only rank 0 uses the rest of `state`
/// and `keep`. Returns the checkpoint's path. Errors as CheckpointWriter, on all ranks.
std::string save_checkpoint(Comm& world, const std::string& dir, const RunState& state,
                            std::span<const TensorPiece> pieces, i64 keep);

/// For a run that starts at `step` although `dir` contains later checkpoints (of an earlier run, or from
/// before a roll-back): renames the later ones to `.superseded-NAME`, with a warning, so that no restart
/// resumes from them. One rank calls it. IoError.
void supersede_checkpoints(const std::string& dir, i64 step);

/// The checkpoint that dir/best names, "step-00000100"; empty if there is none, or if it does not exist.
std::string best_checkpoint(const std::string& dir);

/// What the checkpoint at `path` records as the best; nothing if it cannot be read.
BestLoss best_recorded_by(const std::string& path);

/// For a run that begins with `best`: makes dir/best name the checkpoint that was saved for it, or removes
/// the file and returns false if `dir` does not contain that. One rank calls it. IoError.
bool mark_best(const std::string& dir, const BestLoss& best);

/// Makes `dir` and writes a test file there. One rank calls it. IoError if `dir` is not writable.
void probe_folder(const std::string& dir);

/// Removes the checkpoint `name` of `dir`: renames it first, so that a partly removed one is not taken for a
/// checkpoint. IoError.
void remove_checkpoint(const std::string& dir, const std::string& name);

/// Whether `path` is a checkpoint, complete or not: by its name or its manifest.
bool looks_like_checkpoint(const std::string& path);

/// The newest checkpoint in the folder `path`, complete or not; `path` itself if it contains none. DIR/best
/// and DIR/latest are the checkpoints that these files name; "best" alone is checkpoints/best.
std::string newest_checkpoint(const std::string& path);

/// The step in the name of the checkpoint `path`; 0 if it has another name.
i64 checkpoint_step(const std::string& path);

/// Names of the checkpoints in `dir`, newest first, including incomplete and damaged ones. Empty if `dir`
/// does not exist. UserError if it is a file; IoError.
std::vector<std::string> list_checkpoints(const std::string& dir);

/// A checkpoint, open for reading. Not thread-safe: const functions share open files and caches.
class CheckpointReader {
public:
    struct Entry {
        std::string name;
        Shape shape;
        DType type;
        i64 pieces; ///< number of stored pieces
    };

    /// `path`: the folder of the checkpoint itself. Reads the manifest and opens the index. Shards are
    /// opened, and their blocks verified, when a read first touches them. UserError if there is no
    /// checkpoint, or one of an unsupported version; DamagedCheckpoint (a UserError, io/files/damaged.hpp) if
    /// it differs from what was written; IoError.
    static CheckpointReader open(const std::string& path);
    CheckpointReader(CheckpointReader&&) noexcept;
    ~CheckpointReader();

    const std::string& path() const;
    const RunState& state() const;
    std::vector<Entry> tensors() const; ///< sorted by name
    bool has(const std::string& name) const;
    /// From now on reads of `param/NAME` give the moving average `ema/NAME` of a parameter that has one.
    /// UserError if the checkpoint has no averages.
    void read_averages() const;
    i64 version() const; ///< of the file format
    Bytes bytes() const; ///< size of all files but the manifest
    i64 shards() const;  ///< number of shards

    /// Fills into.data from the stored pieces that intersect into.box, and converts between f32 and f64.
    /// Verifies the blocks that it reads; its buffers have the size of a few blocks. Ignores into.save.
    /// UserError if there is no such tensor (names the nearest), or if its whole shape differs;
    /// DamagedCheckpoint; IoError. \pre the box is inside the tensor, into.type is f32 or f64
    void read(const TensorPiece& into) const;
    /// Reads `count` values of tensor `name`, from flattened index `begin`, as `type`. Errors as above. \pre
    /// the range is inside the tensor, `type` is f32 or f64
    void read(const std::string& name, i64 begin, i64 count, DType type, void* data) const;

    /// Verifies everything but the tensors' data: index, shard headers, sizes. Cheap. `parts` callers, such
    /// as the ranks, divide the work: each passes its number as `part`. DamagedCheckpoint, IoError.
    void check(i64 part = 0, i64 parts = 1) const;
    /// Verifies every byte, and that HDF5 finds the same datasets; divided as in check(). DamagedCheckpoint;
    /// UserError if HDF5 cannot open a dataset; IoError.
    void verify(i64 part = 0, i64 parts = 1) const;

private:
    struct Impl;
    explicit CheckpointReader(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// Reads the tensors that a rank needs from a checkpoint.
using UseCheckpoint = std::function<void(const CheckpointReader&)>;

/// Restores from `path`, a checkpoint, a folder of checkpoints, or DIR/best (newest_checkpoint()). Collective
/// over `world`; returns the path of the checkpoint on all ranks. Calls check() and then `use` with each
/// candidate, newest first, until no rank finds damage or bytes that cannot be read; so `use` may run several
/// times. Rank 0 warns about damaged candidates. Does not modify the folder. Throws on all ranks: UserError
/// if there is no checkpoint or all are damaged, and other errors of `use`. `key`: the config key that names
/// the path, for messages.
std::string restore_from(Comm& world, const std::string& path, const UseCheckpoint& use,
                         const std::string& key = "");

/// Restores from the newest good checkpoint in `dir` of a step that is `wanted`; nullopt if there is none.
/// Collective over `world`; returns its path on all ranks. All ranks verify a candidate before any calls
/// `use`. Rank 0 warns about damaged candidates. Does not modify the folder. Throws errors of `use` and
/// IoError on all ranks.
std::optional<std::string> restore_wanted(Comm& world, const std::string& dir,
                                          const std::function<bool(i64 step)>& wanted,
                                          const UseCheckpoint& use);

/// "best" is DIR/best of the folder `dir`; other paths are themselves.
std::string path_of_checkpoint(const std::string& path, const std::string& dir);

/// The path that config.resume names. UserError if it is "best" and there is no such checkpoint.
/// \pre neither "auto" nor "never"
std::string resumed_path(const CheckpointConfig& config);

/// Resumes from a checkpoint of the run; nullopt if there is none. Collective over `world`. config.resume:
/// "never"; "best": dir/best; "auto": the newest undamaged checkpoint in config.dir (renames newer, damaged
/// ones to
/// `.bad-NAME`, and removes files of interrupted saves); or a path for restore_from(). Errors as
/// restore_from().
std::optional<std::string> restore_newest(Comm& world, const CheckpointConfig& config,
                                          const UseCheckpoint& use);

} // namespace trivium
