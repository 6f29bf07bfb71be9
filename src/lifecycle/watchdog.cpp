#include "lifecycle/watchdog.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "io/files/files.hpp"
#include "io/metrics/launches.hpp"
#include "lifecycle/launcher.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace trivium {

namespace {

constexpr Seconds heartbeat_interval = 0.5; ///< between two heartbeats
constexpr Seconds listen_interval = 0.1;    ///< timeout of one receive
constexpr Seconds monitor_interval = 3;     ///< between two heartbeats of a monitor to all ranks
constexpr Seconds report_timeout = 5;       ///< timeout for the report of a hang, as the file system may hang
// The first byte of a message.
constexpr char state_message = 'n', farewell_message = 'f', end_message = 'e', alive_message = 'h';

std::string own_node()
{
    if (const char* node = std::getenv("SLURMD_NODENAME"))
        return node;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return host;
}

} // namespace

Watchdog::Watchdog(Comm& world, const RunSignals* signals, Config config)
    : config_(std::move(config)), signals_(signals), rank_(world.rank()), ranks_(world.size()),
      node_(own_node()), monitors_{0, world.size() - 1}
{
    try {
        if (ranks_ > 1)
            channel_.emplace(world);
    } catch (const IoError& error) {
        log_warning(str("hangs will not be detected: ", error.what()));
    }
    const std::vector<std::string> nodes = gather_texts(world, node_);
    if (is_monitor())
        for (const std::string& node : nodes)
            heard_.emplace_back().report.node = node;
    progressed_ = now();
    send_state(); // at once: a rank without any heartbeat is not reported as silent
    if (is_monitor())
        send_heartbeat();
    agree(world, 0); // from here on, every rank has sent one
    thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog()
{
    over_ = true;
    thread_.join();
    if (channel_)
        for (const int monitor : monitors_)
            channel_->send(monitor, std::string(1, farewell_message));
}

void Watchdog::configure(Config config)
{
    const std::lock_guard lock(mutex_);
    config_ = std::move(config);
}

Watchdog::Config Watchdog::config() const
{
    const std::lock_guard lock(mutex_);
    return config_;
}

void Watchdog::run()
{
    const Seconds begin = progressed_ = now();
    for (Heard& each : heard_)
        each.at = begin;
    Seconds turn = begin;
    while (!over_) {
        const Seconds time = now();
        if (time - turn > suspension_gap) {
            progressed_ = time;
            if (monitor_heard_ >= 0)
                monitor_heard_ = time;
            for (Heard& each : heard_) { // heartbeats may be lost, and other ranks may have been stopped too
                each.at = time;
                each.stalled = 0;
            }
        }
        turn = time;
        if (time - state_sent_ >= heartbeat_interval) {
            state_sent_ = time;
            send_state();
            if (is_monitor())
                check_ranks();
            else
                check_monitors();
        }
        if (is_monitor() && channel_ && time - heartbeat_sent_ >= monitor_interval) {
            heartbeat_sent_ = time;
            send_heartbeat();
        }
        if (channel_)
            listen(listen_interval);
        else
            std::this_thread::sleep_for(std::chrono::duration<double>(listen_interval));
    }
}

/// A monitor's heartbeat to all ranks.
void Watchdog::send_heartbeat()
{
    for (int rank = 1; rank < ranks_ - 1; ++rank)
        if (channel_)
            channel_->send(rank, std::string(1, alive_message));
}

/// This rank's state, to the monitors.
void Watchdog::send_state()
{
    const Activity::Reading at = Activity::of_process().read();
    if (at.progress != progress_)
        progressed_ = now();
    progress_ = at.progress;
    const std::string text =
        str(state_message, signals_ ? signals_->stop() : 0, " ", signals_ && signals_->is_from_parent(), " ",
            now() - progressed_, "\n", node_, "\n", at.phase, "\n", at.piece, "\n", at.waits, "\n", at.call);
    if (rank_ == monitors_.front() || rank_ == monitors_.back())
        receive(rank_, text);
    for (const int monitor : monitors_)
        if (channel_ && monitor != rank_)
            channel_->send(monitor, text);
}

void Watchdog::listen(Seconds limit)
{
    const Seconds until = now() + limit;
    while (const auto message = channel_->receive(std::max(0.0, until - now()))) {
        if (message->text.starts_with(end_message)) // a monitor has reported why
            std::_Exit(config().status);
        if (message->text.starts_with(alive_message))
            monitor_heard_ = now();
        else if (is_monitor())
            receive(message->from, message->text);
        if (now() >= until)
            return;
    }
}

void Watchdog::receive(int from, const std::string& text)
{
    Heard& heard = heard_[static_cast<std::size_t>(from)];
    heard.at = now();
    heard.any = true;
    heard.left = text.starts_with(farewell_message);
    if (heard.left || !text.starts_with(state_message))
        return;
    std::istringstream in(text.substr(1));
    int signal = 0;
    bool from_launcher = false;
    in >> signal >> from_launcher >> heard.stalled >> std::ws;
    for (std::string* line : {&heard.report.node, &heard.report.phase, &heard.report.piece,
                              &heard.report.waits, &heard.report.call})
        if (!std::getline(in, *line))
            line->clear();
    if (signal != 0 && !heard.signalled && rank_ == 0) {
        signals_->raise(signal); // the rank that received it may be idle
        const bool first = std::ranges::none_of(heard_, [](const Heard& each) { return each.signalled; });
        if (first)
            log_info(
                str("signal ", name_of_signal(signal), ranks_ > 1 ? str(" on rank ", from) : "",
                    " noticed in ", heard.report.phase, ": saving and stopping as soon as all ranks can",
                    signal == SIGTERM && from_launcher ? what_follows_term(launcher_of_environment()) : ""));
    }
    heard.signalled = heard.signalled || signal != 0;
}

void Watchdog::check_ranks()
{
    const Seconds limit = config().limit;
    if (limit <= 0 || (ranks_ > 1 && !channel_))
        return;
    const Seconds time = now();
    std::vector<RankReport> all;
    for (const Heard& each : heard_) {
        RankReport& n = all.emplace_back(each.report);
        n.left = each.left;
        n.heard = each.any;
        n.silent = time - each.at;
        n.stalled = each.stalled + n.silent;
    }
    const Diagnosis d = diagnose(all, limit, config().much_longer);
    if (rank_ != 0 && all.front().silent <= limit && !all.front().left) // rank 0 reports
        return;
    if (d.health == Health::hung && ranks_ > 1)
        end_run(d);
    if (d.health == Health::heartbeats_lost && !std::exchange(lost_heartbeats_reported_, true))
        log_warning(d.cause);
    if (d.health == Health::slow && slow_reported_ != d.cause) {
        log_warning(str(d.cause, ":"));
        for (const std::string& line : d.ranks)
            log_warning("  " + line);
    }
    slow_reported_ = d.health == Health::slow ? d.cause : "";
}

/// If both monitors are silent and nothing moves, the ranks act one after another, by rank; the first one
/// ends the run.
void Watchdog::check_monitors()
{
    const Seconds limit = config().limit, time = now();
    const Seconds turn = limit + heartbeat_interval * std::min(rank_, 60);
    if (limit <= 0 || monitor_heard_ < 0 || time - monitor_heard_ <= turn || time - progressed_ <= turn)
        return;
    RankReport own;
    own.stalled = time - progressed_;
    own.node = node_;
    const Activity::Reading at = Activity::of_process().read();
    own.phase = at.phase, own.piece = at.piece, own.waits = at.waits, own.call = at.call;
    end_run({Health::hung,
             str("no heartbeat from ranks 0 and ", ranks_ - 1, ", which monitor the others"),
             {describe_rank(rank_, own, limit)}});
}

void Watchdog::end_run(const Diagnosis& d)
{
    const Config config = this->config();
    // In a separate thread, as the file system may hang.
    auto written = std::make_shared<std::promise<void>>();
    std::future<void> done = written->get_future();
    std::thread([config, d, written] {
        std::string text = str("trivium: the run hangs: ", d.cause, "\n");
        for (const std::string& line : d.ranks)
            text += "  " + line + "\n";
        text += "  remedy: " + config.remedy + "\n";
        log_progress("");
        std::fputs(text.c_str(), stderr);
        std::fflush(stderr);
        try {
            leave_status(config.status);
            if (!config.log_dir.empty()) {
                end_last_launch(config.log_dir, config.status, "hang: " + d.cause);
                write_file(config.log_dir + "/hang.txt", text);
            }
        } catch (const Error&) { // stderr has the report
        }
        written->set_value();
    }).detach();
    done.wait_for(std::chrono::duration<double>(report_timeout));
    for (int repeat = 0; repeat < 3; ++repeat) {
        for (int rank = 0; rank < ranks_; ++rank)
            if (channel_ && rank != rank_)
                channel_->send(rank, std::string(1, end_message));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    std::_Exit(config.status);
}

} // namespace trivium
