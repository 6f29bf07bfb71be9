#pragma once
// The threads of a team as fibers of one thread: each runs until it waits for others.
#include <cstddef>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace trivium::kernels {

class Player {
public:
    static constexpr int most = 256; ///< fewer than on a device, because every switch costs time

    static Player& get();

    /// f(rank) for rank in [0, threads), as fibers that take turns. `order` chooses the first one. Ends the
    /// program if threads wait for one that has finished or waits elsewhere.
    template <class F>
    void play(int threads, int order, const F& f)
    {
        play(
            threads, order, [](const void* call, int rank) { (*static_cast<const F*>(call))(rank); }, &f);
    }
    void wait_for_team() { wait(team_); }

private:
    struct Barrier {
        int expected = 0, arrived = 0;
        long generation = 0;
    };
    /// For __builtin_setjmp: unlike a context, or longjmp under the address sanitizer, it calls no kernel.
    using Place = void* [5];
    struct Fiber {
        std::unique_ptr<std::byte[]> stack;
        ucontext_t entry{}; ///< where it begins,
        Place place{};      ///< and where it resumes
        bool begun = false;
        const Barrier* at = nullptr; ///< that it waits at,
        long generation = 0;         ///< until this one is over
        bool done = true;
    };
    using Body = void (*)(const void*, int);

    Player() = default;
    void play(int threads, int order, Body body, const void* call);
    void wait(Barrier& barrier);
    void resume(int rank);
    void leave();
    static void enter(int rank);

    std::vector<Fiber> fibers_;
    Barrier team_;
    Body body_ = nullptr;
    const void* call_ = nullptr;
    Place main_{};
    const void* main_bottom_ = nullptr; ///< its stack, for the sanitizer
    std::size_t main_size_ = 0;
    int self_ = 0;
};

} // namespace trivium::kernels
