#pragma once
// Work in parallel whose results are taken in order.
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace trivium {

/// Calls `consume` on this thread with work(task) of each task that `produce` yields, in order, until it
/// yields none. `work` runs on `threads` threads, `produce` on one of them at a time; with 1, all runs on
/// this thread. At most 2 * threads + 2 tasks and results are held. What any of them throws is thrown here,
/// when the results before it have been taken.
template <class Task, class Result>
void work_in_order(int threads, const std::function<std::optional<Task>()>& produce,
                   const std::function<Result(Task&)>& work, const std::function<void(Result&)>& consume)
{
    if (threads <= 1) {
        while (std::optional<Task> task = produce()) {
            Result result = work(*task);
            consume(result);
        }
        return;
    }
    struct Done {
        std::optional<Result> result; ///< none: the end, or `error`
        std::exception_ptr error;
    };
    std::mutex mutex, producing;
    std::condition_variable changed;
    std::map<std::size_t, Done> done; // by number of the task
    std::size_t produced = 0, consumed = 0;
    bool ended = false;
    const auto most = 2 * static_cast<std::size_t>(threads) + 2;

    const auto run = [&] {
        for (;;) {
            std::size_t number = 0;
            Done mine;
            // Not assignments in a `try`: GCC 12 leaves the variable without its first value if the call
            // throws.
            const auto next = [&]() -> std::optional<Task> {
                try {
                    return produce();
                } catch (...) {
                    mine.error = std::current_exception();
                    return {};
                }
            };
            std::optional<Task> task;
            {
                const std::lock_guard order(producing);
                {
                    std::unique_lock lock(mutex);
                    changed.wait(lock, [&] { return ended || produced < consumed + most; });
                    if (ended)
                        return;
                    number = produced++;
                }
                task = next();
                if (!task) {
                    const std::lock_guard lock(mutex);
                    ended = true;
                }
            }
            if (task) {
                try {
                    mine.result.emplace(work(*task));
                } catch (...) {
                    mine.error = std::current_exception();
                }
            }
            const std::lock_guard lock(mutex);
            done.emplace(number, std::move(mine));
            changed.notify_all();
        }
    };

    std::vector<std::jthread> workers;
    const auto stop = [&] {
        {
            const std::lock_guard lock(mutex);
            ended = true;
        }
        changed.notify_all();
        workers.clear(); // joins them
    };
    try {
        for (int i = 0; i < threads; ++i)
            workers.emplace_back(run);
        for (;;) {
            Done next;
            {
                std::unique_lock lock(mutex);
                changed.wait(lock, [&] { return done.contains(consumed); });
                next = std::move(done.extract(consumed).mapped());
                ++consumed;
            }
            changed.notify_all();
            if (next.error)
                std::rethrow_exception(next.error);
            if (!next.result)
                break;
            consume(*next.result);
        }
    } catch (...) {
        stop();
        throw;
    }
    stop();
}

} // namespace trivium
