#include "io/files/hdf5_library.hpp"

#include "io/files/files.hpp"

#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

namespace trivium::h5 {

static_assert(std::is_same_v<Handle::Close, decltype(&H5Fclose)>);

namespace {

std::recursive_mutex& library_mutex()
{
    static std::recursive_mutex mutex;
    return mutex;
}

/// At exit, and in MPI_Finalize, the library closes open files and crashes on one that could not be closed
/// because the disk is full. Every file here has an owner that closes it, so the library need not:
/// H5dont_atexit() comes before H5open(), and H5open() before MPI_Init, so that it registers no such hook.
const bool started = [] {
    H5dont_atexit();
    return H5open() >= 0;
}();

} // namespace

Lock::Lock() : guard(library_mutex()) {}

void unlock_in_child() { new (&library_mutex()) std::recursive_mutex; }

void silence_errors()
{
    static thread_local const bool done = [] {
        TRV_CHECK(started, "HDF5 cannot be initialised");
        H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
        return true;
    }();
    static_cast<void>(done);
}

Failure last_failure()
{
    Failure failure;
    H5Ewalk2(
        H5E_DEFAULT, H5E_WALK_UPWARD,
        [](unsigned depth, const H5E_error2_t* error, void* data) -> herr_t {
            auto& last = *static_cast<Failure*>(data);
            const std::string text = error->desc == nullptr ? "" : error->desc;
            if (depth == 0 && !text.empty())
                last.message = text;
            constexpr std::string_view number = "errno = "; // how the library reports a failed system call
            if (const std::size_t at = text.find(number); at != std::string::npos && last.error == 0)
                last.error = std::atoi(text.c_str() + at + number.size());
            return 0;
        },
        &failure);
    H5Eclear2(H5E_DEFAULT);
    return failure;
}

void throw_failed(const std::string& place, const char* action)
{
    const Failure failure = last_failure();
    if (failure.error != 0)
        throw_errno(place, action, failure.error);
    throw IoError({place, str("HDF5 cannot ", action), failure.message,
                   "check free space, permissions and the file (h5dump -H prints it)"});
}

void throw_damaged(const std::string& place, const std::string& problem)
{
    throw UserError(
        {place, problem, "the file is of another kind, or damaged", "check the path; make the file again"});
}

hid_t memory_type(DType type)
{
    switch (type) {
    case DType::u8: return H5T_NATIVE_UINT8;
    case DType::u16: return H5T_NATIVE_UINT16;
    case DType::u32: return H5T_NATIVE_UINT32;
    case DType::i32: return H5T_NATIVE_INT32;
    case DType::i64: return H5T_NATIVE_INT64;
    case DType::u64: return H5T_NATIVE_UINT64;
    case DType::f32: return H5T_NATIVE_FLOAT;
    case DType::f64: return H5T_NATIVE_DOUBLE;
    case DType::bf16: break;
    }
    throw InternalError(__FILE__, __LINE__, str("HDF5 has no type for ", name_of(type)));
}

Handle::Handle(Handle&& other) noexcept
    : id_(std::exchange(other.id_, -1)), close_(std::exchange(other.close_, nullptr))
{
}

Handle& Handle::operator=(Handle&& other) noexcept
{
    if (this != &other) {
        reset();
        id_ = std::exchange(other.id_, -1);
        close_ = std::exchange(other.close_, nullptr);
    }
    return *this;
}

int Handle::reset()
{
    const Id id = std::exchange(id_, -1);
    if (id < 0)
        return 0;
    const Lock lock;
    const int result = close_(id);
    close_ = nullptr;
    return result;
}

} // namespace trivium::h5
