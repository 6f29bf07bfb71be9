#pragma once
// The emulated machine: its threads, which are fibers, its shared memory, and its detection of races.
#include "emulator.hpp"

#include "base/check.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <ucontext.h>

// The address sanitizer must be told about stack switches; its function exists only if it is linked.
extern "C" void __sanitizer_start_switch_fiber(void** save, const void* bottom, std::size_t size)
    __attribute__((weak));
extern "C" void __sanitizer_finish_switch_fiber(void* save, const void** bottom, std::size_t* size)
    __attribute__((weak));
extern "C" void __asan_unpoison_memory_region(const volatile void* start, std::size_t size)
    __attribute__((weak));

namespace trivium::emulator {

inline constexpr u32 lanes = 32, none = ~0u;

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack; // of a thread of the block
    const void* bottom = nullptr;  // of its stack
    std::size_t size = 0;
    bool waiting = false, done = false;
};

inline void switch_fiber(Fiber& from, Fiber& to)
{
    void* fake = nullptr;
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&fake, to.bottom, to.size);
    swapcontext(&from.context, &to.context);
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
}

/// A word of shared memory: its last write and its last reads; time is the number of barriers.
struct Shadow {
    bool written = false;
    u32 writer = 0, write_time = 0, write_warp_time = 0;
    u32 read_time = none, read_warps = 0; // reads at the same time
    u32 reader = none,
        read_warp_time = 0; // the last reader; `none` if several threads of its warp read since a barrier
    u32 copier = none;      // the thread whose copy into it is in progress
};

struct Copy {
    u32 to;
    const char* from; // null: zeros
};

/// The arguments of a warp's lanes in a common operation.
struct Meeting {
    const char* what = nullptr;
    u32 arrived = 0, turn = 0;
    std::array<void*, lanes> part{};
};

class Machine {
public:
    Machine(const Launch& launch, const std::function<void(Block&)>& kernel)
        : launch_(launch), kernel_(kernel), fibers_(launch.threads), open_copies_(launch.threads),
          copies_(launch.threads), meetings_(launch.threads / lanes), warp_time_(launch.threads / lanes)
    {
        TRV_CHECK(launch.threads % lanes == 0, "whole warps only");
        for (Fiber& fiber : fibers_) {
            fiber.size = 256 << 10;
            fiber.stack = std::make_unique_for_overwrite<char[]>(fiber.size);
            fiber.bottom = fiber.stack.get();
        }
        for (const Launch::Range& range : launch.ranges())
            written_.emplace_back(range.writable ? range.size / 2 : 0);
    }

    void run(u32 index)
    {
        index_ = index;
        memory_.assign(launch_.shared_bytes, '\xff'); // NaN
        shadow_.assign(launch_.shared_bytes / 4, {});
        meetings_.assign(meetings_.size(), {});
        time_ = 0;
        at_barrier_ = finished_ = 0;
        for (u32 t = 0; t < fibers_.size(); ++t) {
            Fiber& fiber = fibers_[t];
            fiber.waiting = fiber.done = false;
            if (__asan_unpoison_memory_region) // of frames of the previous block
                __asan_unpoison_memory_region(fiber.bottom, fiber.size);
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.get();
            fiber.context.uc_stack.ss_size = fiber.size;
            fiber.context.uc_link = nullptr;
            const auto self = reinterpret_cast<std::uintptr_t>(this);
            makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Machine::enter), 3,
                        static_cast<u32>(self), static_cast<u32>(self >> 32), t);
        }
        current_ = launch_.backwards ? static_cast<u32>(fibers_.size()) - 1 : 0;
        switch_fiber(main_, fibers_[current_]);
        if (!error_.empty())
            throw std::runtime_error(error_);
        for (u32 t = 0; t < fibers_.size(); ++t)
            if (!copies_[t].empty() || !open_copies_[t].empty())
                throw std::runtime_error(str("block ", index_, ", thread ", t, ": ends before its copies"));
    }

    /// An abandoned stack must not own anything that must be freed.
    template <class... Parts>
    [[noreturn]] void fail(const Parts&... what)
    {
        error_ = str("block ", index_, ", thread ", current_, ": ", what...);
        switch_fiber(fibers_[current_], main_);
        std::abort(); // a failed block is not resumed
    }

    void sync()
    {
        if (meetings_[current_ / lanes].arrived > 0)
            fail("at a barrier while its warp is at ", meetings_[current_ / lanes].what);
        fibers_[current_].waiting = true;
        if (++at_barrier_ + finished_ < fibers_.size()) {
            while (fibers_[current_].waiting)
                pass_on();
            return;
        }
        if (finished_ > 0)
            fail("at a barrier that others have passed by");
        for (Fiber& fiber : fibers_)
            fiber.waiting = false;
        at_barrier_ = 0;
        ++time_;
    }

    /// Waits for the warp; the last thread to arrive does `work` for all.
    template <class Part, class Work>
    void together(const char* what, Part& part, const Work& work)
    {
        const u32 warp = current_ / lanes;
        Meeting& meeting = meetings_[warp];
        if (meeting.arrived > 0 && std::strcmp(meeting.what, what) != 0)
            fail("at ", what, " while its warp is at ", meeting.what);
        meeting.what = what;
        meeting.part[current_ % lanes] = &part;
        if (++meeting.arrived == lanes) {
            std::array<Part*, lanes> parts;
            for (u32 l = 0; l < lanes; ++l)
                parts[l] = static_cast<Part*>(meeting.part[l]);
            work(parts);
            meeting.arrived = 0;
            ++meeting.turn;
            return;
        }
        for (const u32 turn = meeting.turn; meeting.turn == turn;) {
            for (u32 l = warp * lanes; l < (warp + 1) * lanes; ++l)
                if (fibers_[l].waiting || fibers_[l].done)
                    fail("at ", what, " while thread ", l, " of its warp is elsewhere");
            pass_on();
        }
    }

    void sync_warp()
    {
        int nothing = 0;
        together("sync_warp", nothing, [&](auto&) { ++warp_time_[current_ / lanes]; });
    }

    // Shared memory.
    const char* read(u32 at, u32 size, u32 thread)
    {
        check_shared(at, size);
        for (u32 i = at / 4; i < (at + size) / 4; ++i) {
            Shadow& word = shadow_[i];
            if (word.copier != none)
                fail("reads shared byte ", 4 * i, " while the copy of thread ", word.copier, " is under way");
            if (!word.written)
                fail("reads shared byte ", 4 * i, ", which nothing has written");
            check_after_write(word, i, thread);
            if (word.read_time != time_) {
                word.read_time = time_;
                word.read_warps = 0;
                word.reader = thread;
            } else if (word.read_warps >> thread / lanes & 1) {
                const bool alone = word.reader == thread || word.read_warp_time != warp_time_[thread / lanes];
                word.reader = alone ? thread : none;
            } else
                word.reader = thread;
            word.read_warps |= 1u << thread / lanes;
            word.read_warp_time = warp_time_[thread / lanes];
        }
        return memory_.data() + at;
    }

    char* write(u32 at, u32 size, u32 thread)
    {
        check_shared(at, size);
        for (u32 i = at / 4; i < (at + size) / 4; ++i) {
            Shadow& word = shadow_[i];
            if (word.copier != none)
                fail("writes shared byte ", 4 * i, " while the copy of thread ", word.copier,
                     " is under way");
            if (word.written)
                check_after_write(word, i, thread);
            const u32 own = 1u << thread / lanes;
            if (word.read_time == time_ &&
                ((word.read_warps & ~own) || ((word.read_warps & own) && word.reader != thread &&
                                              word.read_warp_time == warp_time_[thread / lanes])))
                fail("writes shared byte ", 4 * i, ", which others read since the last barrier");
            word.written = true;
            word.writer = thread;
            word.write_time = time_;
            word.write_warp_time = warp_time_[thread / lanes];
        }
        return memory_.data() + at;
    }

    void copy(u32 to, const char* from)
    {
        write(to, 16, current_);
        for (u32 i = to / 4; i < to / 4 + 4; ++i)
            shadow_[i].copier = current_;
        open_copies_[current_].push_back({to, from});
    }
    void commit()
    {
        std::vector<Copy>& open = open_copies_[current_];
        copies_[current_].insert(copies_[current_].end(), open.begin(), open.end());
        open.clear();
    }
    void wait()
    {
        for (const Copy& copy : copies_[current_]) {
            for (u32 i = copy.to / 4; i < copy.to / 4 + 4; ++i)
                shadow_[i].copier = none;
            char* to = write(copy.to, 16, current_);
            copy.from ? std::memcpy(to, copy.from, 16) : std::memset(to, 0, 16);
        }
        copies_[current_].clear();
    }

    // Device memory.
    void check_read(const void* from, u32 size)
    {
        const char* at = static_cast<const char*>(from);
        check_aligned(at, size);
        for (const Launch::Range& range : launch_.ranges())
            if (at >= range.start && at + size <= range.start + range.size)
                return;
        fail("reads device memory that it was not given");
    }
    void check_write(const void* to, u32 size)
    {
        const char* at = static_cast<const char*>(to);
        check_aligned(at, size);
        for (std::size_t r = 0; r < launch_.ranges().size(); ++r) {
            const Launch::Range& range = launch_.ranges()[r];
            if (!range.writable || at < range.start || at + size > range.start + range.size)
                continue;
            for (std::size_t i = static_cast<std::size_t>(at - range.start) / 2; size > 0; ++i, size -= 2) {
                if (written_[r][i])
                    fail("writes an element of device memory twice");
                written_[r][i] = true;
            }
            return;
        }
        fail("writes device memory that it was not given");
    }

    u32 current() const { return current_; }

private:
    static void enter(u32 low, u32 high, u32 thread)
    {
        auto& machine = *reinterpret_cast<Machine*>(static_cast<std::uintptr_t>(high) << 32 | low);
        if (__sanitizer_finish_switch_fiber) {
            const bool from_main = machine.main_.bottom == nullptr;
            __sanitizer_finish_switch_fiber(nullptr, from_main ? &machine.main_.bottom : nullptr,
                                            from_main ? &machine.main_.size : nullptr);
        }
        Block block(machine, thread, machine.index_);
        machine.kernel_(block);
        machine.finish();
    }

    [[noreturn]] void finish()
    {
        const Meeting& meeting = meetings_[current_ / lanes];
        if (meeting.arrived > 0)
            fail("ends while its warp is at ", meeting.what);
        if (at_barrier_ > 0)
            for (u32 l = current_ / lanes * lanes; l < (current_ / lanes + 1) * lanes; ++l)
                if (fibers_[l].waiting)
                    fail("ends while others of its warp are at a barrier");
        fibers_[current_].done = true;
        if (++finished_ == fibers_.size())
            switch_fiber(fibers_[current_], main_);
        else
            pass_on();
        std::abort(); // a finished thread is not resumed
    }

    /// Switches to another thread that can continue: the next of the warp, then of the following warps.
    void pass_on()
    {
        const u32 count = static_cast<u32>(fibers_.size()), step = launch_.backwards ? lanes - 1 : 1;
        const u32 warps = count / lanes, warp_step = launch_.backwards ? warps - 1 : 1;
        u32 warp = current_ / lanes, lane = current_ % lanes;
        for (u32 w = 0; w <= warps; ++w) {
            for (u32 l = 0; l < lanes; ++l) {
                lane = (lane + step) % lanes;
                const u32 next = warp * lanes + lane;
                if (!fibers_[next].waiting && !fibers_[next].done) {
                    if (next == current_)
                        fail("waits for threads that have gone elsewhere");
                    Fiber& from = fibers_[current_];
                    current_ = next;
                    switch_fiber(from, fibers_[next]);
                    return;
                }
            }
            warp = (warp + warp_step) % warps;
        }
        fail("no thread can go on: some are at a barrier that others have passed by");
    }

    void check_shared(u32 at, u32 size)
    {
        if (at % size != 0)
            fail("shared byte ", at, " is not aligned to ", size);
        if (at + size > memory_.size())
            fail("shared byte ", at, " is beyond the ", memory_.size(), " of the block");
    }
    void check_aligned(const char* at, u32 size)
    {
        if (reinterpret_cast<std::uintptr_t>(at) % size != 0)
            fail("device memory is not aligned to ", size);
    }
    void check_after_write(const Shadow& word, u32 i, u32 thread)
    {
        const bool ordered =
            word.writer == thread || word.write_time < time_ ||
            (word.writer / lanes == thread / lanes && word.write_warp_time < warp_time_[thread / lanes]);
        if (!ordered)
            fail("thread ", thread, " uses shared byte ", 4 * i, ", which thread ", word.writer,
                 " wrote since the last barrier");
    }

    const Launch& launch_;
    const std::function<void(Block&)>& kernel_;
    std::vector<Fiber> fibers_;
    Fiber main_;
    std::vector<std::vector<Copy>> open_copies_, copies_; // of each thread: not yet in a group, and in one
    std::vector<Meeting> meetings_;
    std::vector<u32> warp_time_;
    std::vector<char> memory_;
    std::vector<Shadow> shadow_;
    std::vector<std::vector<bool>> written_; // of each range, by 2 bytes
    std::string error_;
    std::size_t at_barrier_ = 0, finished_ = 0;
    u32 time_ = 0, current_ = 0, index_ = 0;
};

} // namespace trivium::emulator
