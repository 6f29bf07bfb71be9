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

/// The work of one request. One thread waits for it, another one does it.
class TextJob {
public:
    struct Token {
        std::size_t index; ///< of the TextRequest
        TokenScore score;
        std::string text; ///< see OnToken
    };

    explicit TextJob(std::vector<TextRequest> requests, bool streams = false)
        : requests_(std::move(requests)), streams_(streams)
    {
    }

    const std::vector<TextRequest>& requests() const { return requests_; }

    // By the thread that waits.

    /// Returns when the model has begun with the job or it has ended. Throws ApiError if it was refused.
    void wait_begin();
    /// The next token of a job that streams; nullopt when there are no more. Throws ApiError if it failed.
    std::optional<Token> next();
    /// Waits for the end. Throws ApiError if it was refused or failed.
    std::vector<TextResult> results();
    /// Nobody waits any longer: the rest may be left out.
    void leave();

    // By the thread that runs the model.

    void begin();
    /// False: nobody waits for the job.
    bool add(std::size_t index, const TokenScore& score, std::string_view text);
    void finish(std::vector<TextResult> results);
    void fail(const ApiError& error);

private:
    std::vector<TextRequest> requests_;
    bool streams_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool begun_ = false, done_ = false, left_ = false;
    std::deque<Token> tokens_;
    std::vector<TextResult> results_;
    std::optional<ApiError> error_;
};

class TextQueue {
public:
    /// At most `limit` jobs wait or run at a time.
    explicit TextQueue(std::size_t limit) : limit_(limit) {}

    /// Throws ApiError 429 if too many jobs wait, 503 after close().
    void submit(std::shared_ptr<TextJob> job);
    /// Waits up to `patience` for jobs; takes those with up to `sequences` requests together, at least one
    /// job. done() ends them.
    std::vector<std::shared_ptr<TextJob>> take(std::size_t sequences, std::chrono::milliseconds patience);
    void done(std::size_t jobs);
    std::size_t size(); ///< jobs that wait or run
    /// Refuses those that wait and those that come.
    void close();

private:
    std::size_t limit_, running_ = 0;
    bool closed_ = false;
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<std::shared_ptr<TextJob>> waiting_;
};

} // namespace trivium
