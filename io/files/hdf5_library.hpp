#pragma once
// What the sources of io/files/hdf5.hpp share. Private to them.
#include "io/files/hdf5.hpp"

#include "base/check.hpp"

#include <hdf5.h>
#include <mutex>

namespace trivium::h5 {

/// Held while a thread is inside the library; functions here call each other.
struct Lock {
    Lock();
    std::lock_guard<std::recursive_mutex> guard;
};

/// The library prints its errors unless told not to; once is enough (in some builds of it, once a thread).
void be_quiet();

/// HDF5's own innermost message on the last failed call.
std::string innermost_message();

[[noreturn]] void throw_failed(const std::string& place, const char* action);

/// The one check: `result` is what a library call returned, negative where it failed.
template <class Result>
Result check(Result result, const std::string& place, const char* action)
{
    if (result < 0)
        throw_failed(place, action);
    return result;
}

[[noreturn]] void throw_damaged(const std::string& place, const std::string& problem);

int close_file(Handle::Id id);
int close_dataset(Handle::Id id);
int close_group(Handle::Id id);
int close_space(Handle::Id id);
int close_plist(Handle::Id id);
int close_type(Handle::Id id);
int close_attribute(Handle::Id id);

hid_t memory_type(DType type);
inline std::vector<hsize_t> to_hsize(const std::vector<i64>& shape) { return {shape.begin(), shape.end()}; }

} // namespace trivium::h5
