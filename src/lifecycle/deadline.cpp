#include "lifecycle/deadline.hpp"

#include "io/metrics/metrics.hpp"

#include <algorithm>

namespace trivium {

Deadline::Deadline(const Job& job, const std::string& log_dir, Bytes save_bytes)
    : job_(job), time_(job), guess_(static_cast<double>(save_bytes) / 200e6) // bytes/s of a slow disk
{
    if (job_.end || !job_.id.empty())
        visit_metrics(log_dir, [&](const MetricsRecord& record) {
            if (record.has("checkpoint_seconds"))
                longest_save_ = record.value("checkpoint_seconds"); // the newest
        });
    if (job_.end)
        max_lead_ = job_.left() / 2;
}

void Deadline::step_took(Seconds seconds)
{
    const Seconds paused = time_.paused();
    steps_.add(std::max(0.0, seconds - (paused - paused_)));
    paused_ = paused;
}

void Deadline::save_took(Seconds seconds)
{
    const Seconds whole =
        std::max(0.0, seconds - (paused_ - paused_at_save_)); // without the time of a suspension
    longest_save_ = saves_seen_++ > 0 ? std::max(longest_save_, whole) : whole;
}

Seconds Deadline::lead() const
{
    const Seconds margin = 10;
    const Seconds lead = margin + 2 * ((longest_save_ > 0 ? longest_save_ : guess_) + steps_.usual());
    return saves_seen_ > 0 ? lead
                           : std::min(lead, max_lead_); // a wrong guess must not stop a short job at once
}

} // namespace trivium
