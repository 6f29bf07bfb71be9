#pragma once
// Signals to a run: USR1 and TERM ask it to save and stop, USR2 to save and go on.
#include <atomic>
#include <csignal>
#include <string>

namespace trivium {

/// "USR1".
inline std::string name_of_signal(int number)
{
    return number == SIGUSR1 ? "USR1" : number == SIGTERM ? "TERM" : number == SIGINT ? "INT" : std::to_string(number);
}

/// Catches SIGUSR1, SIGTERM, SIGINT and SIGUSR2 while it lives; a second SIGINT ends the program at once.
class RunSignals {
public:
    RunSignals()
    {
        last() = 0;
        demanded() = false;
        for (int i = 0; i < count; ++i) {
            struct sigaction action = {};
            action.sa_handler = [](int signal) {
                if (signal == SIGUSR2)
                    demanded() = true;
                else
                    last() = signal;
            };
            action.sa_flags = static_cast<int>(numbers[i] == SIGINT ? SA_RESETHAND | SA_RESTART : SA_RESTART);
            sigaction(numbers[i], &action, &before_[i]);
        }
    }
    RunSignals(const RunSignals&) = delete;
    RunSignals& operator=(const RunSignals&) = delete;
    ~RunSignals()
    {
        for (int i = 0; i < count; ++i)
            sigaction(numbers[i], &before_[i], nullptr);
    }

    /// The signal to stop that came last, or 0.
    int stop() const { return last(); }
    /// As if this process had got it.
    void raise(int number) const { last() = number; }
    /// Whether a save was asked for since the last call.
    bool take_demand() const { return demanded().exchange(false); }

private:
    static constexpr int count = 4;
    static constexpr int numbers[count] = {SIGUSR1, SIGTERM, SIGINT, SIGUSR2};

    static std::atomic<int>& last()
    {
        static std::atomic<int> number{0};
        return number;
    }
    static std::atomic<bool>& demanded()
    {
        static std::atomic<bool> asked{false};
        return asked;
    }

    struct sigaction before_[count] = {};
};

} // namespace trivium
