#include "io/files/hdf5_library.hpp"

#include "io/files/files.hpp"

#include <algorithm>
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

namespace {

constexpr std::size_t longest_attribute = std::size_t{1} << 20;

/// IEEE's binary16, of which older versions have no name.
hid_t half_type()
{
    static const hid_t type = [] {
        const hid_t made = H5Tcopy(H5T_IEEE_F32LE);
        const bool good = made >= 0 && H5Tset_fields(made, 15, 10, 5, 0, 10) >= 0 &&
                          H5Tset_size(made, 2) >= 0 && H5Tset_ebias(made, 15) >= 0;
        TRV_CHECK(good, "HDF5 cannot describe f16");
        return made;
    }();
    return type;
}

} // namespace

hid_t memory_type(DType type)
{
    switch (type) {
    case DType::i8: return H5T_NATIVE_INT8;
    case DType::u8: return H5T_NATIVE_UINT8;
    case DType::i16: return H5T_NATIVE_INT16;
    case DType::u16: return H5T_NATIVE_UINT16;
    case DType::u32: return H5T_NATIVE_UINT32;
    case DType::i32: return H5T_NATIVE_INT32;
    case DType::i64: return H5T_NATIVE_INT64;
    case DType::u64: return H5T_NATIVE_UINT64;
    case DType::f16: return half_type();
    case DType::f32: return H5T_NATIVE_FLOAT;
    case DType::f64: return H5T_NATIVE_DOUBLE;
    case DType::bf16: break;
    }
    throw InternalError(__FILE__, __LINE__, str("HDF5 has no type for ", name_of(type)));
}

Handle space_of(const std::vector<i64>& shape, const std::string& place, const char* action)
{
    const std::vector<hsize_t> extents = to_hsize(shape);
    return {check(shape.empty() ? H5Screate(H5S_SCALAR)
                                : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                  place, action),
            H5Sclose};
}

Handle make_attribute(Handle::Id of, const std::string& place, const std::string& name, Handle::Id type,
                      const Handle& space)
{
    return {check(H5Acreate2(of, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), place,
                  "make an attribute"),
            H5Aclose};
}

Attribute open_attribute(Handle::Id of, const std::string& place, const std::string& name)
{
    if (H5Aexists(of, name.c_str()) <= 0)
        throw_damaged(place, str("has no attribute '", name, "'"));
    Handle id(check(H5Aopen(of, name.c_str(), H5P_DEFAULT), place, "open an attribute"), H5Aclose);
    Handle type(check(H5Aget_type(id.get()), place, "read an attribute"), H5Tclose);
    const Handle space(check(H5Aget_space(id.get()), place, "read an attribute"), H5Sclose);
    const i64 count = check(H5Sget_simple_extent_npoints(space.get()), place, "read an attribute");
    return {std::move(id), std::move(type), count};
}

std::string text_of(const Attribute& found, const std::string& place, const std::string& name)
{
    if (H5Tget_class(found.type.get()) != H5T_STRING || found.count != 1)
        throw_damaged(place, str("its attribute '", name, "' is not text"));
    if (H5Tis_variable_str(found.type.get()) > 0) {
        char* text = nullptr;
        check(H5Aread(found.id.get(), found.type.get(), &text), place, "read an attribute");
        const std::string value = text == nullptr ? "" : text;
        H5free_memory(text);
        return value;
    }
    const std::size_t size = H5Tget_size(found.type.get());
    if (size > longest_attribute)
        throw_damaged(place, str("its attribute '", name, "' has ", size, " bytes"));
    std::string value(size, '\0');
    check(H5Aread(found.id.get(), found.type.get(), value.data()), place, "read an attribute");
    value.resize(std::min(value.size(), value.find('\0')));
    return value;
}

void set_attribute(Handle::Id of, const std::string& place, const std::string& name, Handle::Id type,
                   Handle::Id memory, const void* value)
{
    const Lock lock;
    const Handle id = make_attribute(of, place, name, type, space_of({}, place, "describe an attribute"));
    check(H5Awrite(id.get(), memory, value), place, "write an attribute");
}

void set_text(Handle::Id of, const std::string& place, const std::string& name, const std::string& value)
{
    const Lock lock;
    const Handle type(check(H5Tcopy(H5T_C_S1), place, "describe text"), H5Tclose);
    check(H5Tset_size(type.get(), value.size() + 1), place, "describe text");
    check(H5Tset_cset(type.get(), H5T_CSET_UTF8), place, "describe text");
    set_attribute(of, place, name, type.get(), type.get(), value.c_str());
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
