#pragma once
// A value whose copies share memory until one of them is changed.
#include <atomic>
#include <memory>
#include <utility>

namespace trivium {

/// At first a T(), without memory of its own. Threads may use copies of one CopyOnWrite at the same time.
template <class T>
class CopyOnWrite {
public:
    CopyOnWrite() = default;
    CopyOnWrite(T value) : shared_(std::make_shared<T>(std::move(value))) {}

    /// Valid until this is changed or destroyed.
    const T& operator*() const
    {
        static const T usual{};
        return shared_ ? *shared_ : usual;
    }
    const T* operator->() const { return &**this; }
    operator const T&() const { return **this; }
    /// To be changed at once: a later copy would share it.
    T& edit()
    {
        if (!shared_)
            shared_ = std::make_shared<T>();
        else if (shared_.use_count() > 1)
            shared_ = std::make_shared<T>(*shared_);
        else
            std::atomic_thread_fence(std::memory_order_acquire); // after the last read of another thread
        return *shared_;
    }
    friend bool operator==(const CopyOnWrite& a, const CopyOnWrite& b)
    {
        return a.shared_ == b.shared_ || *a == *b;
    }
    friend bool operator==(const CopyOnWrite& a, const T& b) { return *a == b; }

private:
    std::shared_ptr<T> shared_;
};

} // namespace trivium
