#include "lend.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

/// Before the tests, which cannot be skipped one by one: without a device, all are skipped. CTest searches
/// for the word.
const bool ready = [] {
    const char* reason = nullptr;
    if (trivium::kernels::usable_devices(&reason) == 0) {
        std::printf("skipped: no %s (%s)\n", trivium::kernels::device_kind(), reason);
        std::exit(0);
    }
    return true;
}();

} // namespace
