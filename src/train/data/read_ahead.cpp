#include "train/data/read_ahead.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

namespace {

std::size_t bytes_of(const ReadAhead::Place& place)
{
    return static_cast<std::size_t>(element_count(place.box.shape) *
                                    size_of(place.source->arrays()[place.array].type.dtype));
}

} // namespace

ReadAhead::~ReadAhead()
{
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable())
        thread_.join();
}

void ReadAhead::read(const Place& place, void* to, const Place& next)
{
    Requests taken, asked;
    bool is_read = true;
    {
        std::unique_lock lock(mutex_);
        if (std::ranges::find(current_, place, &Request::place) != current_.end())
            changed_.wait(lock, [&] { return current_.empty() || current_.front().place != place; });
        for (Requests* list : {&ready_, &waiting_})
            if (const auto found = std::ranges::find(*list, place, &Request::place);
                taken.empty() && found != list->end()) {
                is_read = list == &ready_;
                taken.splice(taken.end(), *list, found);
            }
    }
    if (taken.empty() || !is_read)
        place.source->read(place.array, place.sample, place.box, to); // the thread is not faster
    else if (taken.front().error)
        std::rethrow_exception(taken.front().error);
    else
        std::memcpy(to, taken.front().bytes.data(), taken.front().bytes.size());
    next.source->will_read(next.array, next.sample, next.box);
    asked.push_back({next});
    {
        const std::lock_guard lock(mutex_);
        // A step that was abandoned has asked for it before.
        for (const Requests* list : {&waiting_, &current_, &ready_})
            if (std::ranges::find(*list, next, &Request::place) != list->end())
                asked.clear();
        if (!taken.empty() && is_read)
            spare_.push_back(std::move(taken.front().bytes));
        if (!spare_.empty() && !asked.empty()) {
            asked.front().bytes = std::move(spare_.back());
            spare_.pop_back();
        }
        waiting_.splice(waiting_.end(), asked);
    }
    changed_.notify_all();
    if (!thread_.joinable())
        thread_ = std::thread([this] { run(); });
}

void ReadAhead::run()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
        if (ends_)
            return;
        current_.splice(current_.end(), waiting_, waiting_.begin());
        lock.unlock();
        Request& request = current_.front();
        const Place& place = request.place;
        try {
            request.bytes.resize(bytes_of(place));
            place.source->read(place.array, place.sample, place.box, request.bytes.data());
        } catch (...) {
            request.error = std::current_exception();
        }
        lock.lock();
        ready_.splice(ready_.end(), current_);
        changed_.notify_all();
    }
}

} // namespace trivium
