#pragma once
// Signals to a run: USR1, TERM, HUP and INT make it save and stop, USR2 makes it save and continue.
#include "base/clock.hpp"

#include <atomic>
#include <csignal>
#include <string>
#include <unistd.h>

namespace trivium {

/// "USR1".
inline std::string name_of_signal(int number)
{
    return number == SIGUSR1   ? "USR1"
           : number == SIGTERM ? "TERM"
           : number == SIGINT  ? "INT"
           : number == SIGHUP  ? "HUP"
                               : std::to_string(number);
}

/// While it exists, catches SIGUSR1, SIGTERM, SIGINT, SIGUSR2, and SIGHUP unless that is ignored (nohup); a
/// second SIGINT ends the program at once. At most one object at a time: the state is static.
class RunSignals {
public:
    RunSignals()
    {
        last_ = 0;
        first_at_ = again_at_ = 0;
        demanded_ = by_parent_ = false;
        for (int i = 0; i < count; ++i) {
            struct sigaction action = {};
            action.sa_sigaction = [](int signal, siginfo_t* info, void*) {
                if (signal == SIGUSR2) {
                    demanded_ = true;
                    return;
                }
                by_parent_ = info != nullptr && info->si_code == SI_USER && info->si_pid == ::getppid();
                receive(signal);
            };
            action.sa_flags =
                static_cast<int>(SA_SIGINFO | SA_RESTART | (numbers[i] == SIGINT ? SA_RESETHAND : 0));
            sigaction(numbers[i], nullptr, &before_[i]);
            if (numbers[i] != SIGHUP || before_[i].sa_handler != SIG_IGN)
                sigaction(numbers[i], &action, nullptr);
        }
    }
    RunSignals(const RunSignals&) = delete;
    RunSignals& operator=(const RunSignals&) = delete;
    ~RunSignals()
    {
        for (int i = 0; i < count; ++i)
            sigaction(numbers[i], &before_[i], nullptr);
    }

    /// The last signal that requests a stop, or 0.
    int stop() const { return last_; }
    /// Seconds since the first of them. \pre stop()
    Seconds since_stop() const { return now() - first_at_; }
    /// Whether another one followed. (Launchers may send one twice, which counts as one.)
    bool is_repeated() const { return again_at_ > first_at_ + 0.1; }
    /// Whether the parent process, usually the launcher, sent that signal.
    bool is_from_parent() const { return by_parent_; }
    /// Acts as if this process had received signal `number`.
    void raise(int number) const { receive(number); }
    /// Whether a save was requested since the last call.
    bool take_demand() const { return demanded_.exchange(false); }

private:
    /// The time first: other threads read it as soon as they see the signal.
    static void receive(int number)
    {
        (first_at_ == 0 ? first_at_ : again_at_) = now();
        last_ = number;
    }

    static constexpr int count = 5;
    static constexpr int numbers[count] = {SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGUSR2};

    inline static std::atomic<int> last_{0};
    inline static std::atomic<Seconds> first_at_{0}, again_at_{0};
    inline static std::atomic<bool> by_parent_{false}, demanded_{false};

    struct sigaction before_[count] = {};
};

} // namespace trivium
