#include "io/files/hdf5_library.hpp"

#include "io/files/files.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace trivium::h5 {

namespace {

constexpr std::size_t longest_attribute = std::size_t{1} << 20;
constexpr DType all_types[] = {DType::u8,  DType::u16, DType::u32, DType::i32,
                               DType::i64, DType::u64, DType::f32, DType::f64};

/// Elements [begin, begin + count) as a file selection.
Handle select(const Dataset& dataset, Handle::Id id, const std::string& place, i64 begin, i64 count)
{
    TRV_CHECK(begin >= 0 && count >= 0 && begin + count <= dataset.count(), place, ": ", begin, " + ", count,
              " of ", dataset.count());
    Handle space(check(H5Dget_space(id), place, "read the shape"), H5Sclose);
    if (begin == 0 && count == dataset.count())
        return space;
    TRV_CHECK(dataset.shape().size() == 1, place, ": a part of ", dataset.shape().size(), " dimensions");
    const auto start = static_cast<hsize_t>(begin), extent = static_cast<hsize_t>(count);
    check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &extent, nullptr), place,
          "select");
    return space;
}

/// The space of an array of this shape, of one value if the shape is empty.
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

/// An attribute, open for reading.
struct Attribute {
    Handle id, type;
    i64 count = 0; ///< elements
};

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

/// Without file locks: some parallel file systems lack them, and every file has one writer and is read only
/// when it is complete.
Handle file_access()
{
    Handle access(check(H5Pcreate(H5P_FILE_ACCESS), "HDF5", "prepare"), H5Pclose);
    check(H5Pset_file_locking(access.get(), false, true), "HDF5", "prepare");
    return access;
}

/// Makes the parent groups of `name`, without time stamps: same input, same bytes.
void make_groups(Handle::Id file, const std::string& name, const std::string& place)
{
    for (std::size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1)) {
        const std::string group = name.substr(0, end);
        if (H5Lexists(file, group.c_str(), H5P_DEFAULT) > 0)
            continue;
        const Handle creation(check(H5Pcreate(H5P_GROUP_CREATE), place, "prepare"), H5Pclose);
        check(H5Pset_obj_track_times(creation.get(), false), place, "prepare");
        const Handle made(check(H5Gcreate2(file, group.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                place, "make a group"),
                          H5Gclose);
    }
}

} // namespace

Bytes Dataset::file_offset() const
{
    const Lock lock;
    const haddr_t offset = H5Dget_offset(id_.get());
    if (offset == HADDR_UNDEF)
        throw_damaged(place_, "is not one contiguous piece of the file");
    return static_cast<Bytes>(offset);
}

void Dataset::write(i64 begin, i64 count, DType type, const void* data)
{
    if (count == 0)
        return;
    const Lock lock;
    const Handle file = select(*this, id_.get(), place_, begin, count),
                 memory = space_of({count}, place_, "describe memory");
    check(H5Dwrite(id_.get(), memory_type(type), memory.get(), file.get(), H5P_DEFAULT, data), place_,
          "write");
}

void Dataset::read(i64 begin, i64 count, DType type, void* data) const
{
    if (count == 0)
        return;
    const Lock lock;
    const Handle file = select(*this, id_.get(), place_, begin, count),
                 memory = space_of({count}, place_, "describe memory");
    check(H5Dread(id_.get(), memory_type(type), memory.get(), file.get(), H5P_DEFAULT, data), place_, "read");
}

void Dataset::set(const std::string& attribute, const std::vector<i64>& values)
{
    const Lock lock;
    const Handle space = values.empty()
                             ? Handle(check(H5Screate(H5S_NULL), place_, "describe an attribute"), H5Sclose)
                             : space_of({static_cast<i64>(values.size())}, place_, "describe an attribute");
    const Handle id = make_attribute(id_.get(), place_, attribute, H5T_STD_I64LE, space);
    if (!values.empty())
        check(H5Awrite(id.get(), H5T_NATIVE_INT64, values.data()), place_, "write an attribute");
}

std::vector<i64> Dataset::get_integers(const std::string& attribute) const
{
    const Lock lock;
    const Attribute found = open_attribute(id_.get(), place_, attribute);
    if (H5Tget_class(found.type.get()) != H5T_INTEGER || found.count > static_cast<i64>(longest_attribute))
        throw_damaged(place_, str("its attribute '", attribute, "' is not a list of whole numbers"));
    std::vector<i64> values(static_cast<std::size_t>(found.count));
    if (found.count > 0)
        check(H5Aread(found.id.get(), H5T_NATIVE_INT64, values.data()), place_, "read an attribute");
    return values;
}

File File::create(const std::string& path, const FileLayout& layout)
{
    const Lock lock;
    silence_errors();
    File file;
    file.path_ = path;
    const Handle creation(check(H5Pcreate(H5P_FILE_CREATE), path, "prepare"), H5Pclose),
        access = file_access();
    // No sieve buffer: it would be flushed when a dataset is closed, where a failure is not reported.
    check(H5Pset_sieve_buf_size(access.get(), 0), path, "prepare");
    check(H5Pset_obj_track_times(creation.get(), false), path, "prepare"); // same input, same bytes
    check(H5Pset_userblock(creation.get(), static_cast<hsize_t>(layout.reserved)), path,
          "reserve the first bytes");
    if (layout.metadata > 0) {
        check(H5Pset_meta_block_size(access.get(), static_cast<hsize_t>(layout.metadata)), path, "prepare");
        check(H5Pset_small_data_block_size(access.get(), 0), path, "prepare");
        check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), path,
              "prepare"); // this format's groups are smaller
    }
    file.id_ = Handle(
        check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), path, "create the file"),
        H5Fclose);
    return file;
}

File File::open(const std::string& path)
{
    const Lock lock;
    silence_errors();
    const Bytes bytes = file_size(path, "file"); // reports a path that is not a file
    File file;
    file.path_ = path;
    file.bytes_ = bytes;
    const Handle access = file_access();
    const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
    if (id < 0) {
        const std::string reason = last_failure().message;
        const bool truncated = reason.find("truncated") != std::string::npos;
        throw UserError({path,
                         truncated    ? "is truncated"
                         : bytes == 0 ? "is empty"
                                      : "is not a readable HDF5 file",
                         reason,
                         truncated ? "copy it again whole, or make it again"
                                   : "check the path; make the file again if it is damaged"});
    }
    file.id_ = Handle(id, H5Fclose);
    return file;
}

void File::close()
{
    const Lock lock;
    TRV_EXPECT(H5Fget_obj_count(id_.get(), H5F_OBJ_DATASET | H5F_OBJ_LOCAL) == 0, path_,
               ": a dataset is open");
    check(H5Fflush(id_.get(), H5F_SCOPE_GLOBAL), path_, "write the file");
    check(id_.reset(), path_, "close the file");
}

void File::set(const std::string& attribute, i64 value)
{
    const Lock lock;
    const Handle space = space_of({}, path_, "describe an attribute");
    const Handle id = make_attribute(id_.get(), path_, attribute, H5T_STD_I64LE, space);
    check(H5Awrite(id.get(), H5T_NATIVE_INT64, &value), path_, "write an attribute");
}

void File::set(const std::string& attribute, const std::string& value)
{
    const Lock lock;
    const Handle space = space_of({}, path_, "describe an attribute");
    const Handle type(check(H5Tcopy(H5T_C_S1), path_, "describe text"), H5Tclose);
    check(H5Tset_size(type.get(), value.size() + 1), path_, "describe text");
    check(H5Tset_cset(type.get(), H5T_CSET_UTF8), path_, "describe text");
    const Handle id = make_attribute(id_.get(), path_, attribute, type.get(), space);
    check(H5Awrite(id.get(), type.get(), value.c_str()), path_, "write an attribute");
}

i64 File::get_integer(const std::string& attribute) const
{
    const Lock lock;
    const Attribute found = open_attribute(id_.get(), path_, attribute);
    if (H5Tget_class(found.type.get()) != H5T_INTEGER || found.count != 1)
        throw_damaged(path_, str("its attribute '", attribute, "' is not a whole number"));
    i64 value = 0;
    check(H5Aread(found.id.get(), H5T_NATIVE_INT64, &value), path_, "read an attribute");
    return value;
}

std::string File::get_string(const std::string& attribute) const
{
    const Lock lock;
    const Attribute found = open_attribute(id_.get(), path_, attribute);
    if (H5Tget_class(found.type.get()) != H5T_STRING || H5Tis_variable_str(found.type.get()) != 0 ||
        found.count != 1)
        throw_damaged(path_, str("its attribute '", attribute, "' is not text"));
    const std::size_t size = H5Tget_size(found.type.get());
    if (size > longest_attribute)
        throw_damaged(path_, str("its attribute '", attribute, "' has ", size, " bytes"));
    std::string value(size, '\0');
    check(H5Aread(found.id.get(), found.type.get(), value.data()), path_, "read an attribute");
    value.resize(std::min(value.size(), value.find('\0')));
    return value;
}

Dataset File::create_dataset(const std::string& name, DType type, const std::vector<i64>& shape)
{
    const Lock lock;
    Dataset dataset;
    dataset.place_ = str(path_, ", dataset ", name);
    dataset.shape_ = shape;
    dataset.type_ = type;
    const Handle space = space_of(shape, dataset.place_, "describe the shape");
    make_groups(id_.get(), name, dataset.place_);
    const Handle creation(check(H5Pcreate(H5P_DATASET_CREATE), dataset.place_, "prepare"), H5Pclose);
    check(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), dataset.place_, "prepare");
    check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), dataset.place_, "prepare");
    check(H5Pset_obj_track_times(creation.get(), false), dataset.place_, "prepare"); // same input, same bytes
    check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), dataset.place_, "prepare");
    dataset.id_ = Handle(check(H5Dcreate2(id_.get(), name.c_str(), memory_type(type), space.get(),
                                          H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                               dataset.place_, "make the dataset"),
                         H5Dclose);
    return dataset;
}

void File::create_virtual(const std::string& name, DType type, const std::vector<i64>& shape,
                          const std::vector<VirtualSource>& sources)
{
    const Lock lock;
    const std::string place = str(path_, ", dataset ", name);
    make_groups(id_.get(), name, place);
    if (shape.empty() && sources.size() == 1) { // a scalar cannot be mapped: link to it
        check(H5Lcreate_external(sources[0].file.c_str(), sources[0].dataset.c_str(), id_.get(), name.c_str(),
                                 H5P_DEFAULT, H5P_DEFAULT),
              place, "make the link");
        return;
    }
    const Handle space = space_of(shape, place, "describe the shape");
    const Handle creation(check(H5Pcreate(H5P_DATASET_CREATE), place, "prepare"), H5Pclose);
    check(H5Pset_obj_track_times(creation.get(), false), place, "prepare");
    const double missing = std::numeric_limits<double>::quiet_NaN(); // the values of a missing source file
    check(H5Pset_fill_value(creation.get(), H5T_NATIVE_DOUBLE, &missing), place, "prepare");
    for (const VirtualSource& source : sources) {
        const std::vector<hsize_t> offset = to_hsize(source.box.offset), part = to_hsize(source.box.shape);
        const Handle whole = space_of(source.box.shape, place, "describe a piece");
        check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, offset.data(), nullptr, part.data(), nullptr),
              place, "select");
        check(H5Pset_virtual(creation.get(), space.get(), source.file.c_str(), source.dataset.c_str(),
                             whole.get()),
              place, "map a piece");
    }
    check(H5Sselect_all(space.get()), place, "select");
    const Handle made(check(H5Dcreate2(id_.get(), name.c_str(), memory_type(type), space.get(), H5P_DEFAULT,
                                       creation.get(), H5P_DEFAULT),
                            place, "make the dataset"),
                      H5Dclose);
}

bool File::has_dataset(const std::string& name) const
{
    const Lock lock;
    // H5Lexists fails unless all parent groups exist.
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
        throw_damaged(dataset.place_, str("cannot be opened: ", last_failure().message));
    dataset.id_ = Handle(opened, H5Dclose);
    const Handle type(check(H5Dget_type(opened), dataset.place_, "read the type"), H5Tclose);
    const Handle native(
        check(H5Tget_native_type(type.get(), H5T_DIR_ASCEND), dataset.place_, "read the type"), H5Tclose);
    const auto known = std::find_if(std::begin(all_types), std::end(all_types),
                                    [&](DType t) { return H5Tequal(native.get(), memory_type(t)) > 0; });
    if (known == std::end(all_types))
        throw_damaged(dataset.place_, "has an unexpected type");
    dataset.type_ = *known;
    const Handle space(check(H5Dget_space(opened), dataset.place_, "read the shape"), H5Sclose);
    const int rank = check(H5Sget_simple_extent_ndims(space.get()), dataset.place_, "read the shape");
    std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
    check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), dataset.place_, "read the shape");
    dataset.shape_.assign(extents.begin(), extents.end());
    // A damaged shape must not make the caller allocate too much memory.
    double bytes = static_cast<double>(size_of(dataset.type_));
    for (const hsize_t extent : extents)
        bytes *= static_cast<double>(extent);
    if (bytes > static_cast<double>(bytes_))
        throw_damaged(dataset.place_, str("claims ", bytes, " bytes in a file of ", bytes_));
    return dataset;
}

void File::write_bytes(const std::string& name, const std::string& bytes)
{
    const auto size = static_cast<i64>(bytes.size());
    create_dataset(name, DType::u8, {size}).write(0, size, DType::u8, bytes.data());
}

std::string File::read_bytes(const std::string& name) const
{
    const Dataset data = dataset(name);
    if (data.type() != DType::u8 || data.shape().size() != 1)
        throw_damaged(str(path_, ", dataset ", name), "is not a list of bytes");
    std::string bytes(static_cast<std::size_t>(data.count()), '\0');
    data.read(0, data.count(), DType::u8, bytes.data());
    return bytes;
}

} // namespace trivium::h5
