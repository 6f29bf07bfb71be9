#pragma once
// The few things that Trivium wants of HDF5: contiguous datasets, attributes, groups by path.
// Every library call is checked; a failure is an IoError with HDF5's own innermost message. HDF5 is not
// thread-safe: a lock lets one thread at a time into the library, so that any thread may use objects of its
// own.
#include "base/dtype.hpp"
#include "ir/mesh.hpp"

#include <string>
#include <vector>

namespace trivium::h5 {

/// Owns one HDF5 identifier; closes it with the right call. Move-only.
class Handle {
public:
    using Id = std::int64_t; ///< hid_t
    using Close = int (*)(Id);
    Handle() = default;
    Handle(Id id, Close close) : id_(id), close_(close) {}
    Handle(Handle&& other) noexcept;
    Handle& operator=(Handle&& other) noexcept;
    ~Handle() { reset(); }
    Id get() const { return id_; }
    /// Closes now; the library's answer (negative: failed).
    int reset();

private:
    Id id_ = -1;
    Close close_ = nullptr;
};

/// One dataset of an open File; must not outlive it.
class Dataset {
public:
    const std::vector<i64>& shape() const { return shape_; }
    i64 count() const; ///< elements
    DType type() const { return type_; }
    /// Where the contiguous data lies in the file, in bytes. IoError if it is not contiguous or not there.
    Bytes file_offset() const;
    /// Elements [begin, begin + count), converted from/to `type`. \pre one dimension, or all elements
    void write(i64 begin, i64 count, DType type, const void* data);
    void read(i64 begin, i64 count, DType type, void* data) const;
    void set(const std::string& attribute, const std::vector<i64>& values);
    /// UserError where it is missing or of another type.
    std::vector<i64> get_integers(const std::string& attribute) const;

private:
    friend class File;
    std::string place_;
    Handle id_;
    std::vector<i64> shape_;
    DType type_ = DType::u8;
};

struct FileLayout {
    Bytes reserved = 0; ///< at the file's beginning, left to the caller: 0, or a power of two from 512 on
    Bytes metadata =
        0; ///< of a file that holds no more than so many bytes of it: all of it comes first, then the
           ///< datasets in the order in which they are made, packed. 0: where the library likes it
};

/// What a stretch of a virtual dataset is taken from.
struct VirtualSource {
    std::string file;    ///< in the folder of the virtual dataset's file
    std::string dataset; ///< all of it
    Box box;             ///< which part of the virtual dataset it is
};

class File {
public:
    /// Creates or truncates. IoError.
    static File create(const std::string& path, const FileLayout& layout = {});
    /// Read only. The library may crash on a damaged file: check a hash first. UserError where `path` is
    /// missing or no HDF5 file, or a truncated one.
    static File open(const std::string& path);

    /// Flushes and closes, with errors; the destructor closes without. \pre its Datasets are gone: they would
    /// keep it open
    void close();

    void set(const std::string& attribute, i64 value);
    void set(const std::string& attribute, const std::string& value);
    /// UserError (a file of another kind, or a damaged one) where it is missing or of another type.
    i64 get_integer(const std::string& attribute) const;
    std::string get_string(const std::string& attribute) const;

    /// Contiguous, no fill. `name` may contain '/': groups are made.
    Dataset create_dataset(const std::string& name, DType type, const std::vector<i64>& shape);
    /// A dataset over pieces in other files, which need not exist yet; NaN where one does not when it is
    /// read.
    void create_virtual(const std::string& name, DType type, const std::vector<i64>& shape,
                        const std::vector<VirtualSource>& sources);
    /// Of a file that was opened, not created. UserError where it is missing, or is larger than the file.
    Dataset dataset(const std::string& name) const;
    bool has_dataset(const std::string& name) const;

    /// Text or bytes as a one-dimensional u8 dataset.
    void write_bytes(const std::string& name, const std::string& bytes);
    std::string read_bytes(const std::string& name) const;

    const std::string& path() const { return path_; }

private:
    std::string path_;
    Handle id_;
    Bytes bytes_ = 0; ///< of the file, where it was opened
};

} // namespace trivium::h5
