// Datasets of HDF5 files.
#include "io/files/hdf5_library.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace trivium::h5 {

namespace {

constexpr i64 longest_list = i64{1} << 20; ///< of an attribute
constexpr DType all_types[] = {DType::u8,  DType::i8,  DType::u16, DType::i16, DType::u32, DType::i32,
                               DType::i64, DType::u64, DType::f16, DType::f32, DType::f64};

struct Number {
    DType type;
    bool little_endian;
};

/// What numbers of a type in a file are; nullopt for text, structures and unusual widths. Truth values, which
/// other programs store as an enumeration, are their integers.
std::optional<Number> number_of(Handle::Id type, const std::string& place)
{
    const bool named = H5Tget_class(type) == H5T_ENUM;
    const Handle plain(check(named ? H5Tget_super(type) : H5Tcopy(type), place, "read the type"), H5Tclose);
    const H5T_class_t kind = H5Tget_class(plain.get());
    if (kind != H5T_INTEGER && kind != H5T_FLOAT)
        return {};
    const bool little = H5Tget_size(plain.get()) == 1 || H5Tget_order(plain.get()) == H5T_ORDER_LE;
    check(H5Tset_order(plain.get(), H5T_ORDER_LE), place, "read the type");
    for (const DType each : all_types)
        if (H5Tequal(plain.get(), memory_type(each)) > 0)
            return Number{each, little};
    return {};
}

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

bool Dataset::is_in_place() const
{
    const Lock lock;
    return little_endian_ && H5Dget_offset(id_.get()) != HADDR_UNDEF;
}

bool Dataset::is_whole() const
{
    const Lock lock;
    const Handle creation(check(H5Dget_create_plist(id_.get()), place_, "read the layout"), H5Pclose);
    if (count() == 0 || H5Pget_layout(creation.get()) == H5D_VIRTUAL)
        return true;
    if (chunk_.empty())
        return H5Dget_storage_size(id_.get()) > 0;
    double expected = 1;
    for (std::size_t d = 0; d < shape_.size(); ++d)
        expected *= static_cast<double>(ceil_div(shape_[d], chunk_[d]));
    const Handle all(check(H5Dget_space(id_.get()), place_, "read the shape"), H5Sclose);
    hsize_t found = 0;
    check(H5Dget_num_chunks(id_.get(), all.get(), &found), place_, "list the chunks");
    return static_cast<double>(found) == expected;
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

namespace {

/// A box of a dataset in the file and in memory.
struct BoxSpaces {
    Handle file, memory;
};

BoxSpaces select(Handle::Id id, const std::string& place, const Box& box)
{
    Handle space(check(H5Dget_space(id), place, "read the shape"), H5Sclose);
    const std::vector<hsize_t> offset = to_hsize(box.offset), extent = to_hsize(box.shape);
    check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, offset.data(), nullptr, extent.data(), nullptr),
          place, "select");
    return {std::move(space), space_of(box.shape, place, "describe memory")};
}

} // namespace

void Dataset::write(const Box& box, const void* data)
{
    if (element_count(box.shape) == 0)
        return;
    const Lock lock;
    const BoxSpaces spaces = select(id_.get(), place_, box);
    check(H5Dwrite(id_.get(), memory_type(type_), spaces.memory.get(), spaces.file.get(), H5P_DEFAULT, data),
          place_, "write");
}

void Dataset::read(const Box& box, void* data) const
{
    if (element_count(box.shape) == 0)
        return;
    const Lock lock;
    const BoxSpaces spaces = select(id_.get(), place_, box);
    check(H5Dread(id_.get(), memory_type(type_), spaces.memory.get(), spaces.file.get(), H5P_DEFAULT, data),
          place_, "read");
}

void Dataset::set(const std::string& attribute, double value)
{
    set_attribute(id_.get(), place_, attribute, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

void Dataset::set(const std::string& attribute, const std::string& value)
{
    set_text(id_.get(), place_, attribute, value);
}

std::optional<double> Dataset::find_number(const std::string& attribute) const
{
    const Lock lock;
    if (H5Aexists(id_.get(), attribute.c_str()) <= 0)
        return {};
    const Attribute found = open_attribute(id_.get(), place_, attribute);
    const H5T_class_t kind = H5Tget_class(found.type.get());
    if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || found.count != 1)
        throw_damaged(place_, str("its attribute '", attribute, "' is not a number"));
    double value = 0;
    check(H5Aread(found.id.get(), H5T_NATIVE_DOUBLE, &value), place_, "read an attribute");
    return value;
}

std::optional<std::string> Dataset::find_text(const std::string& attribute) const
{
    const Lock lock;
    if (H5Aexists(id_.get(), attribute.c_str()) <= 0)
        return {};
    return text_of(open_attribute(id_.get(), place_, attribute), place_, attribute);
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
    if (H5Tget_class(found.type.get()) != H5T_INTEGER || found.count > longest_list)
        throw_damaged(place_, str("its attribute '", attribute, "' is not a list of whole numbers"));
    std::vector<i64> values(static_cast<std::size_t>(found.count));
    if (found.count > 0)
        check(H5Aread(found.id.get(), H5T_NATIVE_INT64, values.data()), place_, "read an attribute");
    return values;
}

Dataset File::create_dataset(const std::string& name, DType type, const std::vector<i64>& shape,
                             const std::vector<i64>& chunk)
{
    const Lock lock;
    Dataset dataset;
    dataset.place_ = str(path_, ", dataset ", name);
    dataset.shape_ = shape;
    dataset.type_ = type;
    const Handle space = space_of(shape, dataset.place_, "describe the shape");
    make_groups(id_.get(), name, dataset.place_);
    const Handle creation(check(H5Pcreate(H5P_DATASET_CREATE), dataset.place_, "prepare"), H5Pclose);
    if (chunk.empty()) {
        check(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), dataset.place_, "prepare");
        check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), dataset.place_, "prepare");
        check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), dataset.place_, "prepare");
    } else {
        if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0)
            throw UserError({dataset.place_, "cannot be compressed", "this HDF5 was built without zlib",
                             "write it without chunks, or use another HDF5"});
        const std::vector<hsize_t> extents = to_hsize(chunk);
        check(H5Pset_chunk(creation.get(), static_cast<int>(extents.size()), extents.data()), dataset.place_,
              "prepare");
        check(H5Pset_shuffle(creation.get()), dataset.place_, "prepare");
        check(H5Pset_deflate(creation.get(), 4), dataset.place_, "prepare");
        check(H5Pset_fletcher32(creation.get()), dataset.place_, "prepare");
    }
    check(H5Pset_obj_track_times(creation.get(), false), dataset.place_, "prepare"); // same input, same bytes
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

Dataset File::dataset(const std::string& name, Bytes cache) const
{
    std::optional<Dataset> found = find_numbers(name, cache);
    if (!found)
        throw_damaged(str(path_, ", dataset ", name), "has an unexpected type");
    return std::move(*found);
}

std::optional<Dataset> File::find_numbers(const std::string& name, Bytes cache) const
{
    const Lock lock;
    Dataset dataset;
    dataset.place_ = str(path_, ", dataset ", name);
    if (!has_dataset(name))
        throw_damaged(path_, str("has no dataset '", name, "'"));
    const Handle access(check(H5Pcreate(H5P_DATASET_ACCESS), dataset.place_, "prepare"), H5Pclose);
    if (cache > 0) // chunks that were read whole go first
        check(H5Pset_chunk_cache(access.get(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT,
                                 static_cast<std::size_t>(cache), 1),
              dataset.place_, "prepare");
    const hid_t opened = H5Dopen2(id_.get(), name.c_str(), access.get());
    if (opened < 0)
        throw_damaged(dataset.place_, str("cannot be opened: ", last_failure().message));
    dataset.id_ = Handle(opened, H5Dclose);
    const Handle type(check(H5Dget_type(opened), dataset.place_, "read the type"), H5Tclose);
    const std::optional<Number> number = number_of(type.get(), dataset.place_);
    if (!number)
        return {};
    dataset.type_ = number->type;
    dataset.little_endian_ = number->little_endian;
    const Handle space(check(H5Dget_space(opened), dataset.place_, "read the shape"), H5Sclose);
    const int rank = check(H5Sget_simple_extent_ndims(space.get()), dataset.place_, "read the shape");
    std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
    check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), dataset.place_, "read the shape");
    dataset.shape_.assign(extents.begin(), extents.end());
    // A damaged shape must not make the caller allocate too much memory.
    double bytes = static_cast<double>(size_of(dataset.type_));
    for (const hsize_t extent : extents)
        bytes *= static_cast<double>(extent);
    if (bytes > (H5Dget_offset(opened) == HADDR_UNDEF ? 0x1p62 : static_cast<double>(bytes_)))
        throw_damaged(dataset.place_, str("claims ", bytes, " bytes in a file of ", bytes_));
    const Handle creation(check(H5Dget_create_plist(opened), dataset.place_, "read the layout"), H5Pclose);
    if (H5Pget_layout(creation.get()) == H5D_CHUNKED) {
        check(H5Pget_chunk(creation.get(), rank, extents.data()), dataset.place_, "read the layout");
        dataset.chunk_.assign(extents.begin(), extents.end());
    }
    return dataset;
}

std::vector<std::string> File::datasets() const
{
    const Lock lock;
    H5G_info_t group;
    check(H5Gget_info(id_.get(), &group), path_, "list the file");
    std::vector<std::string> names;
    for (hsize_t i = 0; i < group.nlinks; ++i) {
        const auto name_to = [&](char* to, std::size_t size) {
            return check(
                H5Lget_name_by_idx(id_.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i, to, size, H5P_DEFAULT),
                path_, "list the file");
        };
        std::string name(static_cast<std::size_t>(name_to(nullptr, 0)), '\0');
        name_to(name.data(), name.size() + 1);
        const Handle object(H5Oopen(id_.get(), name.c_str(), H5P_DEFAULT), H5Oclose); // a link may be broken
        if (object.get() >= 0 && H5Iget_type(object.get()) == H5I_DATASET)
            names.push_back(std::move(name));
    }
    return names;
}

} // namespace trivium::h5
