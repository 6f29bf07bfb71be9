#pragma once
// A watchdog on every rank: a thread that reports its rank's state to two monitors twice a second, over
// datagrams outside of MPI. A monitor that detects a hang prints which ranks hang, in which operation, and
// which ranks they wait for, and ends the run; `train` ends with status 75, so that the job is requeued. The
// first monitor is rank 0. The second, the last rank, acts only when rank 0 is silent or done. If both are
// silent, the first other rank without progress acts. Rank 0's watchdog also raises, and logs at once,
// signals that other ranks, idle ones included, have received.
#include "lifecycle/hang.hpp"
#include "lifecycle/signals.hpp"
#include "mpi/launch/side_channel.hpp"

#include <atomic>
#include <mutex>
#include <thread>

namespace trivium {

class Watchdog {
public:
    struct Config {
        Seconds limit = 30; ///< job.watchdog; 0: watches only for signals
        /// Times the limit that a rank may compute in one operation while all others wait.
        double much_longer = 20;
        std::string
            log_dir{};   ///< also gets the diagnosis (hang.txt) and the end (launches.jsonl); empty: neither
        int status = 75; ///< exit status of a hung run
        std::string remedy =
            "the run ends with status 75 and resumes from its newest checkpoint when it is started "
            "again; if the same node is named repeatedly, exclude it";
    };

    /// Collective over `world`. `signals` must outlive it; null: signals are not watched. Warns if a rank
    /// cannot open a socket.
    Watchdog(Comm& world, const RunSignals* signals, Config config);
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
    ~Watchdog(); ///< reports to the monitors that this rank is done

    /// Replaces the settings. Any thread may call it.
    void configure(Config config);

private:
    void run();
    void send_state();
    void send_heartbeat();
    void listen(Seconds limit);
    void receive(int from, const std::string& text);
    void check_ranks();
    void check_monitors();
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

    // Used by the thread only.
    u64 progress_ = 0;
    Seconds progressed_ = 0, state_sent_ = 0;
    Seconds monitor_heard_ = -1; ///< when a monitor's last heartbeat arrived; -1: none yet
    Seconds heartbeat_sent_ = 0; ///< when this monitor last sent a heartbeat
    struct Heard {
        Seconds at = 0, stalled = 0;
        bool any = false, left = false, signalled = false;
        RankReport report{};
    };
    std::vector<Heard> heard_;  ///< by rank, on monitors
    std::string slow_reported_; ///< cause of the reported slowness; empty: none
    bool lost_heartbeats_reported_ = false;

    std::thread thread_; ///< last: it uses all the others
};

} // namespace trivium
