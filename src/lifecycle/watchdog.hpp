#pragma once
// A watchdog on every rank: a thread that tells two monitors, twice a second and past all communicators, what
// its rank is at. A monitor that finds the run hung says which ranks, in which operation, waiting for whom,
// and ends the run; one of `train` with status 75, so that it is started again. The first monitor is rank 0;
// the second, the last rank, speaks only when rank 0 is silent. Where both are, the first rank that gets no
// further itself does. Rank 0's passes on to it what other ranks were signalled, idle ones too, and says so
// at once, wherever the run is.
#include "lifecycle/hang.hpp"
#include "lifecycle/signals.hpp"
#include "mpi/side_channel.hpp"

#include <atomic>
#include <mutex>
#include <thread>

namespace trivium {

class Watchdog {
public:
    struct Config {
        Seconds limit = 30;      ///< job.watchdog; 0: only signals are watched for
        double much_longer = 20; ///< times the limit that a rank may work at one thing while all others wait
        std::string
            log_dir{}; ///< where hang.txt takes the diagnosis too, and launches.jsonl the end; empty: nowhere
        int status = 75; ///< that a hung run ends with
        std::string remedy = "it ends with status 75 and goes on from its newest checkpoint when started "
                             "again; where the same node is named again, leave that out";
    };

    /// All ranks of `world` make one; `signals` outlives it, null: none are watched for. Where a rank gets no
    /// socket, a warning says so.
    Watchdog(Comm& world, const RunSignals* signals, Config config);
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
    ~Watchdog(); ///< tells the monitors that this rank has left

    /// From now on.
    void configure(Config config);

private:
    void run();
    void tell();
    void assure();
    void listen(Seconds limit);
    void take(int from, const std::string& text);
    void judge();
    void judge_monitors();
    Config config() const;
    [[noreturn]] void end_run(const Diagnosis& diagnosis);
    bool is_monitor() const { return rank_ == monitors_.front() || rank_ == monitors_.back(); }

    mutable std::mutex mutex_;
    Config config_; ///< under mutex_
    const RunSignals* signals_;
    int rank_, ranks_;
    std::string node_;
    std::vector<int> monitors_;
    std::optional<SideChannel> channel_; ///< none for one rank
    std::atomic<bool> over_{false};

    // The thread's own.
    u64 progress_ = 0;
    Seconds progressed_ = 0, told_ = 0;
    Seconds monitored_ = -1,
            assured_ =
                0; ///< when a monitor was last heard (-1: not yet); when this one last said that it is there
    struct Heard {
        Seconds at = 0, stalled = 0;
        bool at_all = false, left = false, signalled = false;
        RankNews news{};
    };
    std::vector<Heard> heard_; ///< by rank, on monitors
    std::string slow_said_;    ///< the cause
    bool deaf_said_ = false;

    std::thread thread_; ///< last: it uses all the others
};

} // namespace trivium
