#pragma once
// Boxes of samples that a thread reads before they are needed.
#include "train/data/sample_source.hpp"

#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace trivium {

class ReadAhead {
public:
    /// A box of an array of a sample.
    struct Place {
        const SampleSource* source = nullptr; ///< must outlive the ReadAhead
        std::size_t array = 0;
        i64 sample = 0;
        Box box;
        bool operator==(const Place&) const = default;
    };

    ReadAhead() = default;
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;
    ~ReadAhead(); ///< waits for the read under way

    /// Writes a box to `to`: what the thread has read of it, waiting for a read under way, otherwise by
    /// reading it now. Throws what SampleSource::read() throws, or has thrown in the thread. `next`: a box
    /// that will be read later, which the thread then reads into memory of its own. One thread at a time may
    /// call it.
    void read(const Place& place, void* to, const Place& next);

private:
    struct Request {
        Place place;
        std::vector<std::byte> bytes{};
        std::exception_ptr error{};
    };
    using Requests = std::list<Request>;
    void run();

    std::mutex mutex_; ///< guards what follows, but not the content of `current_`
    std::condition_variable changed_;
    Requests waiting_, ready_, current_; ///< in the order of the calls; current_: what the thread reads
    std::vector<std::vector<std::byte>> spare_; ///< memory of requests that were taken
    bool ends_ = false;
    std::thread thread_; ///< begins with the first request
};

} // namespace trivium
