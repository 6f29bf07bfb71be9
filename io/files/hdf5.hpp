#pragma once
// A wrapper of the parts of HDF5 that Trivium uses: contiguous, chunked and virtual datasets, attributes,
// groups.
// Every library call is checked; a failure is an IoError with HDF5's innermost message. HDF5 is not
// thread-safe, so a lock serialises all calls; each thread may use its own objects.
#include "base/dtype.hpp"
#include "ir/mesh.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trivium::h5 {

/// Owns one HDF5 identifier and closes it with the given function. Move-only.
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
    /// Closes now. Returns the library's result (negative: failed).
    int reset();

private:
    Id id_ = -1;
    Close close_ = nullptr;
};

/// One dataset of an open File; must not outlive it.
class Dataset {
public:
    const std::vector<i64>& shape() const { return shape_; }
    i64 count() const { return element_count(shape_); } ///< elements
    DType type() const { return type_; }
    /// Extents of a chunk; empty: not in chunks.
    const std::vector<i64>& chunk() const { return chunk_; }
    /// Offset of the data in the file, in bytes. UserError if the data are not contiguous, or empty.
    Bytes file_offset() const;
    /// Whether the data are one piece of the file, as numbers of this machine, so that a program may read
    /// them there.
    bool is_in_place() const;
    /// Whether the file has space for all numbers: it lacks that of what was never written. Reads the whole
    /// index of chunks.
    bool is_whole() const;
    /// Write or read elements [begin, begin + count), flattened row-major. HDF5 converts; `type` is the type
    /// of `data`. \pre one dimension, or all elements
    void write(i64 begin, i64 count, DType type, const void* data);
    void read(i64 begin, i64 count, DType type, void* data) const;
    /// As above, of a box: row-major, of type type(). \pre the box is inside the shape
    void write(const Box& box, const void* data);
    void read(const Box& box, void* data) const;
    void set(const std::string& attribute, const std::vector<i64>& values);
    void set(const std::string& attribute, double value);
    void set(const std::string& attribute, const std::string& value);
    /// nullopt if the attribute is missing; UserError if it is of another type.
    std::optional<double> find_number(const std::string& attribute) const;
    std::optional<std::string> find_text(const std::string& attribute) const;
    /// UserError if the attribute is missing or of another type.
    std::vector<i64> get_integers(const std::string& attribute) const;

private:
    friend class File;
    std::string place_;
    Handle id_;
    std::vector<i64> shape_, chunk_;
    DType type_ = DType::u8;
    bool little_endian_ = true;
};

struct FileLayout {
    /// Bytes at the start of the file that HDF5 leaves to the caller: 0, or a power of two, at least 512.
    Bytes reserved = 0;
    /// Upper bound of HDF5's metadata: it is stored first, then the datasets, packed, in order of creation.
    /// 0: the library chooses the layout.
    Bytes metadata = 0;
};

/// The source of one box of a virtual dataset.
struct VirtualSource {
    std::string file;    ///< name, in the folder of the virtual dataset's file
    std::string dataset; ///< used as a whole
    Box box;             ///< its place in the virtual dataset
};

class File {
public:
    /// Creates or truncates. IoError.
    static File create(const std::string& path, const FileLayout& layout = {});
    /// Opens read-only. The library may crash on a damaged file, so check a hash first. UserError if the file
    /// is missing, not an HDF5 file, or truncated.
    static File open(const std::string& path);

    /// Flushes and closes. IoError; the destructor closes without error checks. \pre its Datasets are
    /// destroyed, as they keep the file open
    void close();

    void set(const std::string& attribute, i64 value);
    void set(const std::string& attribute, const std::string& value);
    /// UserError if the attribute is missing or of another type: the file is of another kind, or damaged.
    i64 get_integer(const std::string& attribute) const;
    std::string get_string(const std::string& attribute) const;

    /// Makes a contiguous dataset, without fill values; with `chunk` one in such chunks, compressed with gzip
    /// and checksums. Makes the groups if `name` contains '/'. UserError if the library cannot compress.
    Dataset create_dataset(const std::string& name, DType type, const std::vector<i64>& shape,
                           const std::vector<i64>& chunk = {});
    /// Makes a virtual dataset over datasets in other files, which need not exist yet. When it is read,
    /// values of missing files are NaN.
    void create_virtual(const std::string& name, DType type, const std::vector<i64>& shape,
                        const std::vector<VirtualSource>& sources);
    /// Opens a dataset. `cache`: bytes of chunks that the library keeps; 0: its own choice. UserError if it
    /// is missing, of a type without DType, or a contiguous one larger than the file. \pre open() made this
    /// File
    Dataset dataset(const std::string& name, Bytes cache = 0) const;
    /// The same; nothing if it is of a type without DType.
    std::optional<Dataset> find_numbers(const std::string& name, Bytes cache = 0) const;
    /// Names of the datasets outside of groups, in order.
    std::vector<std::string> datasets() const;
    bool has_dataset(const std::string& name) const;

    /// Text or bytes as a one-dimensional u8 dataset. read_bytes: UserError as dataset(), or if the dataset
    /// is of another kind.
    void write_bytes(const std::string& name, const std::string& bytes);
    std::string read_bytes(const std::string& name) const;

    const std::string& path() const { return path_; }

private:
    std::string path_;
    Handle id_;
    Bytes bytes_ = 0; ///< size of the file; only after open()
};

} // namespace trivium::h5
