#pragma once
// Private to the sources of io/files/hdf5.hpp and io/files/in_child.hpp.
#include "io/files/hdf5.hpp"

#include "base/check.hpp"

#include <hdf5.h>
#include <mutex>

namespace trivium::h5 {

/// Held while a thread is inside the library. Recursive, because functions here call each other.
struct Lock {
    Lock();
    std::lock_guard<std::recursive_mutex> guard;
};

/// In a child process that was forked under a Lock: releases the lock, whose owner is a thread of the parent.
void unlock_in_child();

/// Stops the library from printing errors in this thread (some builds keep the setting per thread).
void silence_errors();

/// Why a call of the library failed.
struct Failure {
    std::string message = "HDF5 reports no reason"; ///< the innermost message
    int error = 0;                                  ///< errno, if a system call failed
};
/// The failure of this thread's last call; clears it.
Failure last_failure();

/// Throws last_failure(): as throw_errno if a system call failed, otherwise an IoError.
[[noreturn]] void throw_failed(const std::string& place, const char* action);

/// Checks the result of a library call; negative means failure.
template <class Result>
Result check(Result result, const std::string& place, const char* action)
{
    if (result < 0)
        throw_failed(place, action);
    return result;
}

[[noreturn]] void throw_damaged(const std::string& place, const std::string& problem);

/// HDF5's native type. InternalError for bf16, which HDF5 lacks.
hid_t memory_type(DType type);
inline std::vector<hsize_t> to_hsize(const std::vector<i64>& shape) { return {shape.begin(), shape.end()}; }
/// The space of an array of this shape, of one value if the shape is empty.
Handle space_of(const std::vector<i64>& shape, const std::string& place, const char* action);

// ---- attributes of the object `of`. \pre a Lock

/// An attribute, open for reading.
struct Attribute {
    Handle id, type;
    i64 count = 0; ///< elements
};
/// UserError if it is missing.
Attribute open_attribute(Handle::Id of, const std::string& place, const std::string& name);
/// UserError if it is not one text.
std::string text_of(const Attribute& found, const std::string& place, const std::string& name);
/// Makes an attribute.
Handle make_attribute(Handle::Id of, const std::string& place, const std::string& name, Handle::Id type,
                      const Handle& space);
/// Makes an attribute of one value, which is `memory` here and `type` in the file; or of one text.
void set_attribute(Handle::Id of, const std::string& place, const std::string& name, Handle::Id type,
                   Handle::Id memory, const void* value);
void set_text(Handle::Id of, const std::string& place, const std::string& name, const std::string& value);

} // namespace trivium::h5
