#include "test_bed.hpp"

#include "kernels/device/fill.hpp"
#include "kernels/device/memory.hpp"
#include "kernels/device/vendor.hpp"
#include "runtime/device.hpp"
#include "runtime/device/staging.hpp"

#include <algorithm>

namespace trivium {

struct TestBed::Impl {
    Computing computing{1};
    Device device;
    Stream stream{device};
    Bytes cache = kernels::facts_of(device.index()).cache;
};

std::string TestBed::missing()
{
    const char* reason = nullptr;
    return kernels::usable_devices(&reason) > 0 ? "" : std::string("no device (") + reason + ")";
}

TestBed::TestBed() : impl_(std::make_unique<Impl>()) {}
TestBed::~TestBed() = default;

const std::string& TestBed::name() const { return impl_->device.name(); }
kernels::Exec TestBed::exec() const { return impl_->stream.exec(); }
Bytes TestBed::cache() const { return impl_->cache; }

std::shared_ptr<void> TestBed::allocate(Bytes bytes) const
{
    const auto block = std::make_shared<kernels::DeviceBlock>("an array", std::max<Bytes>(1, bytes));
    kernels::fill(exec(), block->data(), 0xff, bytes);
    return {block, block->data()};
}

void TestBed::write(void* to, const void* from, Bytes bytes) const
{
    copy_to_device(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

void TestBed::copy(void* to, const void* from, Bytes bytes) const
{
    kernels::copy_on_device(exec(), to, from, bytes);
}

void TestBed::read(void* to, const void* from, Bytes bytes) const
{
    copy_to_host(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

std::vector<Seconds> TestBed::time(int calls, const std::function<void(int)>& call) const
{
    std::vector<kernels::DeviceEvent> events;
    for (int i = 0; i <= calls; ++i)
        events.emplace_back(true);
    events[0].record(impl_->stream.native());
    for (int i = 0; i < calls; ++i) {
        call(i);
        events[static_cast<std::size_t>(i) + 1].record(impl_->stream.native());
    }
    impl_->stream.wait();
    std::vector<Seconds> seconds;
    for (std::size_t i = 1; i < events.size(); ++i)
        seconds.push_back(events[i].since(events[i - 1]));
    return seconds;
}

} // namespace trivium
