#pragma once
// What waits for the model: threads of connections submit jobs, the thread that runs the model takes them.
#include "serve/api_error.hpp"
#include "train/text_model.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

namespace trivium {

/// Whether a client still waits; empty: it does.
using IsOpen = std::function<bool()>;

/// The work of one request. One thread waits for it, another one does it.
class TextJob {
public:
    struct Token {
        std::size_t index; ///< of the TextRequest
        TokenScore score;
        std::string text; ///< see OnToken
    };

    explicit TextJob(std::vector<TextRequest> requests, bool streams = false)
        : requests_(std::move(requests)), streams_(streams), results_(requests_.size()),
          unfinished_(requests_.size())
    {
    }

    const std::vector<TextRequest>& requests() const { return requests_; }

    // By the thread that waits. If `is_open` says that the client is gone, nobody waits any longer: ApiError.

    /// Returns when the model has begun with the job or it has ended. Throws ApiError if it was refused.
    void wait_begin(const IsOpen& is_open = {});
    /// The next token of a job that streams; nullopt when there are no more. Throws ApiError if it failed.
    std::optional<Token> next(const IsOpen& is_open = {});
    /// Waits for the end. Throws ApiError if it was refused or failed.
    std::vector<TextResult> results(const IsOpen& is_open = {});
    /// Nobody waits any longer: the rest may be left out.
    void leave();

    // By the thread that runs the model.

    void begin();
    bool is_wanted(); ///< somebody waits for it, and it has not ended
    void add(std::size_t index, const TokenScore& score, std::string_view text);
    /// A result. True: it was the last one, so the job has ended.
    bool finish(std::size_t index, TextResult result);
    /// Ends the job. False: it had ended already.
    bool fail(const ApiError& error);

private:
    /// Returns when `is_true`, of members, is true.
    template <class IsTrue>
    void wait(std::unique_lock<std::mutex>& lock, const IsOpen& is_open, const IsTrue& is_true);

    std::vector<TextRequest> requests_;
    bool streams_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool begun_ = false, done_ = false, left_ = false;
    std::deque<Token> tokens_;
    std::vector<TextResult> results_;
    std::size_t unfinished_;
    std::optional<ApiError> error_;
};

/// What the model computes next.
struct TextSequence {
    std::shared_ptr<TextJob> job;
    std::size_t index; ///< of the TextRequest
};

class TextQueue {
public:
    /// At most `limit` jobs wait or run at a time.
    explicit TextQueue(std::size_t limit) : limit_(limit) {}

    /// Throws ApiError 429 if too many jobs wait, 503 after close().
    void submit(std::shared_ptr<TextJob> job);
    /// Waits up to `patience` for a sequence that waits; false: there is none.
    bool wait(std::chrono::milliseconds patience);
    /// The next sequence that waits: one of each job in turn, so that large jobs do not hold up others.
    /// `begins`: also of jobs of which none was taken yet. Ends jobs that nobody wants.
    std::optional<TextSequence> next(bool begins);
    /// The job has ended.
    void done(const std::shared_ptr<TextJob>& job);
    std::size_t size(); ///< jobs that wait or run
    /// Refuses the jobs of which no sequence was taken yet, and those that come.
    void close();
    bool is_closed();

private:
    std::size_t limit_, jobs_ = 0;
    bool closed_ = false;
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<TextSequence> waiting_; ///< the next one of each job
};

} // namespace trivium
