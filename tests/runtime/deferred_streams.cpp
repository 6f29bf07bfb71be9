#include "deferred_streams.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <utility>

namespace trivium::runs {

namespace {

/// One command in a queue: returns true when it is done. May be called repeatedly.
using Work = std::function<bool()>;

struct Device {
    std::vector<std::deque<Work>> queues{1}; ///< all Streams share queue 0
    std::mt19937_64 draw;
    AskedOfDevice asked;

    /// Works until `enough`, on randomly drawn queues.
    void work_until(const std::function<bool()>& enough)
    {
        std::vector<std::size_t> order;
        for (i64 idle = 0; !enough();) {
            order.clear();
            for (std::size_t q = 0; q < queues.size(); ++q)
                if (!queues[q].empty())
                    order.push_back(q);
            TRV_CHECK(!order.empty(), "the device has nothing left to do, and the host still waits");
            std::shuffle(order.begin(), order.end(), draw);
            bool any = false;
            for (const std::size_t q : order) {
                // Several commands of one queue, so that some queues run far ahead.
                for (auto left = draw() % 8; left > 0 && !queues[q].empty() && queues[q].front()(); --left) {
                    queues[q].pop_front();
                    any = true;
                }
                if (any)
                    break;
            }
            idle = any ? 0 : idle + 1; // a communicating command may wait for another rank, but not forever
            TRV_CHECK(idle < 200000000, "every queue waits for another");
        }
    }

    void drain()
    {
        work_until([&] {
            return std::all_of(queues.begin(), queues.end(), [](const auto& queue) { return queue.empty(); });
        });
    }
};

Device& device()
{
    thread_local Device made;
    return made;
}

class DeferredStreams : public Streams {
public:
    DeferredStreams(const StreamsConfig& config, u64 seed)
        : device_(device()), first_(device_.queues.size() - 1),
          recorded_(static_cast<std::size_t>(config.events), 0), reached_(recorded_),
          stamps_(static_cast<std::size_t>(config.stamps), -1)
    {
        check_ = config.check;
        device_.draw.seed(seed);
        device_.queues.resize(device_.queues.size() + static_cast<std::size_t>(config.queues) - 1);
        exec_.threads = config.threads;
    }
    ~DeferredStreams() override
    {
        if (std::uncaught_exceptions() == 0)
            device_.drain();
    }

    void launch(int queue, const Call& call) override
    {
        give(queue, [this, &call] {
            ++device_.asked.launches;
            call(exec_);
            return true;
        });
    }

    void launch(int queue, Communication& move) override
    {
        give(queue, [this, &move, started = false]() mutable {
            if (!started) {
                ++device_.asked.launches;
                move.start(exec_);
            }
            started = true;
            return move.progress();
        });
    }

    void copy(int queue, void* to, const void* from, Bytes bytes) override
    {
        give(queue, [=, this] {
            ++device_.asked.copies;
            std::memcpy(to, from, static_cast<std::size_t>(bytes));
            return true;
        });
    }

    void record(int queue, int event) override
    {
        if (capture_)
            return capture_->push_back([=, this] { record(queue, event); });
        const auto e = static_cast<std::size_t>(event);
        give(queue, [this, e, now = ++recorded_[e]] {
            reached_[e] = std::max(reached_[e], now);
            return true;
        });
    }

    void wait(int queue, int event) override
    {
        if (capture_)
            return capture_->push_back([=, this] { wait(queue, event); });
        const auto e = static_cast<std::size_t>(event);
        TRV_CHECK(recorded_[e] > 0, "event ", event, " is waited for and was never recorded");
        give(queue, [this, e, then = recorded_[e]] { return reached_[e] >= then; });
    }

    void synchronise(int event) override
    {
        TRV_CHECK(!capture_, "the host cannot wait for what is being captured");
        ++device_.asked.synchronisations;
        if (check_)
            check_();
        const auto e = static_cast<std::size_t>(event);
        device_.work_until([&] { return reached_[e] >= recorded_[e]; });
    }

    bool reached(int event) const override
    {
        const auto e = static_cast<std::size_t>(event);
        return reached_[e] >= recorded_[e];
    }

    void stamp(int queue, int stamp) override
    {
        give(queue, [this, s = static_cast<std::size_t>(stamp)] {
            stamps_[s] = clock_ += 1;
            return true;
        });
    }

    Seconds seconds(int stamp) override
    {
        const auto s = static_cast<std::size_t>(stamp);
        device_.work_until([&] { return stamps_[s] >= 0; });
        return stamps_[s];
    }

    std::byte* host_memory(Bytes bytes) override
    {
        memory_.emplace_back(static_cast<std::size_t>(bytes) + 1);
        return memory_.back().data();
    }

    void begin_capture() override { capture_ = std::make_unique<std::vector<std::function<void()>>>(); }
    void end_capture(int graph) override
    {
        TRV_CHECK(capture_ && graph == static_cast<int>(graphs_.size()), "graphs are captured in order");
        graphs_.push_back(std::move(*capture_));
        capture_.reset();
    }
    void replay(int graph) override
    {
        ++device_.asked.replays;
        for (const auto& again : graphs_[static_cast<std::size_t>(graph)])
            again();
    }

private:
    void give(int queue, Work work)
    {
        if (capture_)
            return capture_->push_back([=, this] { give(queue, work); });
        device_.queues[queue == 0 ? 0 : first_ + static_cast<std::size_t>(queue)].push_back(std::move(work));
    }

    Device& device_;
    std::size_t first_; ///< queue 1 is the device's queue first_ + 1
    kernels::Exec exec_;
    std::function<void()> check_;
    std::vector<i64> recorded_, reached_; ///< by event: number of records
    std::vector<double> stamps_;
    double clock_ = 0;
    std::deque<std::vector<std::byte>> memory_;
    std::unique_ptr<std::vector<std::function<void()>>> capture_;
    std::vector<std::vector<std::function<void()>>> graphs_;
};

} // namespace

StreamsMaker deferred_streams(u64 seed)
{
    return [seed](const StreamsConfig& config) { return std::make_unique<DeferredStreams>(config, seed); };
}

void settle_deferred() { device().drain(); }

AskedOfDevice asked_of_deferred() { return std::exchange(device().asked, {}); }

} // namespace trivium::runs
