#include "io/metrics/live/monitors.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "io/files/files.hpp"
#include "io/metrics/event_records.hpp"
#include "io/metrics/live/post.hpp"
#include "io/metrics/live/texts.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <unistd.h>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_waiting = 1000, most_sent = 200; ///< records
constexpr double patience = 10, last_patience = 3;          ///< seconds of a request; at the end

/// The address that takes metrics: without a path, that of the protocol.
std::string metrics_address(const std::string& address)
{
    const std::size_t host = address.find("://");
    const std::size_t path = address.find('/', host == std::string::npos ? 0 : host + 3);
    return path == std::string::npos || path + 1 == address.size() ? address.substr(0, path) + "/v1/metrics"
                                                                   : address;
}

} // namespace

/// Written record by record, so that a reader sees whole ones.
struct Monitors::Events {
    Events(const std::string& folder, i64 step)
    {
        make_folders(folder);
        const Seconds time = unix_now();
        std::string path;
        for (int n = 0; path.empty() || fs::exists(path); ++n) // TensorBoard reads them in the order of names
            path = str(folder, "/events.out.tfevents.", static_cast<i64>(time) + n, ".trivium.", getpid());
        file.emplace(path);
        file->write(event_file_begin(time));
        file->write(event_file_restart(time, step + 1));
        file->flush();
    }

    std::optional<FileWriter> file;
};

Monitors::Monitors(const MonitorConfig& config, i64 step) : config_(config)
{
    std::error_code error;
    const fs::path absolute = fs::absolute(config.log_dir, error);
    label_ = error ? config.log_dir : absolute.lexically_normal().string();
    if (!config_.otlp.empty() && !can_post())
        throw UserError({"log.otlp", "is not available in this build",
                         "libcurl was not found when it was built",
                         "remove the key, or build with libcurl (apt install libcurl4-openssl-dev)"});
    if (config_.tensorboard) {
        try {
            events_ = std::make_unique<Events>(config_.log_dir + "/tensorboard", step);
        } catch (const Error& failure) {
            warn(warned_of_events_, failure.what());
        }
    }
    if (!config_.prometheus.empty() || !config_.otlp.empty())
        thread_ = std::thread([this] { serve(); });
}

Monitors::~Monitors()
{
    try {
        if (events_)
            events_->file->close();
    } catch (const Error& error) {
        warn(warned_of_events_, error.what());
    }
    if (!thread_.joinable())
        return;
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
        due_ = waiting_.size();
    }
    changed_.notify_all();
    const Seconds end = now() + last_patience;
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, std::chrono::steady_clock::now() + std::chrono::duration<double>(last_patience),
                        [&] { return waiting_.empty() && newest_ == nullptr; });
    hurries_ = now() >= end || !waiting_.empty();
    lock.unlock();
    thread_.join();
}

void Monitors::warn(bool& warned, const std::string& problem)
{
    if (!warned)
        log_warning(str(problem, "\n  the run continues; this is said once"));
    warned = true;
}

void Monitors::write(const MetricsRecord& record, bool now)
{
    if (events_) {
        try {
            std::vector<NamedScalar> scalars;
            for (const auto& [name, value] : record.values)
                if (name != "time")
                    scalars.emplace_back(name, value);
            events_->file->write(event_file_scalars(record.value("time"), record.step, scalars));
            if (now)
                events_->file->flush();
        } catch (const Error& error) {
            events_.reset();
            warn(warned_of_events_, error.what());
        }
    }
    if (!thread_.joinable())
        return;
    {
        const std::lock_guard lock(mutex_);
        if (!config_.otlp.empty()) {
            if (waiting_.size() == most_waiting) {
                waiting_.pop_front();
                due_ -= due_ > 0 ? 1 : 0;
            }
            waiting_.push_back(record);
            due_ = now ? waiting_.size() : due_;
        }
        if (!config_.prometheus.empty() && now)
            newest_ = std::make_unique<MetricsRecord>(record);
    }
    if (now)
        changed_.notify_all();
}

void Monitors::go_back(i64 step)
{
    if (!events_)
        return;
    try {
        events_->file->write(event_file_restart(unix_now(), step + 1));
        events_->file->flush();
    } catch (const Error& error) {
        events_.reset();
        warn(warned_of_events_, error.what());
    }
}

void Monitors::serve()
{
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return ends_ || newest_ || due_ > 0; });
        if (newest_) {
            const std::string text = prometheus_text(*newest_, label_);
            lock.unlock();
            try {
                write_file(config_.prometheus, text);
            } catch (const Error& error) {
                warn(warned_of_file_, str("log.prometheus: ", error.what()));
            }
            lock.lock();
            if (newest_ && prometheus_text(*newest_, label_) == text)
                newest_.reset();
        }
        if (due_ > 0) {
            const std::size_t count = std::min(due_, most_sent);
            const std::vector<MetricsRecord> sent(waiting_.begin(),
                                                  waiting_.begin() + static_cast<std::ptrdiff_t>(count));
            waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
            due_ -= count;
            lock.unlock();
            const std::string problem =
                post_json(metrics_address(config_.otlp), otlp_json(sent, label_), patience, hurries_);
            if (!problem.empty() && !hurries_)
                warn(warned_of_collector_, str("log.otlp: ", config_.otlp, ": ", problem));
            lock.lock();
            if (!problem.empty()) // it will not take the others either
                due_ = 0;
            if (!problem.empty() && ends_)
                waiting_.clear();
        }
        if (waiting_.empty() && newest_ == nullptr)
            changed_.notify_all();
        if (ends_ && (hurries_ || (due_ == 0 && newest_ == nullptr)))
            return;
    }
}

} // namespace trivium
