#include "io/hdf5.hpp"

#include "base/check.hpp"
#include "io/files.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <hdf5.h>
#include <mutex>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace trivium::h5 {

static_assert(std::is_same_v<Handle::Id, hid_t> || sizeof(Handle::Id) == sizeof(hid_t));

namespace {

/// Held while a thread is inside the library; functions here call each other.
std::recursive_mutex& library_mutex()
{
    static std::recursive_mutex mutex;
    return mutex;
}

struct Lock {
    std::lock_guard<std::recursive_mutex> guard{library_mutex()};
};

/// The library closes what is still open when the process or MPI ends, and crashes over a file that a full disk has
/// kept from closing. Every file here has an owner, so it need not: asked before its start, and started before MPI, it
/// stays out of both ends.
const bool started = [] {
    H5dont_atexit();
    return H5open() >= 0;
}();

/// The library prints its errors unless told not to; once is enough (in some builds of it, once a thread).
void be_quiet()
{
    static thread_local const bool done = [] {
        TRV_CHECK(started, "HDF5 does not start");
        H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
        return true;
    }();
    static_cast<void>(done);
}

/// HDF5's own innermost message on the last failed call.
std::string innermost_message()
{
    std::string message = "HDF5 gives no reason";
    H5Ewalk2(
        H5E_DEFAULT, H5E_WALK_UPWARD,
        [](unsigned depth, const H5E_error2_t* error, void* data) -> herr_t {
            if (depth == 0 && error->desc != nullptr)
                *static_cast<std::string*>(data) = error->desc;
            return 0;
        },
        &message);
    H5Eclear2(H5E_DEFAULT);
    return message;
}

/// The one check: `result` is what a library call returned, negative where it failed.
template <class Result>
Result check(Result result, const std::string& place, const char* action)
{
    if (result < 0)
        throw IoError({place, str("HDF5 cannot ", action), innermost_message(),
                       "check free space, permissions and the file (h5dump -H prints it)"});
    return result;
}

[[noreturn]] void throw_damaged(const std::string& place, const std::string& problem)
{
    throw UserError({place, problem, "the file is of another kind, or damaged", "check the path; make the file again"});
}

int close_file(Handle::Id id) { return H5Fclose(id); }
int close_dataset(Handle::Id id) { return H5Dclose(id); }
int close_space(Handle::Id id) { return H5Sclose(id); }
int close_plist(Handle::Id id) { return H5Pclose(id); }
int close_type(Handle::Id id) { return H5Tclose(id); }
int close_attribute(Handle::Id id) { return H5Aclose(id); }

hid_t memory_type(Type type)
{
    switch (type) {
    case Type::u8: return H5T_NATIVE_UINT8;
    case Type::u16: return H5T_NATIVE_UINT16;
    case Type::u32: return H5T_NATIVE_UINT32;
    case Type::i32: return H5T_NATIVE_INT32;
    case Type::i64: return H5T_NATIVE_INT64;
    case Type::u64: return H5T_NATIVE_UINT64;
    case Type::f32: return H5T_NATIVE_FLOAT;
    case Type::f64: return H5T_NATIVE_DOUBLE;
    }
    TRV_CHECK(false, "no such type");
    return -1;
}

constexpr std::size_t longest_attribute = std::size_t{1} << 20;
constexpr Type all_types[] = {Type::u8, Type::u16, Type::u32, Type::i32, Type::i64, Type::u64, Type::f32, Type::f64};

std::vector<hsize_t> to_hsize(const std::vector<i64>& shape) { return {shape.begin(), shape.end()}; }

/// Elements [begin, begin + count) as a file selection.
Handle select(const Dataset& dataset, Handle::Id id, const std::string& place, i64 begin, i64 count)
{
    TRV_CHECK(begin >= 0 && count >= 0 && begin + count <= dataset.count(), place, ": ", begin, " + ", count, " of ",
              dataset.count());
    Handle space(check(H5Dget_space(id), place, "read the shape"), close_space);
    if (begin == 0 && count == dataset.count())
        return space;
    TRV_CHECK(dataset.shape().size() == 1, place, ": a part of ", dataset.shape().size(), " dimensions");
    const auto start = static_cast<hsize_t>(begin), extent = static_cast<hsize_t>(count);
    check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &extent, nullptr), place, "select");
    return space;
}

Handle memory_space(const std::string& place, i64 count)
{
    const auto extent = static_cast<hsize_t>(count);
    return {check(H5Screate_simple(1, &extent, nullptr), place, "describe memory"), close_space};
}

} // namespace

Bytes size_of(Type type)
{
    switch (type) {
    case Type::u8: return 1;
    case Type::u16: return 2;
    case Type::u32:
    case Type::i32:
    case Type::f32: return 4;
    default: return 8;
    }
}

const char* name_of(Type type)
{
    static const char* const names[] = {"u8", "u16", "u32", "i32", "i64", "u64", "f32", "f64"};
    return names[static_cast<int>(type)];
}

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(std::exchange(other.close_, nullptr)) {}

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

i64 Dataset::count() const
{
    i64 elements = 1;
    for (const i64 extent : shape_)
        elements *= extent;
    return elements;
}

Bytes Dataset::file_offset() const
{
    const Lock lock;
    const haddr_t offset = H5Dget_offset(id_.get());
    if (offset == HADDR_UNDEF)
        throw_damaged(place_, "is not one contiguous piece of the file");
    return static_cast<Bytes>(offset);
}

void Dataset::write(i64 begin, i64 count, Type type, const void* data)
{
    if (count == 0)
        return;
    const Lock lock;
    const Handle file = select(*this, id_.get(), place_, begin, count), memory = memory_space(place_, count);
    check(H5Dwrite(id_.get(), memory_type(type), memory.get(), file.get(), H5P_DEFAULT, data), place_, "write");
}

void Dataset::read(i64 begin, i64 count, Type type, void* data) const
{
    if (count == 0)
        return;
    const Lock lock;
    const Handle file = select(*this, id_.get(), place_, begin, count), memory = memory_space(place_, count);
    check(H5Dread(id_.get(), memory_type(type), memory.get(), file.get(), H5P_DEFAULT, data), place_, "read");
}

void Dataset::read_box(const Box& part, Type type, const Shape& into, const Shape& at, void* data) const
{
    TRV_CHECK(part.shape.size() == shape_.size() && into.size() == shape_.size(), place_, ": a box of ", part.shape.size(), " dimensions");
    const Lock lock;
    const Handle file(check(H5Dget_space(id_.get()), place_, "read the shape"), close_space);
    if (shape_.empty()) {
        check(H5Dread(id_.get(), memory_type(type), H5S_ALL, file.get(), H5P_DEFAULT, data), place_, "read");
        return;
    }
    const std::vector<hsize_t> extents = to_hsize(part.shape), array = to_hsize(into), from = to_hsize(part.offset), to = to_hsize(at);
    const Handle memory(check(H5Screate_simple(static_cast<int>(array.size()), array.data(), nullptr), place_, "describe memory"), close_space);
    check(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, from.data(), nullptr, extents.data(), nullptr), place_, "select");
    check(H5Sselect_hyperslab(memory.get(), H5S_SELECT_SET, to.data(), nullptr, extents.data(), nullptr), place_, "select");
    TRV_CHECK(H5Sselect_valid(file.get()) > 0 && H5Sselect_valid(memory.get()) > 0, place_, ": a box leaves the dataset or the array");
    check(H5Dread(id_.get(), memory_type(type), memory.get(), file.get(), H5P_DEFAULT, data), place_, "read");
}

void Dataset::set(const std::string& attribute, const std::vector<i64>& values)
{
    const Lock lock;
    const auto count = static_cast<hsize_t>(values.size());
    const Handle space(check(values.empty() ? H5Screate(H5S_NULL) : H5Screate_simple(1, &count, nullptr), place_, "describe an attribute"), close_space);
    const Handle id(check(H5Acreate2(id_.get(), attribute.c_str(), H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT), place_,
                          "make an attribute"),
                    close_attribute);
    if (!values.empty())
        check(H5Awrite(id.get(), H5T_NATIVE_INT64, values.data()), place_, "write an attribute");
}

std::vector<i64> Dataset::get_integers(const std::string& attribute) const
{
    const Lock lock;
    if (H5Aexists(id_.get(), attribute.c_str()) <= 0)
        throw_damaged(place_, str("has no attribute '", attribute, "'"));
    const Handle id(check(H5Aopen(id_.get(), attribute.c_str(), H5P_DEFAULT), place_, "open an attribute"), close_attribute);
    const Handle type(check(H5Aget_type(id.get()), place_, "read an attribute"), close_type);
    const Handle space(check(H5Aget_space(id.get()), place_, "read an attribute"), close_space);
    const hssize_t count = check(H5Sget_simple_extent_npoints(space.get()), place_, "read an attribute");
    if (H5Tget_class(type.get()) != H5T_INTEGER || count > static_cast<hssize_t>(longest_attribute))
        throw_damaged(place_, str("its attribute '", attribute, "' is no list of whole numbers"));
    std::vector<i64> values(static_cast<std::size_t>(count));
    if (count > 0)
        check(H5Aread(id.get(), H5T_NATIVE_INT64, values.data()), place_, "read an attribute");
    return values;
}

File File::create(const std::string& path, Bytes reserved)
{
    const Lock lock;
    be_quiet();
    File file;
    file.path_ = path;
    const Handle creation(check(H5Pcreate(H5P_FILE_CREATE), path, "prepare"), close_plist);
    check(H5Pset_userblock(creation.get(), static_cast<hsize_t>(reserved)), path, "reserve the first bytes");
    file.id_ = Handle(check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), path, "create the file"), close_file);
    return file;
}

File File::open(const std::string& path)
{
    const Lock lock;
    be_quiet();
    const Bytes bytes = file_size(path, "file"); // the errors of a path that is no file
    File file;
    file.path_ = path;
    file.bytes_ = bytes;
    const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    if (id < 0) {
        const std::string reason = innermost_message();
        const bool truncated = reason.find("truncated") != std::string::npos;
        throw UserError({path, truncated ? "is truncated" : bytes == 0 ? "is empty" : "is no readable HDF5 file", reason,
                         truncated ? "copy it again whole, or make it again" : "check the path; make the file again if it is damaged"});
    }
    file.id_ = Handle(id, close_file);
    return file;
}

void File::reserve(Bytes bytes)
{
    const Lock lock;
    void* descriptor = nullptr; // of the library's file
    check(H5Fget_vfd_handle(id_.get(), H5P_DEFAULT, &descriptor), path_, "find the file's descriptor");
    int result = 0;
    do
        result = ::fallocate(*static_cast<const int*>(descriptor), 0, 0, bytes);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        reserved_ = bytes;
    else if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
        throw_errno(path_, str("write ", format_bytes(bytes)));
}

void File::close()
{
    const Lock lock;
    check(H5Fflush(id_.get(), H5F_SCOPE_GLOBAL), path_, "write the file");
    hsize_t used = 0;
    check(H5Fget_filesize(id_.get(), &used), path_, "tell the file's size");
    check(id_.reset(), path_, "close the file");
    if (reserved_ > static_cast<Bytes>(used) && ::truncate(path_.c_str(), static_cast<off_t>(used)) != 0)
        throw_errno(path_, "write");
}

void File::set(const std::string& attribute, i64 value)
{
    const Lock lock;
    const Handle space(check(H5Screate(H5S_SCALAR), path_, "describe an attribute"), close_space);
    const Handle id(check(H5Acreate2(id_.get(), attribute.c_str(), H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT), path_,
                          "make an attribute"),
                    close_attribute);
    check(H5Awrite(id.get(), H5T_NATIVE_INT64, &value), path_, "write an attribute");
}

void File::set(const std::string& attribute, const std::string& value)
{
    const Lock lock;
    const Handle space(check(H5Screate(H5S_SCALAR), path_, "describe an attribute"), close_space);
    const Handle type(check(H5Tcopy(H5T_C_S1), path_, "describe text"), close_type);
    check(H5Tset_size(type.get(), value.size() + 1), path_, "describe text");
    check(H5Tset_cset(type.get(), H5T_CSET_UTF8), path_, "describe text");
    const Handle id(check(H5Acreate2(id_.get(), attribute.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), path_,
                          "make an attribute"),
                    close_attribute);
    check(H5Awrite(id.get(), type.get(), value.c_str()), path_, "write an attribute");
}

bool File::has_attribute(const std::string& attribute) const
{
    const Lock lock;
    return H5Aexists(id_.get(), attribute.c_str()) > 0;
}

i64 File::get_integer(const std::string& attribute) const
{
    const Lock lock;
    if (!has_attribute(attribute))
        throw_damaged(path_, str("has no attribute '", attribute, "'"));
    const Handle id(check(H5Aopen(id_.get(), attribute.c_str(), H5P_DEFAULT), path_, "open an attribute"), close_attribute);
    const Handle type(check(H5Aget_type(id.get()), path_, "read an attribute"), close_type);
    const Handle space(check(H5Aget_space(id.get()), path_, "read an attribute"), close_space);
    if (H5Tget_class(type.get()) != H5T_INTEGER || H5Sget_simple_extent_npoints(space.get()) != 1)
        throw_damaged(path_, str("its attribute '", attribute, "' is no whole number"));
    i64 value = 0;
    check(H5Aread(id.get(), H5T_NATIVE_INT64, &value), path_, "read an attribute");
    return value;
}

std::string File::get_string(const std::string& attribute) const
{
    const Lock lock;
    if (!has_attribute(attribute))
        throw_damaged(path_, str("has no attribute '", attribute, "'"));
    const Handle id(check(H5Aopen(id_.get(), attribute.c_str(), H5P_DEFAULT), path_, "open an attribute"), close_attribute);
    const Handle type(check(H5Aget_type(id.get()), path_, "read an attribute"), close_type);
    const Handle space(check(H5Aget_space(id.get()), path_, "read an attribute"), close_space);
    if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0 ||
        H5Sget_simple_extent_npoints(space.get()) != 1)
        throw_damaged(path_, str("its attribute '", attribute, "' is no text"));
    const std::size_t size = H5Tget_size(type.get());
    if (size > longest_attribute)
        throw_damaged(path_, str("its attribute '", attribute, "' has ", size, " bytes"));
    std::string value(size, '\0');
    check(H5Aread(id.get(), type.get(), value.data()), path_, "read an attribute");
    value.resize(std::min(value.size(), value.find('\0')));
    return value;
}

Dataset File::create_dataset(const std::string& name, Type type, const std::vector<i64>& shape)
{
    const Lock lock;
    Dataset dataset;
    dataset.place_ = str(path_, ", dataset ", name);
    dataset.shape_ = shape;
    dataset.type_ = type;
    const std::vector<hsize_t> extents = to_hsize(shape);
    const Handle space(check(shape.empty() ? H5Screate(H5S_SCALAR)
                                           : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                             dataset.place_, "describe the shape"),
                       close_space);
    const Handle link(check(H5Pcreate(H5P_LINK_CREATE), dataset.place_, "prepare"), close_plist);
    check(H5Pset_create_intermediate_group(link.get(), 1), dataset.place_, "prepare");
    const Handle creation(check(H5Pcreate(H5P_DATASET_CREATE), dataset.place_, "prepare"), close_plist);
    check(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), dataset.place_, "prepare");
    check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), dataset.place_, "prepare");
    check(H5Pset_obj_track_times(creation.get(), false), dataset.place_, "prepare"); // same input, same bytes
    check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), dataset.place_, "prepare");
    dataset.id_ = Handle(check(H5Dcreate2(id_.get(), name.c_str(), memory_type(type), space.get(), link.get(), creation.get(), H5P_DEFAULT),
                               dataset.place_, "make the dataset"),
                         close_dataset);
    return dataset;
}

bool File::has_dataset(const std::string& name) const
{
    const Lock lock;
    // Each group on the way must be there before its child may be asked for.
    for (std::size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1))
        if (H5Lexists(id_.get(), name.substr(0, end).c_str(), H5P_DEFAULT) <= 0)
            return false;
    return H5Lexists(id_.get(), name.c_str(), H5P_DEFAULT) > 0;
}

Dataset File::dataset(const std::string& name) const
{
    const Lock lock;
    Dataset dataset;
    dataset.place_ = str(path_, ", dataset ", name);
    if (!has_dataset(name))
        throw_damaged(path_, str("has no dataset '", name, "'"));
    const hid_t opened = H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT);
    if (opened < 0)
        throw_damaged(dataset.place_, str("cannot be opened: ", innermost_message()));
    dataset.id_ = Handle(opened, close_dataset);
    const Handle type(check(H5Dget_type(opened), dataset.place_, "read the type"), close_type);
    const Handle native(check(H5Tget_native_type(type.get(), H5T_DIR_ASCEND), dataset.place_, "read the type"), close_type);
    const auto known = std::find_if(std::begin(all_types), std::end(all_types),
                                    [&](Type t) { return H5Tequal(native.get(), memory_type(t)) > 0; });
    if (known == std::end(all_types))
        throw_damaged(dataset.place_, "has an unexpected type");
    dataset.type_ = *known;
    const Handle space(check(H5Dget_space(opened), dataset.place_, "read the shape"), close_space);
    const int rank = check(H5Sget_simple_extent_ndims(space.get()), dataset.place_, "read the shape");
    std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
    check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), dataset.place_, "read the shape");
    dataset.shape_.assign(extents.begin(), extents.end());
    // A damaged shape must not make a reader ask for more memory than there is.
    double bytes = static_cast<double>(size_of(dataset.type_));
    for (const hsize_t extent : extents)
        bytes *= static_cast<double>(extent);
    if (bytes > static_cast<double>(bytes_))
        throw_damaged(dataset.place_, str("claims ", bytes, " bytes in a file of ", bytes_));
    return dataset;
}

std::vector<std::string> File::dataset_names() const
{
    const Lock lock;
    std::vector<std::string> all, datasets;
    check(H5Lvisit(
              id_.get(), H5_INDEX_NAME, H5_ITER_INC,
              [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
                  static_cast<std::vector<std::string>*>(data)->emplace_back(name);
                  return 0;
              },
              &all),
          path_, "list the datasets");
    for (std::string& name : all) {
        const hid_t id = H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT); // a group is none
        H5Eclear2(H5E_DEFAULT);
        if (id < 0)
            continue;
        H5Dclose(id);
        datasets.push_back(std::move(name));
    }
    std::sort(datasets.begin(), datasets.end());
    return datasets;
}

void File::write_bytes(const std::string& name, const std::string& bytes)
{
    const auto size = static_cast<i64>(bytes.size());
    create_dataset(name, Type::u8, {size}).write(0, size, Type::u8, bytes.data());
}

std::string File::read_bytes(const std::string& name) const
{
    const Dataset data = dataset(name);
    if (data.type() != Type::u8 || data.shape().size() != 1)
        throw_damaged(str(path_, ", dataset ", name), "is not a list of bytes");
    std::string bytes(static_cast<std::size_t>(data.count()), '\0');
    data.read(0, data.count(), Type::u8, bytes.data());
    return bytes;
}

} // namespace trivium::h5
