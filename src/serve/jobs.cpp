#include "serve/jobs.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

namespace {

constexpr std::chrono::milliseconds look_again{100}; // whether a client is still there

ApiError stopping() { return {503, "the server is stopping"}; }

} // namespace

template <class IsTrue>
void TextJob::wait(std::unique_lock<std::mutex>& lock, const IsOpen& is_open, const IsTrue& is_true)
{
    while (!changed_.wait_for(lock, look_again, is_true)) {
        lock.unlock();
        const bool is_gone = is_open && !is_open();
        lock.lock();
        if (is_gone) {
            left_ = true;
            throw ApiError(499, "the client has gone"); // never sent
        }
    }
}

void TextJob::wait_begin(const IsOpen& is_open)
{
    std::unique_lock lock(mutex_);
    wait(lock, is_open, [&] { return begun_ || done_; });
    if (error_)
        throw *error_;
}

std::optional<TextJob::Token> TextJob::next(const IsOpen& is_open)
{
    std::unique_lock lock(mutex_);
    wait(lock, is_open, [&] { return done_ || !tokens_.empty(); });
    if (!tokens_.empty()) {
        Token token = std::move(tokens_.front());
        tokens_.pop_front();
        return token;
    }
    if (error_)
        throw *error_;
    return {};
}

std::vector<TextResult> TextJob::results(const IsOpen& is_open)
{
    std::unique_lock lock(mutex_);
    wait(lock, is_open, [&] { return done_; });
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

bool TextJob::is_wanted()
{
    const std::lock_guard lock(mutex_);
    return !left_ && !done_;
}

void TextJob::add(std::size_t index, const TokenScore& score, std::string_view text)
{
    const std::lock_guard lock(mutex_);
    if (streams_ && !left_) {
        tokens_.push_back({index, score, std::string(text)});
        changed_.notify_all();
    }
}

bool TextJob::finish(std::size_t index, TextResult result)
{
    const std::lock_guard lock(mutex_);
    results_.at(index) = std::move(result);
    if (done_ || --unfinished_ > 0)
        return false;
    done_ = true;
    changed_.notify_all();
    return true;
}

bool TextJob::fail(const ApiError& error)
{
    const std::lock_guard lock(mutex_);
    if (done_)
        return false;
    error_ = error;
    done_ = true;
    changed_.notify_all();
    return true;
}

void TextQueue::submit(std::shared_ptr<TextJob> job)
{
    const std::lock_guard lock(mutex_);
    if (closed_)
        throw stopping();
    if (jobs_ >= limit_)
        throw ApiError(429, str("the server has ", limit_, " requests already; try again later"));
    ++jobs_;
    waiting_.push_back({std::move(job), 0});
    filled_.notify_one();
}

bool TextQueue::wait(std::chrono::milliseconds patience)
{
    std::unique_lock lock(mutex_);
    return filled_.wait_for(lock, patience, [&] { return !waiting_.empty(); });
}

std::optional<TextSequence> TextQueue::next(bool begins)
{
    const std::lock_guard lock(mutex_);
    for (auto at = waiting_.begin(); at != waiting_.end();) {
        const TextSequence next = *at;
        if (!begins && next.index == 0 && next.job->is_wanted()) {
            ++at;
            continue;
        }
        at = waiting_.erase(at);
        if (!next.job->is_wanted()) {
            jobs_ -= next.job->fail({499, "the client has gone"}) ? 1 : 0;
            continue;
        }
        if (next.index + 1 < next.job->requests().size())
            waiting_.push_back({next.job, next.index + 1});
        return next;
    }
    return {};
}

void TextQueue::done(const std::shared_ptr<TextJob>& job)
{
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const TextSequence& each) { return each.job == job; });
    --jobs_;
}

std::size_t TextQueue::size()
{
    const std::lock_guard lock(mutex_);
    return jobs_;
}

void TextQueue::close()
{
    const std::lock_guard lock(mutex_);
    closed_ = true;
    jobs_ -= std::erase_if(
        waiting_, [](const TextSequence& each) { return each.index == 0 && each.job->fail(stopping()); });
}

bool TextQueue::is_closed()
{
    const std::lock_guard lock(mutex_);
    return closed_;
}

} // namespace trivium
