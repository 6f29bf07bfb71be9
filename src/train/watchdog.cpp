#include "train/watchdog.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "io/files.hpp"
#include "io/launches.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace trivium {

namespace {

constexpr Seconds interval = 0.5;  ///< between two signs of life
constexpr Seconds listening = 0.1; ///< at a time
constexpr Seconds gap = 3;         ///< the watchdog itself was stopped for a while (a debugger, a suspended job)
constexpr char news = 'n', farewell = 'f', end = 'e'; // what a message begins with

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
    : config_(std::move(config)), signals_(signals), rank_(world.rank()), ranks_(world.size()), node_(own_node()), monitors_{0, world.size() - 1}
{
    if (ranks_ > 1)
        channel_.emplace(world);
    const std::vector<std::string> nodes = gather_texts(world, node_);
    if (is_monitor())
        for (const std::string& node : nodes)
            heard_.emplace_back().news.node = node;
    progressed_ = now();
    tell(); // at once: who was never heard is not said to be silent
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

void Watchdog::run()
{
    const Seconds begin = progressed_ = now();
    for (Heard& each : heard_)
        each.at = begin;
    Seconds turn = begin;
    while (!over_) {
        const Seconds time = now();
        if (time - turn > gap)
            for (Heard& each : heard_) // what they said meanwhile may be lost
                each.at = time;
        turn = time;
        if (time - told_ >= interval) {
            told_ = time;
            tell();
            if (is_monitor())
                judge();
        }
        if (channel_)
            listen(listening);
        else
            std::this_thread::sleep_for(std::chrono::duration<double>(listening));
    }
}

/// This rank's state, to the monitors.
void Watchdog::tell()
{
    const Activity::Reading at = Activity::of_process().read();
    if (at.progress != progress_)
        progressed_ = now();
    progress_ = at.progress;
    const std::string text = str(news, signals_ ? signals_->stop() : 0, " ", now() - progressed_, "\n", node_, "\n", at.phase, "\n", at.piece, "\n", at.waits);
    if (rank_ == monitors_.front() || rank_ == monitors_.back())
        take(rank_, text);
    for (const int monitor : monitors_)
        if (monitor != rank_)
            channel_->send(monitor, text);
}

void Watchdog::listen(Seconds limit)
{
    while (const auto message = channel_->receive(limit)) {
        if (message->text.starts_with(end)) // a monitor has said why
            std::_Exit(config_.status);
        if (is_monitor())
            take(message->from, message->text);
        limit = 0;
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
    in >> signal >> heard.stalled >> std::ws;
    for (std::string* line : {&heard.news.node, &heard.news.phase, &heard.news.piece, &heard.news.waits})
        std::getline(in, *line);
    if (signal != 0 && !heard.signalled && rank_ == 0) {
        const bool first = std::none_of(heard_.begin(), heard_.end(), [](const Heard& each) { return each.signalled; });
        if (first)
            log_info(str("signal ", name_of_signal(signal), ranks_ > 1 ? str(" on rank ", from) : "", " noticed in ", heard.news.phase, ": saving and stopping as soon as the ranks can"));
    }
    heard.signalled = heard.signalled || signal != 0;
}

void Watchdog::judge()
{
    if (config_.limit <= 0)
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
    const Diagnosis d = diagnose(all, config_.limit);
    const bool first_is_silent = rank_ != 0 && all.front().silent > config_.limit && !all.front().left;
    if (rank_ != 0 && !first_is_silent)
        return;
    if (d.health == Health::hung && ranks_ > 1)
        end_run(d);
    if (d.health == Health::deaf && !std::exchange(deaf_said_, true))
        log_warning(d.cause);
    if (d.health == Health::slow && !slow_said_) {
        log_warning(str(d.cause, ":"));
        for (const std::string& line : d.ranks)
            log_warning("  " + line);
    }
    slow_said_ = d.health == Health::slow;
}

void Watchdog::end_run(const Diagnosis& d)
{
    std::string text = str("trivium: the run hangs: ", d.cause, "\n");
    for (const std::string& line : d.ranks)
        text += "  " + line + "\n";
    text += "  remedy: " + config_.remedy + "\n";
    log_progress("");
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
    try {
        leave_status(config_.status);
        if (!config_.log_dir.empty()) {
            end_last_launch(config_.log_dir, config_.status, "hang: " + d.cause);
            write_file(config_.log_dir + "/hang.txt", text);
        }
    } catch (const Error&) { // the disk may be what hangs; the log has it
    }
    for (int repeat = 0; repeat < 3; ++repeat) {
        for (int rank = 0; rank < ranks_; ++rank)
            if (rank != rank_)
                channel_->send(rank, std::string(1, end));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    std::_Exit(config_.status);
}

} // namespace trivium
