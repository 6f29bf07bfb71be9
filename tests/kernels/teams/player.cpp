#include "player.hpp"

#include <cstdio>
#include <cstdlib>

// The address sanitizer must be told about stack switches; its function exists only if it is linked.
extern "C" void __sanitizer_start_switch_fiber(void** save, const void* bottom, std::size_t size)
    __attribute__((weak));
extern "C" void __sanitizer_finish_switch_fiber(void* save, const void** bottom, std::size_t* size)
    __attribute__((weak));

namespace trivium::kernels {

namespace {
constexpr std::size_t stack_size = 64 << 10;

/// In a function of its own, as compilers demand, which they must not find to be noreturn (noipa): before
/// each call of such a function the sanitizer clears the stack.
[[gnu::noipa, gnu::no_sanitize("address")]] void jump(void** place) { __builtin_longjmp(place, 1); }
} // namespace

Player& Player::get()
{
    static Player player;
    return player;
}

void Player::play(int threads, int order, Body body, const void* call)
{
    body_ = body;
    call_ = call;
    while (static_cast<int>(fibers_.size()) < threads) { // a fiber is kept for the next call
        const int rank = static_cast<int>(fibers_.size());
        fibers_.reserve(most);
        Fiber& fiber = fibers_.emplace_back();
        fiber.stack.reset(new std::byte[stack_size]);
        getcontext(&fiber.entry);
        fiber.entry.uc_stack.ss_sp = fiber.stack.get();
        fiber.entry.uc_stack.ss_size = stack_size;
        makecontext(&fiber.entry, reinterpret_cast<void (*)()>(&Player::enter), 1, rank);
    }
    team_ = {threads, 0, 0};
    for (int rank = 0; rank < threads; ++rank) {
        fibers_[static_cast<std::size_t>(rank)].done = false;
        fibers_[static_cast<std::size_t>(rank)].at = nullptr;
    }
    for (int left = threads; left > 0;) {
        bool moved = false;
        for (int turn = 0; turn < threads; ++turn) {
            const int rank = order == 1 ? turn : order == 2 ? threads - 1 - turn : turn * 37 % threads;
            Fiber& fiber = fibers_[static_cast<std::size_t>(rank)];
            if (fiber.done || (fiber.at && fiber.at->generation == fiber.generation))
                continue;
            resume(rank);
            left -= fiber.done;
            moved = true;
        }
        if (!moved) {
            std::fprintf(stderr, "the threads of a team wait for each other at different places\n");
            std::abort();
        }
    }
}

void Player::wait(Barrier& barrier)
{
    if (++barrier.arrived == barrier.expected) {
        barrier.arrived = 0;
        ++barrier.generation;
        return;
    }
    Fiber& self = fibers_[static_cast<std::size_t>(self_)];
    self.at = &barrier;
    self.generation = barrier.generation;
    leave();
}

[[gnu::noinline]] void Player::resume(int rank)
{
    Fiber& fiber = fibers_[static_cast<std::size_t>(rank)];
    self_ = rank;
    void* fake = nullptr;
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&fake, fiber.stack.get(), stack_size);
    if (__builtin_setjmp(main_) == 0) {
        if (fiber.begun)
            jump(fiber.place);
        fiber.begun = true;
        setcontext(&fiber.entry);
    }
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
}

[[gnu::noinline]] void Player::leave()
{
    Fiber& fiber = fibers_[static_cast<std::size_t>(self_)];
    void* fake = nullptr;
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&fake, main_bottom_, main_size_);
    if (__builtin_setjmp(fiber.place) == 0)
        jump(main_);
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fake, &main_bottom_, &main_size_);
}

void Player::enter(int rank)
{
    Player& player = get();
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(nullptr, &player.main_bottom_, &player.main_size_);
    for (;;) {
        player.body_(player.call_, rank);
        player.fibers_[static_cast<std::size_t>(rank)].done = true;
        player.leave();
    }
}

} // namespace trivium::kernels
