#include "lifecycle/job.hpp"

#include "base/check.hpp"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>

namespace trivium {

namespace {

std::optional<i64> number_in(const char* variable)
{
    const char* text = std::getenv(variable);
    if (text == nullptr)
        return std::nullopt;
    const std::string_view all(text);
    i64 number = 0;
    const auto parsed = std::from_chars(all.data(), all.data() + all.size(), number);
    return parsed.ec == std::errc{} && parsed.ptr == all.data() + all.size() ? std::optional(number)
                                                                             : std::nullopt;
}

} // namespace

Seconds Job::left() const
{
    TRV_EXPECT(end, "a job without a time limit");
    return static_cast<double>(*end) -
           std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Job job_of_environment()
{
    Job job;
    if (const char* id = std::getenv("SLURM_JOB_ID"))
        job.id = id;
    job.restart = number_in("SLURM_RESTART_COUNT").value_or(0);
    job.end = number_in("SLURM_JOB_END_TIME");
    if (job.end && *job.end <= 0) // no limit
        job.end.reset();
    return job;
}

} // namespace trivium
