#pragma once
// The checkpoints of a training run, written while it goes on.
//
// A save copies what this rank writes into a snapshot, whose memory is planned, while the next step computes:
// parameters and moments change only in a step's updates, and those wait for the copy. A thread then writes
// the shard. It touches no communicator: that all ranks have written, or that one has failed, is agreed on
// between steps, and rank 0's thread gives the checkpoint its name.
#include "train/state.hpp"

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace trivium {

struct SaverConfig {
    std::string dir;
    i64 keep = 2;            ///< least two, or 0: all
    bool snapshot = false;   ///< copy before writing
    bool background = false; ///< and write while training goes on; all ranks alike
    std::function<void()>
        before_publishing{}; ///< on rank 0, in the background too: what has to be on the disk first
};

/// How many checkpoints stay; 0: all. Never one alone, as the newest may turn out to be bad.
i64 kept_checkpoints(const CheckpointConfig& config);

/// What this rank writes in a save.
Bytes bytes_to_write(const std::vector<SavedTensor>& tensors);

/// Throws IoError, on all ranks, where the disk has no room for a save; rank 0 warns where it has too little
/// for those to come from `step` on. All ranks of `world` call it.
void require_space(Comm& world, const RunConfig& config, i64 step, const std::vector<SavedTensor>& tensors);

class Saver {
public:
    /// Bits of flags().
    static constexpr u64 busy = u64{1} << 40, failed = u64{1} << 41;

    /// All ranks of `world` make one. `tensors` outlive it. Errors as CheckpointWriter's.
    Saver(Comm& world, const SaverConfig& config, std::vector<SavedTensor>& tensors);
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;
    ~Saver(); ///< waits for this rank's writing; a save that was not finished is none

    /// Begins to save, or saves, if not in the background. Waits for the save before. All ranks call it.
    /// IoError on all.
    void start(const RunState& state);
    /// Before the arena's parameters and moments change.
    void wait_for_snapshot();
    /// What all ranks have to know between steps.
    u64 flags() const;
    /// Takes the save further; `agreed`: all ranks' flags. All ranks call it. Throws, on all, what went
    /// wrong.
    void advance(u64 agreed);
    /// Waits until what was begun is a checkpoint, and the old ones are gone. All ranks call it. Errors as
    /// advance().
    void finish();

    /// Of the last save that ended; 0 before, and after it was told.
    struct Times {
        Seconds whole = 0; ///< from its begin until it was on the disk
        Seconds stall = 0; ///< for which training waited
    };
    Times take_times() { return std::exchange(times_, {}); }

private:
    enum class Phase { idle, writing, publishing, pruning };

    void take_snapshot();
    void run_in_background(std::function<void()> work);
    void join();
    /// Rank 0's part of a phase, on its thread.
    void begin_on_first(Phase phase, std::function<void()> work);
    /// Throws what it met, on all.
    void end_on_first();
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
    std::atomic<bool> done_{true}; ///< the thread's work
    std::promise<void> taken_promise_;
    std::future<void> taken_;                     ///< the snapshot is
    std::exception_ptr failure_;                  ///< of rank 0's work
    std::string path_;                            ///< on rank 0, of what was published
    Seconds begun_ = 0, stall_ = 0, entered_ = 0; ///< the save at hand, its waits, the call that waits now
    Times times_;
};

} // namespace trivium
