// The emulated block itself: matrices against a plain product, and each error that it must detect.
#include "emulator.hpp"

#include "../reference.hpp"
#include "../support.hpp"

#include <stdexcept>

using namespace trivium;
using namespace trivium::kernels;
using emulator::Block;
using emulator::Launch;

namespace {

/// The error that run() reports; empty if there is none.
std::string error_of(const Launch& launch, const std::function<void(Block&)>& kernel)
{
    try {
        launch.run(kernel);
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "";
}

bool says(const std::string& text, const std::string& word)
{
    INFO(text);
    return text.find(word) != std::string::npos;
}

Launch two_warps()
{
    Launch launch;
    launch.threads = 64;
    launch.shared_bytes = 4096;
    return launch;
}

} // namespace

TEST_CASE("an emulated warp multiplies matrices from shared memory")
{
    const auto a = random<bf16>(16 * 16, "a"), right_nk = random<bf16>(16 * 16, "b");
    std::vector<bf16> right_kn(16 * 16);
    for (std::size_t k = 0; k < 16; ++k)
        for (std::size_t n = 0; n < 16; ++n)
            right_kn[k * 16 + n] = right_nk[n * 16 + k];
    const Doubles want = reference::product(16, 16, 16, false, true, wide(a).data(), wide(right_nk).data());
    for (const bool transposed : {false, true}) {
        const std::vector<bf16>& b = transposed ? right_kn : right_nk;
        std::vector<float> c(16 * 16);
        Launch launch;
        launch.shared_bytes = 1024; // a and b, each [16, 16], row by row
        launch.reads(a);
        launch.reads(b);
        launch.writes(c);
        launch.run([&](Block& block) {
            const u32 lane = block.thread(), row = lane / 2, half = lane % 2;
            block.copy_async(lane * 16, &a[row * 16 + half * 8], true);
            block.copy_async(512 + lane * 16, &b[row * 16 + half * 8], true);
            block.commit();
            block.wait();
            block.sync_warp();
            u32 left[4], right[4];
            // Down, then right, in the order of A's registers; likewise for B as [k, n]; for B as [n, k]
            // right, then down.
            block.load_matrices(left, lane % 16 * 32 + lane / 16 * 16);
            if (transposed)
                block.load_transposed(right, 512 + lane % 16 * 32 + lane / 16 * 16);
            else
                block.load_matrices(right, 512 + (lane % 8 + lane / 16 * 8) * 32 + lane / 8 % 2 * 16);
            for (u32 n = 0; n < 2; ++n) {
                float sum[4] = {};
                block.multiply(sum, left, right[2 * n], right[2 * n + 1]);
                for (u32 i = 0; i < 4; ++i)
                    block.store(&c[(lane / 4 + i / 2 * 8) * 16 + n * 8 + lane % 4 * 2 + i % 2], sum[i]);
            }
        });
        require_close(c, want, 1e-5, transposed ? "c, from b [k, n]" : "c, from b [n, k]");
    }
}

TEST_CASE("an emulated warp shuffles, packs and copies zeros")
{
    const std::vector<bf16> from(8, bf16(3));
    std::vector<float> to(64);
    Launch launch;
    launch.shared_bytes = 32;
    launch.reads(from);
    launch.writes(to);
    launch.run([&](Block& block) {
        const u32 lane = block.thread();
        block.store(&to[lane], block.shuffle_xor(static_cast<float>(lane), 5));
        if (lane < 2)
            block.copy_async(lane * 16, from.data(), lane == 0);
        block.commit();
        block.wait();
        block.sync();
        block.store(&to[32 + lane], static_cast<float>(block.load_shared(lane % 2 * 16).word[3]));
    });
    for (u32 lane = 0; lane < 32; ++lane) {
        CHECK(to[lane] == static_cast<float>(lane ^ 5));
        CHECK(to[32 + lane] == (lane % 2 ? 0.0f : static_cast<float>(0x40404040u)));
    }
}

TEST_CASE("races between threads are found")
{
    Launch launch = two_warps();
    const auto exchange = [&](auto between) {
        return error_of(launch, [&](Block& block) {
            block.store_shared(block.thread() * 4, 0);
            block.sync();
            block.store_shared(block.thread() * 4, block.thread());
            between(block);
            block.load_shared((block.thread() ^ 32) / 4 * 16);
        });
    };
    for (const bool backwards : {false, true}) {
        launch.backwards = backwards;
        CHECK(exchange([](Block& block) { block.sync(); }) == "");
        CHECK(says(exchange([](Block& block) { block.sync_warp(); }), "since the last barrier"));
        CHECK(says(exchange([](Block&) {}), "since the last barrier"));
    }
    // Within a warp.
    const auto neighbours = [&](auto between) {
        return error_of(launch, [&](Block& block) {
            block.store_shared(block.thread() * 4, block.thread());
            block.shuffle_xor(0, 1); // lanes synchronise, but their memory accesses are not ordered
            between(block);
            block.load_shared(block.thread() / 4 * 16);
        });
    };
    CHECK(neighbours([](Block& block) { block.sync_warp(); }) == "");
    CHECK(says(neighbours([](Block&) {}), "wrote since the last barrier"));
    // A write after reads of other threads.
    const auto overwrite = [&](auto between) {
        return error_of(launch, [&](Block& block) {
            block.store_shared(block.thread() * 4, 1);
            block.sync();
            block.load_shared(0);
            between(block);
            if (block.thread() == 63)
                block.store_shared(0, 2);
        });
    };
    CHECK(overwrite([](Block& block) { block.sync(); }) == "");
    CHECK(says(overwrite([](Block& block) { block.sync_warp(); }), "others read since the last barrier"));
}

TEST_CASE("copies without a wait are found")
{
    const std::vector<bf16> from(64 * 8);
    Launch launch = two_warps();
    launch.reads(from);
    const auto copy = [&](auto after) {
        return error_of(launch, [&](Block& block) {
            block.copy_async(block.thread() * 16, from.data() + block.thread() * 8, true);
            after(block);
            block.load_shared(block.thread() * 16);
        });
    };
    CHECK(copy([](Block& block) { block.commit(), block.wait(); }) == "");
    CHECK(says(copy([](Block& block) { block.commit(); }), "is under way"));
    CHECK(says(copy([](Block& block) { block.wait(); }), "is under way")); // not in a group
    CHECK(says(
        error_of(launch, [&](Block& block) { block.copy_async(block.thread() * 16, from.data(), true); }),
        "ends before its copies"));
    CHECK(says(error_of(launch,
                        [&](Block& block) {
                            block.store_shared(block.thread() * 16, 0);
                            if (block.thread() == 0)
                                block.copy_async(16, from.data(), true);
                        }),
               "writes shared byte 16 while the copy of thread 0"));
}

TEST_CASE("memory out of bounds, not written, or written twice, is found")
{
    std::vector<bf16> from(8);
    std::vector<float> to(32);
    Launch launch = two_warps();
    launch.reads(from);
    launch.writes(to);
    const auto error = [&](const std::function<void(Block&)>& kernel) { return error_of(launch, kernel); };
    CHECK(says(error([](Block& block) { block.load_shared(0); }), "nothing has written"));
    CHECK(says(error([](Block& block) { block.store_shared(4096, 0); }), "beyond the 4096"));
    CHECK(says(error([](Block& block) { block.store_shared(2, 0); }), "not aligned"));
    CHECK(says(error([&](Block& block) { block.load(from.data() + 8); }), "reads device memory"));
    CHECK(says(error([&](Block& block) { block.store(from.data(), {}); }), "writes device memory"));
    CHECK(says(error([&](Block& block) { block.store(&to[block.thread() % 32], 0); }), "twice"));
    CHECK(error([&](Block& block) { block.thread() < 32 ? block.store(&to[block.thread()], 0) : void(); }) ==
          "");
}

TEST_CASE("divergent threads are found")
{
    const Launch launch = two_warps();
    CHECK(says(error_of(launch,
                        [](Block& block) {
                            if (block.thread() != 40)
                                block.sync();
                        }),
               "barrier"));
    CHECK(says(error_of(launch,
                        [](Block& block) {
                            if (block.thread() != 40)
                                block.sync_warp();
                        }),
               "sync_warp"));
    CHECK(says(error_of(launch, [](Block& block) { block.thread() < 7 ? block.sync_warp() : block.sync(); }),
               "at "));
    CHECK(says(error_of(launch,
                        [](Block& block) {
                            if (block.thread() < 32)
                                block.sync();
                        }),
               "barrier"));
}
