#include "serve/jobs.hpp"

#include "base/check.hpp"

namespace trivium {

void TextJob::wait_begin()
{
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ || done_; });
    if (error_)
        throw *error_;
}

std::optional<TextJob::Token> TextJob::next()
{
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ || !tokens_.empty(); });
    if (!tokens_.empty()) {
        Token token = std::move(tokens_.front());
        tokens_.pop_front();
        return token;
    }
    if (error_)
        throw *error_;
    return {};
}

std::vector<TextResult> TextJob::results()
{
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    if (error_)
        throw *error_;
    return std::move(results_);
}

void TextJob::leave()
{
    const std::lock_guard lock(mutex_);
    left_ = true;
}

void TextJob::begin()
{
    const std::lock_guard lock(mutex_);
    begun_ = true;
    changed_.notify_all();
}

bool TextJob::add(std::size_t index, const TokenScore& score, std::string_view text)
{
    const std::lock_guard lock(mutex_);
    if (streams_ && !left_) {
        tokens_.push_back({index, score, std::string(text)});
        changed_.notify_all();
    }
    return !left_;
}

void TextJob::finish(std::vector<TextResult> results)
{
    const std::lock_guard lock(mutex_);
    results_ = std::move(results);
    done_ = true;
    changed_.notify_all();
}

void TextJob::fail(const ApiError& error)
{
    const std::lock_guard lock(mutex_);
    error_ = error;
    done_ = true;
    changed_.notify_all();
}

void TextQueue::submit(std::shared_ptr<TextJob> job)
{
    const std::lock_guard lock(mutex_);
    if (closed_)
        throw ApiError(503, "the server is stopping");
    if (waiting_.size() + running_ >= limit_)
        throw ApiError(429, str("the server has ", limit_, " requests already; try again later"));
    waiting_.push_back(std::move(job));
    filled_.notify_one();
}

std::vector<std::shared_ptr<TextJob>> TextQueue::take(std::size_t sequences,
                                                      std::chrono::milliseconds patience)
{
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, patience, [&] { return !waiting_.empty(); });
    std::vector<std::shared_ptr<TextJob>> taken;
    for (std::size_t sum = 0; !waiting_.empty(); waiting_.pop_front()) {
        sum += waiting_.front()->requests().size();
        if (!taken.empty() && sum > sequences)
            break;
        taken.push_back(waiting_.front());
    }
    running_ += taken.size();
    return taken;
}

void TextQueue::done(std::size_t jobs)
{
    const std::lock_guard lock(mutex_);
    running_ -= jobs;
}

std::size_t TextQueue::size()
{
    const std::lock_guard lock(mutex_);
    return waiting_.size() + running_;
}

void TextQueue::close()
{
    std::deque<std::shared_ptr<TextJob>> refused;
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        refused.swap(waiting_);
    }
    for (const std::shared_ptr<TextJob>& job : refused)
        job->fail(ApiError(503, "the server is stopping"));
}

} // namespace trivium
