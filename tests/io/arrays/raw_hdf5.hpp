#pragma once
// HDF5 files as other programs write them, with the C library alone; nothing of the code under test.
#include <array>
#include <cstdint>
#include <functional>
#include <hdf5.h>
#include <string>
#include <vector>

namespace raw {

using Extents = std::vector<hsize_t>;

/// IEEE's binary16, as h5py describes it.
inline hid_t half()
{
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
}

/// NumPy's truth values, as h5py writes them.
inline hid_t truth()
{
    const hid_t type = H5Tenum_create(H5T_STD_I8LE);
    const std::int8_t no = 0, yes = 1;
    H5Tenum_insert(type, "FALSE", &no);
    H5Tenum_insert(type, "TRUE", &yes);
    return type;
}

class File {
public:
    explicit File(const std::string& path)
        : id_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT))
    {
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { H5Fclose(id_); }

    /// `data`: of type `memory`; null: nothing is written. `chunk`: in such chunks, compressed. `early`: the
    /// space of a contiguous dataset is allocated, without fill values.
    void dataset(const std::string& name, hid_t stored, hid_t memory, const Extents& extents,
                 const void* data, const Extents& chunk = {}, bool early = false)
    {
        const hid_t space = extents.empty()
                                ? H5Screate(H5S_SCALAR)
                                : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                    creation = H5Pcreate(H5P_DATASET_CREATE);
        if (!chunk.empty()) {
            H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
            H5Pset_deflate(creation, 1);
        }
        if (early) {
            H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
            H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
        }
        const hid_t set = H5Dcreate2(id_, name.c_str(), stored, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        if (data != nullptr)
            H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
        H5Dclose(set);
        H5Pclose(creation);
        H5Sclose(space);
    }

    void number(const std::string& dataset, const char* attribute, double value)
    {
        attach(dataset, attribute, H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, &value);
    }

    /// Of variable length, as h5py writes it.
    void text(const std::string& dataset, const char* attribute, const char* value)
    {
        const hid_t type = H5Tcopy(H5T_C_S1);
        H5Tset_size(type, H5T_VARIABLE);
        H5Tset_cset(type, H5T_CSET_UTF8);
        attach(dataset, attribute, type, type, &value);
        H5Tclose(type);
    }

    void group(const std::string& name)
    {
        H5Gclose(H5Gcreate2(id_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }

private:
    void attach(const std::string& dataset, const char* name, hid_t stored, hid_t memory, const void* value)
    {
        const hid_t set = H5Dopen2(id_, dataset.c_str(), H5P_DEFAULT), space = H5Screate(H5S_SCALAR),
                    id = H5Acreate2(set, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
        H5Awrite(id, memory, value);
        H5Aclose(id);
        H5Sclose(space);
        H5Dclose(set);
    }

    hid_t id_;
};

} // namespace raw
