#include "serve/model_loop.hpp"

#include "base/check.hpp"

#include <unordered_map>

namespace trivium {

namespace {

/// The jobs with which the model has begun.
class BegunJobs {
public:
    BegunJobs(TextQueue& queue, const ModelCalls& model, const std::function<JobsToRun()>& which)
        : queue_(queue), model_(model), which_(which)
    {
    }

    TextFlow flow()
    {
        return {.next = [this] { return next(); },
                .wants =
                    [this](std::size_t id) {
                        return which_() != JobsToRun::none && running_.at(id).job->is_wanted();
                    },
                .on_token =
                    [this](std::size_t id, const TokenScore& score, std::string_view text) {
                        const TextSequence& sequence = running_.at(id);
                        sequence.job->add(sequence.index, score, text);
                    },
                .done = [this](std::size_t id, TextResult result) { done(id, std::move(result)); }};
    }
    void fail(const ApiError& error)
    {
        for (const auto& [id, sequence] : running_)
            fail(sequence.job, error);
        running_.clear();
        while (const std::optional<TextSequence> waiting = queue_.next(false))
            fail(waiting->job, error);
    }

private:
    std::optional<TextFlow::Item> next()
    {
        const JobsToRun which = which_();
        if (which == JobsToRun::none)
            return {};
        while (const std::optional<TextSequence> next = queue_.next(which == JobsToRun::all)) {
            if (next->index == 0) {
                if (const std::string why = why_refused(*next->job); !why.empty()) {
                    fail(next->job, ApiError(400, str("the request ", why)));
                    continue;
                }
                next->job->begin();
            }
            running_.emplace(++last_, *next);
            return TextFlow::Item{last_, &next->job->requests()[next->index]};
        }
        return {};
    }

    void done(std::size_t id, TextResult result)
    {
        const TextSequence sequence = running_.extract(id).mapped();
        if (result.finish == "cancelled")
            fail(sequence.job, ApiError(503, "the server is stopping")); // unless the client has left
        else if (sequence.job->finish(sequence.index, std::move(result)))
            queue_.done(sequence.job);
    }

    void fail(const std::shared_ptr<TextJob>& job, const ApiError& error)
    {
        if (job->fail(error))
            queue_.done(job);
    }

    std::string why_refused(const TextJob& job) const
    {
        for (const TextRequest& request : job.requests())
            if (const std::string why = model_.why_refused(request); !why.empty())
                return why;
        return "";
    }

    TextQueue& queue_;
    const ModelCalls& model_;
    const std::function<JobsToRun()>& which_;
    std::unordered_map<std::size_t, TextSequence> running_; ///< by id
    std::size_t last_ = 0;
};

} // namespace

void run_jobs(TextQueue& queue, const ModelCalls& model, const std::function<JobsToRun()>& which)
{
    constexpr std::chrono::milliseconds patience{100};
    BegunJobs jobs(queue, model, which);
    const TextFlow flow = jobs.flow();
    try {
        while (which() == JobsToRun::all)
            if (queue.wait(patience))
                model.complete(flow);
    } catch (...) {
        jobs.fail(ApiError(500, "the model failed; the server's log has the reason"));
        throw;
    }
    jobs.fail(ApiError(503, "the server is stopping"));
}

} // namespace trivium
