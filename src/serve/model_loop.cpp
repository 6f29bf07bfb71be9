#include "serve/model_loop.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

namespace {

using Jobs = std::vector<std::shared_ptr<TextJob>>;

/// Without those that the model refuses.
Jobs accepted(const Jobs& jobs, const ModelCalls& model)
{
    Jobs kept;
    for (const std::shared_ptr<TextJob>& job : jobs) {
        std::string why;
        for (const TextRequest& request : job->requests())
            if (why.empty())
                why = model.why_refused(request);
        if (why.empty())
            kept.push_back(job);
        else
            job->fail(ApiError(400, str("the request ", why)));
    }
    return kept;
}

void run_batch(const Jobs& jobs, const ModelCalls& model)
{
    std::vector<TextRequest> requests;
    std::vector<std::size_t> first; // request of each job
    for (const std::shared_ptr<TextJob>& job : jobs) {
        first.push_back(requests.size());
        requests.insert(requests.end(), job->requests().begin(), job->requests().end());
        job->begin();
    }
    std::vector<TextResult> results =
        model.complete(requests, [&](std::size_t index, const TokenScore& score, std::string_view text) {
            const auto job = static_cast<std::size_t>(std::upper_bound(first.begin(), first.end(), index) -
                                                      first.begin() - 1);
            return jobs[job]->add(index - first[job], score, text);
        });
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        const auto begin = std::make_move_iterator(results.begin() + static_cast<std::ptrdiff_t>(first[j]));
        const auto count = static_cast<std::ptrdiff_t>(jobs[j]->requests().size());
        jobs[j]->finish(std::vector<TextResult>(begin, begin + count));
    }
}

} // namespace

void run_jobs(TextQueue& queue, const ModelCalls& model, const std::function<bool()>& stop)
{
    constexpr std::chrono::milliseconds patience{100};
    while (!stop()) {
        const Jobs taken = queue.take(model.rows, patience);
        const Jobs jobs = accepted(taken, model);
        if (!jobs.empty())
            try {
                run_batch(jobs, model);
            } catch (...) {
                for (const std::shared_ptr<TextJob>& job : jobs)
                    job->fail(ApiError(500, "the model failed; the server's log has the reason"));
                throw;
            }
        queue.done(taken.size());
    }
}

} // namespace trivium
