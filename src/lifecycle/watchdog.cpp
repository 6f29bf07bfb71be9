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
#include <ctime>
#include <future>
#include <memory>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace trivium {

namespace {

constexpr Seconds heartbeat_interval = 0.5; ///< between two heartbeats
constexpr Seconds listening = 0.1;          ///< at a time
constexpr Seconds gap = 3;       ///< longer gaps: this process was stopped (a debugger, a suspended job)
constexpr Seconds assurance = 3; ///< between two heartbeats of a monitor to all ranks
constexpr Seconds writing = 5;   ///< timeout for the report of a hang, as the file system may hang
constexpr char news = 'n', farewell = 'f', end = 'e', here = 'h'; // first byte of a message

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
            heard_.emplace_back().news.node = node;
    progressed_ = now();
    tell(); // at once: a rank without any heartbeat is not reported as silent
    if (is_monitor())
        assure();
    agree(world, 0); // from here on, every rank has sent one
    thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog()
{
    over_ = true;
    thread_.join();
    if (channel_)
        for (const int monitor : monitors_)
            channel_->send(monitor, std::string(1, farewell));
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
        if (time - turn > gap) {
            progressed_ = time;
            if (monitored_ >= 0)
                monitored_ = time;
            for (Heard& each : heard_) { // heartbeats may be lost, and other ranks may have been stopped too
                each.at = time;
                each.stalled = 0;
            }
        }
        turn = time;
        if (time - told_ >= heartbeat_interval) {
            told_ = time;
            tell();
            if (is_monitor())
                judge();
            else
                judge_monitors();
        }
        if (is_monitor() && channel_ && time - assured_ >= assurance) {
            assured_ = time;
            assure();
        }
        if (channel_)
            listen(listening);
        else
            std::this_thread::sleep_for(std::chrono::duration<double>(listening));
    }
}

/// A monitor's heartbeat to all ranks.
void Watchdog::assure()
{
    for (int rank = 1; rank < ranks_ - 1; ++rank)
        if (channel_)
            channel_->send(rank, std::string(1, here));
}

/// This rank's state, to the monitors.
void Watchdog::tell()
{
    const Activity::Reading at = Activity::of_process().read();
    if (at.progress != progress_)
        progressed_ = now();
    progress_ = at.progress;
    const std::string text =
        str(news, signals_ ? signals_->stop() : 0, " ", signals_ && signals_->is_from_parent(), " ",
            now() - progressed_, "\n", node_, "\n", at.phase, "\n", at.piece, "\n", at.waits);
    if (rank_ == monitors_.front() || rank_ == monitors_.back())
        take(rank_, text);
    for (const int monitor : monitors_)
        if (channel_ && monitor != rank_)
            channel_->send(monitor, text);
}

void Watchdog::listen(Seconds limit)
{
    const Seconds until = now() + limit;
    while (const auto message = channel_->receive(std::max(0.0, until - now()))) {
        if (message->text.starts_with(end)) // a monitor has reported why
            std::_Exit(config().status);
        if (message->text.starts_with(here))
            monitored_ = now();
        else if (is_monitor())
            take(message->from, message->text);
        if (now() >= until)
            return;
    }
}

void Watchdog::take(int from, const std::string& text)
{
    Heard& heard = heard_[static_cast<std::size_t>(from)];
    heard.at = now();
    heard.at_all = true;
    heard.left = text.starts_with(farewell);
    if (heard.left || !text.starts_with(news))
        return;
    std::istringstream in(text.substr(1));
    int signal = 0;
    bool from_launcher = false;
    in >> signal >> from_launcher >> heard.stalled >> std::ws;
    for (std::string* line : {&heard.news.node, &heard.news.phase, &heard.news.piece, &heard.news.waits})
        std::getline(in, *line);
    if (signal != 0 && !heard.signalled && rank_ == 0) {
        signals_->raise(signal); // the rank that received it may be idle
        const bool first =
            std::none_of(heard_.begin(), heard_.end(), [](const Heard& each) { return each.signalled; });
        if (first)
            log_info(
                str("signal ", name_of_signal(signal), ranks_ > 1 ? str(" on rank ", from) : "",
                    " noticed in ", heard.news.phase, ": saving and stopping as soon as all ranks can",
                    signal == SIGTERM && from_launcher ? what_follows_term(launcher_of_environment()) : ""));
    }
    heard.signalled = heard.signalled || signal != 0;
}

void Watchdog::judge()
{
    const Seconds limit = config().limit;
    if (limit <= 0 || (ranks_ > 1 && !channel_))
        return;
    const Seconds time = now();
    std::vector<RankNews> all;
    for (const Heard& each : heard_) {
        RankNews& n = all.emplace_back(each.news);
        n.left = each.left;
        n.heard = each.at_all;
        n.silent = time - each.at;
        n.stalled = each.stalled + n.silent;
    }
    const Diagnosis d = diagnose(all, limit, config().much_longer);
    if (rank_ != 0 && all.front().silent <= limit && !all.front().left) // rank 0 reports
        return;
    if (d.health == Health::hung && ranks_ > 1)
        end_run(d);
    if (d.health == Health::deaf && !std::exchange(deaf_said_, true))
        log_warning(d.cause);
    if (d.health == Health::slow && slow_said_ != d.cause) {
        log_warning(str(d.cause, ":"));
        for (const std::string& line : d.ranks)
            log_warning("  " + line);
    }
    slow_said_ = d.health == Health::slow ? d.cause : "";
}

/// If both monitors are silent and nothing moves, the ranks act one after another, by rank; the first one
/// ends the run.
void Watchdog::judge_monitors()
{
    const Seconds limit = config().limit, time = now();
    const Seconds turn = limit + heartbeat_interval * std::min(rank_, 60);
    if (limit <= 0 || monitored_ < 0 || time - monitored_ <= turn || time - progressed_ <= turn)
        return;
    RankNews own;
    own.stalled = time - progressed_;
    own.node = node_;
    const Activity::Reading at = Activity::of_process().read();
    own.phase = at.phase, own.piece = at.piece, own.waits = at.waits;
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
    done.wait_for(std::chrono::duration<double>(writing));
    for (int repeat = 0; repeat < 3; ++repeat) {
        for (int rank = 0; rank < ranks_; ++rank)
            if (channel_ && rank != rank_)
                channel_->send(rank, std::string(1, end));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    std::_Exit(config.status);
}

} // namespace trivium
