#include "test_bed.hpp"

#include "kernels/runtime.hpp"

#include <chrono>
#include <cstring>
#include <new>

namespace trivium {

struct TestBed::Impl {
    std::string name = "the host, one thread";
    kernels::Runtime runtime{1};
};

std::string TestBed::missing() { return ""; }

TestBed::TestBed() : impl_(std::make_unique<Impl>()) {}
TestBed::~TestBed() = default;

const std::string& TestBed::name() const { return impl_->name; }
kernels::Exec TestBed::exec() const { return {1, nullptr}; }
Bytes TestBed::cache() const { return 1 << 10; } // small, like the sizes that are measured on it

std::shared_ptr<void> TestBed::allocate(Bytes bytes) const
{
    void* memory = ::operator new(static_cast<std::size_t>(bytes), std::align_val_t(256));
    std::memset(memory, 0xff, static_cast<std::size_t>(bytes));
    return {memory, [](void* data) { ::operator delete(data, std::align_val_t(256)); }};
}

void TestBed::write(void* to, const void* from, Bytes bytes) const
{
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void TestBed::copy(void* to, const void* from, Bytes bytes) const { write(to, from, bytes); }
void TestBed::read(void* to, const void* from, Bytes bytes) const { write(to, from, bytes); }

std::vector<Seconds> TestBed::time(int calls, const std::function<void(int)>& call) const
{
    std::vector<Seconds> seconds;
    for (int i = 0; i < calls; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        call(i);
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return seconds;
}

} // namespace trivium
