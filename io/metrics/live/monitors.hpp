#pragma once
// What others see of a run while it goes: TensorBoard's event files, a text file for Prometheus, and an
// OpenTelemetry collector.
#include "io/metrics/metrics.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace trivium {

struct MonitorConfig {
    std::string log_dir;          ///< names the run
    bool tensorboard = false;     ///< event files in log_dir/tensorboard
    std::string prometheus, otlp; ///< file, address; empty: none
};

/// No function throws, waits for a network, or ends the run: the first failure of each kind is a warning.
class Monitors {
public:
    /// Of a launch that begins behind `step`. UserError if this build cannot reach a collector.
    Monitors(const MonitorConfig& config, i64 step);
    Monitors(const Monitors&) = delete;
    Monitors& operator=(const Monitors&) = delete;
    ~Monitors(); ///< sends what is left, for up to three seconds

    /// `now`: the log has a line of this step, so files are written and the collector gets the steps up to
    /// it.
    void write(const MetricsRecord& record, bool now);
    /// The run went back to `step`: later steps will come again.
    void go_back(i64 step);

private:
    struct Events; ///< an event file
    void serve();  ///< the thread for what may be slow
    void warn(bool& warned, const std::string& problem);

    MonitorConfig config_;
    std::unique_ptr<Events> events_;
    std::string label_; ///< absolute path of log_dir
    std::mutex mutex_;  ///< of what follows
    std::condition_variable changed_;
    std::deque<MetricsRecord> waiting_;     ///< for the collector; the oldest are dropped if it is too slow
    std::unique_ptr<MetricsRecord> newest_; ///< for Prometheus
    std::size_t due_ = 0;                   ///< how many of waiting_ to send now
    bool ends_ = false;
    std::atomic<bool> hurries_{false};
    bool warned_of_events_ = false, warned_of_file_ = false, warned_of_collector_ = false;
    std::thread thread_;
};

} // namespace trivium
