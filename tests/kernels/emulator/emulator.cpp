#include "emulator.hpp"

#include "base/check.hpp"
#include "machine.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace trivium::emulator {

void Launch::run(const std::function<void(Block&)>& kernel) const
{
    Machine machine(*this, kernel);
    for (u32 i = 0; i < blocks; ++i)
        machine.run(backwards ? blocks - 1 - i : i);
}

void Block::sync() { machine_.sync(); }
void Block::sync_warp() { machine_.sync_warp(); }

void Block::copy_async(u32 to, const bf16* from, bool inside)
{
    if (inside)
        machine_.check_read(from, 16);
    machine_.copy(to, inside ? reinterpret_cast<const char*>(from) : nullptr);
}
void Block::copy_async(u32 to, const float* from)
{
    machine_.check_read(from, 16);
    machine_.copy(to, reinterpret_cast<const char*>(from));
}
void Block::commit() { machine_.commit(); }
void Block::wait() { machine_.wait(); }

namespace {

float wide(u32 word, u32 half)
{
    const u32 bits = half ? word & 0xffff0000u : word << 16;
    return __builtin_bit_cast(float, bits);
}

struct Matrices {
    u32 at;
    u32* to;
};

u32 half_of(const char* row, u32 column)
{
    std::uint16_t bits;
    std::memcpy(&bits, row + 2 * column, 2);
    return bits;
}

/// PTX ISA, ldmatrix: lane 8 m + r provides the address of row r of matrix m; of each matrix, lane l gets the
/// elements 2 (l % 4) and the next of row l / 4, with .trans of column l / 4.
void load_four(Machine& machine, const char* what, u32 (&to)[4], u32 at, bool transposed)
{
    Matrices part{at, to};
    machine.together(what, part, [&](const std::array<Matrices*, lanes>& parts) {
        const u32 warp = machine.current() / lanes;
        for (u32 m = 0; m < 4; ++m) {
            const char* row[8];
            for (u32 r = 0; r < 8; ++r)
                row[r] = machine.read(parts[8 * m + r]->at, 16, warp * lanes + 8 * m + r);
            for (u32 l = 0; l < lanes; ++l) {
                const u32 i = l / 4, j = l % 4 * 2;
                parts[l]->to[m] = transposed ? half_of(row[j], i) | half_of(row[j + 1], i) << 16
                                             : half_of(row[i], j) | half_of(row[i], j + 1) << 16;
            }
        }
    });
}

struct Factors {
    float* c;
    const u32* a;
    u32 b[2];
};

} // namespace

void Block::load_matrices(u32 (&to)[4], u32 at) { load_four(machine_, "ldmatrix", to, at, false); }
void Block::load_transposed(u32 (&to)[4], u32 at) { load_four(machine_, "ldmatrix.trans", to, at, true); }

/// PTX ISA, fragments of mma.m16n8k16 with .bf16, with group = lane / 4 and inner = lane % 4:
///   a_i: row group (i = 0, 1, 4, 5) or group + 8; column 2 inner + (i & 1), and 8 more for i >= 4
///   b_i: row 2 inner + (i & 1), and 8 more for i >= 2; column group
///   c_i: row group (i < 2) or group + 8; column 2 inner + (i & 1)
void Block::multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    Factors part{c, a, {b0, b1}};
    machine_.together("mma", part, [](const std::array<Factors*, lanes>& parts) {
        float left[16][16], right[16][8];
        for (u32 l = 0; l < lanes; ++l) {
            const u32 group = l / 4, inner = l % 4;
            for (u32 i = 0; i < 8; ++i) {
                const u32 row = i == 0 || i == 1 || i == 4 || i == 5 ? group : group + 8;
                left[row][2 * inner + (i & 1) + (i >= 4 ? 8 : 0)] = wide(parts[l]->a[i / 2], i & 1);
            }
            for (u32 i = 0; i < 4; ++i)
                right[2 * inner + (i & 1) + (i >= 2 ? 8 : 0)][group] = wide(parts[l]->b[i / 2], i & 1);
        }
        for (u32 l = 0; l < lanes; ++l)
            for (u32 i = 0; i < 4; ++i) {
                const u32 row = i < 2 ? l / 4 : l / 4 + 8, column = 2 * (l % 4) + (i & 1);
                float sum = parts[l]->c[i];
                for (u32 k = 0; k < 16; ++k)
                    sum += left[row][k] * right[k][column];
                parts[l]->c[i] = sum;
            }
    });
}

Words Block::load_shared(u32 at)
{
    Words words;
    std::memcpy(&words, machine_.read(at, 16, thread_), 16);
    return words;
}
void Block::store_shared(u32 at, u32 word) { std::memcpy(machine_.write(at, 4, thread_), &word, 4); }

Words Block::load(const bf16* from)
{
    machine_.check_read(from, 16);
    Words words;
    std::memcpy(&words, from, 16);
    return words;
}
float Block::load_float(const float* from)
{
    machine_.check_read(from, 4);
    return *from;
}
void Block::store(bf16* to, const Words& words)
{
    machine_.check_write(to, 16);
    std::memcpy(static_cast<void*>(to), &words, 16);
}
void Block::store(float* to, float value)
{
    machine_.check_write(to, 4);
    *to = value;
}

float Block::shuffle_xor(float value, u32 mask)
{
    struct Part {
        float give, get;
    } part{value, 0};
    machine_.together("shuffle", part, [mask](const std::array<Part*, lanes>& parts) {
        for (u32 l = 0; l < lanes; ++l)
            parts[l]->get = parts[l ^ mask]->give;
    });
    return part.get;
}

float Block::exp2(float x) { return std::exp2(x); }

u32 Block::pack(float low, float high)
{
    return static_cast<u32>(bf16(low).bits) | static_cast<u32>(bf16(high).bits) << 16;
}

} // namespace trivium::emulator
