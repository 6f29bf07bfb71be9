#include "io/files/hdf5_library.hpp"

#include "io/files/files.hpp"

#include <utility>

namespace trivium::h5 {

namespace {

/// Without file locks: some parallel file systems lack them, and every file has one writer and is read only
/// when it is complete.
Handle file_access()
{
    Handle access(check(H5Pcreate(H5P_FILE_ACCESS), "HDF5", "prepare"), H5Pclose);
    check(H5Pset_file_locking(access.get(), false, true), "HDF5", "prepare");
    return access;
}

} // namespace

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
    set_attribute(id_.get(), path_, attribute, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void File::set(const std::string& attribute, const std::string& value)
{
    set_text(id_.get(), path_, attribute, value);
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
    return text_of(open_attribute(id_.get(), path_, attribute), path_, attribute);
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
    if (data.count() > bytes_) // only a piece of the file, not chunks, was compared with its size
        throw_damaged(str(path_, ", dataset ", name), "claims more bytes than the file has");
    std::string bytes(static_cast<std::size_t>(data.count()), '\0');
    data.read(0, data.count(), DType::u8, bytes.data());
    return bytes;
}

} // namespace trivium::h5
