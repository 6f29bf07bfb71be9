#include "base/activity.hpp"

namespace trivium {

Activity& Activity::of_process()
{
    static Activity activity;
    return activity;
}

void Activity::enter(const std::string& phase)
{
    const std::lock_guard lock(mutex_);
    phase_ = phase;
    advance();
}

void Activity::set_pieces(std::function<std::string(i64)> describe)
{
    const std::lock_guard lock(mutex_);
    piece_ = -1;
    describe_ = std::move(describe);
}

void Activity::waits_for(const std::string& whom)
{
    const std::lock_guard lock(mutex_);
    waits_ = whom;
}

Activity::Reading Activity::read() const
{
    const std::lock_guard lock(mutex_);
    const i64 piece = piece_;
    const char* call = call_.load(std::memory_order_relaxed);
    return {progress_, phase_, describe_ && piece >= 0 ? describe_(piece) : "", waits_, call ? call : ""};
}

} // namespace trivium
