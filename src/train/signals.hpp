#pragma once
// USR1 and TERM ask a run to save and stop.
#include <atomic>
#include <csignal>

namespace trivium {

/// Catches SIGUSR1, SIGTERM and SIGINT while it lives; a second SIGINT ends the program at once.
class StopSignals {
public:
    StopSignals()
    {
        last() = 0;
        for (int i = 0; i < count; ++i) {
            struct sigaction action = {};
            action.sa_handler = [](int signal) { last() = signal; };
            action.sa_flags = static_cast<int>(numbers[i] == SIGINT ? SA_RESETHAND | SA_RESTART : SA_RESTART);
            sigaction(numbers[i], &action, &before_[i]);
        }
    }
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
    ~StopSignals()
    {
        for (int i = 0; i < count; ++i)
            sigaction(numbers[i], &before_[i], nullptr);
    }

    /// The signal that came last, or 0.
    int received() const { return last(); }

private:
    static constexpr int count = 3;
    static constexpr int numbers[count] = {SIGUSR1, SIGTERM, SIGINT};

    static std::atomic<int>& last()
    {
        static std::atomic<int> number{0};
        return number;
    }

    struct sigaction before_[count] = {};
};

} // namespace trivium
