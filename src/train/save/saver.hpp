#pragma once
// Writes the checkpoints of a training run while it continues.
//
// A save copies the rows that this rank writes into a snapshot, whose memory is planned: on a device before
// start() returns, on the host while the next step computes. Parameters and moments change only in a step's
// updates, which wait for the copy. A thread then writes the shard. It uses no communicator: between steps
// the ranks agree whether all have written or one has failed, and rank 0's thread publishes the checkpoint.
#include "train/save/saved_tensors.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace trivium {

struct SaverConfig {
    std::string dir;
    i64 keep = 2;            ///< at least 2, or 0: all
    i64 always_every = 0;    ///< if above 0, the newest of a step that it divides is kept, too
    bool snapshot = false;   ///< copy to host memory before writing
    bool background = false; ///< write while training continues; the same on all ranks
    std::function<void()> before_publishing{}; ///< on rank 0, possibly in the background: makes other files
                                               ///< durable that must precede the checkpoint
};

/// Number of checkpoints to keep; 0: all. At least two, because the newest may turn out to be damaged.
i64 kept_checkpoints(const CheckpointConfig& config);

/// Bytes that this rank writes in a save.
Bytes bytes_to_write(const std::vector<SavedTensor>& tensors);

/// Collective over `world`. Throws IoError, on all ranks, if the disk has too little space for one save; rank
/// 0 warns if it has too little for all saves after `step` that exist at the same time.
void require_space(Comm& world, const RunConfig& config, i64 step, const std::vector<SavedTensor>& tensors);

class Saver {
public:
    /// Bits of flags().
    static constexpr u64 busy = u64{1} << 40, failed = u64{1} << 41;

    /// Collective over `world`, which must outlive it, as must `tensors`. Errors as CheckpointWriter.
    Saver(Comm& world, const SaverConfig& config, std::vector<SavedTensor>& tensors);
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;
    ~Saver(); ///< waits for this rank's thread; an unfinished save does not become a checkpoint

    /// Collective: starts a save in the background, or saves and returns when it is durable. Waits for the
    /// previous save. Throws IoError on all ranks.
    void start(const RunState& state);
    /// Waits until the snapshot is taken. Call it before the parameters and moments in the arena change.
    void wait_for_snapshot();
    /// State of this rank's save: `busy`, `failed` or 0; to be combined over all ranks by bitwise or between
    /// steps.
    u64 flags() const;
    /// Collective: continues the save; `agreed`: the flags of all ranks. Throws the save's error on all
    /// ranks.
    void advance(u64 agreed);
    /// Collective: waits until the save is committed and old checkpoints are removed. Errors as advance().
    void finish();

    /// Times of the last completed save; 0 before that, and after take_times().
    struct Times {
        Seconds whole = 0; ///< from start() until the checkpoint was durable
        Seconds stall = 0; ///< time for which training waited
    };
    Times take_times() { return std::exchange(times_, {}); }

private:
    enum class Phase { idle, writing, publishing, pruning };

    void take_snapshot();
    void run_in_background(std::function<void()> work);
    void join();
    /// Begins rank 0's work in a phase, on its thread.
    void begin_on_first(Phase phase, std::function<void()> work);
    /// Waits for the thread, and throws its error on all ranks.
    void end_background();
    void end_writing();
    void end_publishing();

    Comm& world_;
    SaverConfig config_;
    std::vector<SavedTensor>& tensors_;
    std::vector<std::byte> snapshot_;
    std::optional<CheckpointWriter> writer_;
    Phase phase_ = Phase::idle;
    RunState state_;
    std::thread thread_;
    std::atomic<bool> done_{true}; ///< the thread's work is done
    std::promise<void> taken_promise_;
    std::future<void> taken_;    ///< ready when the snapshot is taken
    std::exception_ptr failure_; ///< of the thread's work
    std::string path_;           ///< on rank 0: the published checkpoint
    struct Returns {
        i64 step = 0, best = 0;
    } returns_; ///< on rank 0: the step to which the run would go back, and the best one then; 0: none
    Seconds begun_ = 0, stall_ = 0,
            entered_ = 0; ///< start of the current save, its waits, start of the current wait
    Times times_;
};

} // namespace trivium
