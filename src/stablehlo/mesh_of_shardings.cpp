#include "stablehlo/mesh_of_shardings.hpp"

#include "ir/limits.hpp"
#include "stablehlo/counting.hpp"
#include "stablehlo/hlo_text.hpp"

#include <algorithm>
#include <set>

namespace trivium {

namespace {

constexpr i64 max_listed_devices = 1 << 16;

[[noreturn]] void refuse(const std::string& place, const std::string& text, const std::string& reason)
{
    throw UserError({place, "cannot use the sharding " + text, reason,
                     "annotate with a mesh of named axes (jax.sharding.NamedSharding)"});
}

/// Names of axes have a meaning in a graph that those of the text do not have.
std::string axis_name(const std::string& name)
{
    return name == pipeline_axis || name == world_axis ? name + "_" : name;
}

/// {devices=[2,1,2]<=[4] last_tile_dim_replicate}: consecutive devices along each dimension of a tile.
struct DeviceTiles {
    std::vector<i64> tiles;   ///< parts of each dimension, then of the replicated ones
    std::vector<i64> devices; ///< in the row-major order of the tiles
    /// By dimension of `tiles`: (stride between devices, size) of the digits of a part's index, major first.
    std::vector<std::vector<std::pair<i64, i64>>> digits{};
};

std::vector<i64> listed(HloText& t, const std::string& place, const std::string& text)
{
    std::vector<i64> all;
    t.want("[");
    t.items("]", [&] {
        all.push_back(t.integer());
        if (all.back() < 1 || all.back() > max_listed_devices)
            refuse(place, text, str("it has the number ", all.back()));
    });
    return all;
}

i64 product_of(const std::vector<i64>& numbers, const std::string& place, const std::string& text)
{
    i64 product = 1;
    for (const i64 n : numbers) {
        product *= n;
        if (product > max_listed_devices)
            refuse(place, text, str("it has more than ", max_listed_devices, " devices"));
    }
    return product;
}

/// Nothing for replicated, maximal and other shardings without tiles.
std::optional<DeviceTiles> tiles_of(const std::string& text, const std::string& place)
{
    if (text.find("manual") != std::string::npos)
        refuse(place, text, "it is that of a manual region");
    HloText t(text, place);
    t.want("{");
    if (!t.take("devices"))
        return {};
    DeviceTiles made;
    t.want("=");
    made.tiles = listed(t, place, text);
    const i64 count = product_of(made.tiles, place, text);
    if (t.take("<=")) { // an iota of devices, reshaped and transposed
        const std::vector<i64> shape = listed(t, place, text);
        std::vector<i64> order = counting(shape.size());
        if (t.take("T")) {
            const std::string list = t.balanced('(', ')');
            HloText inner(list, place);
            for (i64& d : order) {
                d = inner.integer();
                inner.take(",");
            }
        }
        std::vector<i64> sorted = order;
        std::ranges::sort(sorted);
        for (std::size_t d = 0; d < sorted.size(); ++d)
            if (sorted[d] != static_cast<i64>(d))
                refuse(place, text, "its transposition is not one");
        if (product_of(shape, place, text) != count)
            refuse(place, text, "its numbers of devices differ");
        std::vector<i64> stride(shape.size(), 1), at(shape.size(), 0);
        for (std::size_t d = shape.size(); d-- > 1;)
            stride[d - 1] = stride[d] * shape[d];
        for (i64 i = 0; i < count; ++i) {
            i64 device = 0;
            for (std::size_t d = 0; d < shape.size(); ++d)
                device += at[d] * stride[static_cast<std::size_t>(order[d])];
            made.devices.push_back(device);
            for (std::size_t d = shape.size(); d-- > 0;) {
                if (++at[d] < shape[static_cast<std::size_t>(order[d])])
                    break;
                at[d] = 0;
            }
        }
    } else {
        for (i64 i = 0; i < count; ++i) {
            made.devices.push_back(t.integer());
            t.take(",");
        }
    }
    // The digits: from the minor end of each dimension, runs of equal steps.
    i64 inner = 1;
    made.digits.resize(made.tiles.size());
    std::vector<i64> rebuilt(made.devices.size(), made.devices.empty() ? 0 : made.devices[0]);
    for (std::size_t d = made.tiles.size(); d-- > 0;) {
        i64 rest = made.tiles[d], step = inner;
        while (rest > 1) {
            const auto device = [&](i64 i) { return made.devices[static_cast<std::size_t>(i * step)]; };
            const i64 stride = device(1) - device(0);
            i64 size = 1;
            while (size < rest && device(size) - device(0) == size * stride)
                ++size;
            while (rest % size != 0)
                --size;
            if (stride <= 0 || size < 2)
                refuse(place, text, "its devices are not in the order of a mesh");
            for (std::size_t i = 0; i < rebuilt.size(); ++i)
                rebuilt[i] += static_cast<i64>(i) / step % size * stride;
            made.digits[d].insert(made.digits[d].begin(), {stride, size});
            rest /= size;
            step *= size;
        }
        inner *= made.tiles[d];
    }
    if (rebuilt != made.devices || made.devices.empty() || made.devices[0] != 0)
        refuse(place, text, "its devices are not in the order of a mesh");
    return made;
}

} // namespace

HloMesh::HloMesh(const HloModule& module, const std::string& place)
{
    for (const auto& [name, attribute] : module.meshes) {
        Mesh mesh;
        HloText t(attribute.text, place);
        t.want("[");
        t.items("]", [&] {
            const std::string axis = axis_name(t.quoted());
            t.want("=");
            mesh.axes.push_back({axis, t.integer()});
        });
        if (mesh.axes.empty())
            continue;
        if (!mesh_.axes.empty() && mesh_ != mesh)
            throw UserError({place, "has several meshes", "a graph has one", "use one mesh"});
        mesh_ = mesh;
    }
    if (module.meshes.empty()) {
        // The boundaries of all digits, as strides between devices, divide the devices into axes.
        std::set<i64> cuts{1};
        for (const std::string& text : module.device_shardings)
            if (const auto tiles = tiles_of(text, place)) {
                cuts.insert(static_cast<i64>(tiles->devices.size()));
                for (const auto& dim : tiles->digits)
                    for (const auto& [stride, size] : dim)
                        cuts.insert({stride, stride * size});
            }
        i64 below = 1;
        for (const i64 cut : cuts) {
            if (cut % below != 0)
                throw UserError({place, "has shardings that divide the devices differently",
                                 str("into groups of ", below, " and of ", cut),
                                 "annotate with a mesh of named axes (jax.sharding.NamedSharding)"});
            if (cut > below)
                mesh_.axes.insert(mesh_.axes.begin(), {"", cut / below});
            below = cut;
        }
        for (std::size_t i = 0; i < mesh_.axes.size(); ++i)
            mesh_.axes[i].name = str("d", i);
    }
    check_mesh(mesh_, place + ", ");
}

Sharding HloMesh::of_sdy(const std::string& text, const std::string& place) const
{
    Sharding made;
    HloText t(text, place);
    const auto axes = [&](const auto& each) {
        t.want("{");
        t.items("}", [&] {
            if (t.take("?")) {
                each(std::string());
            } else {
                std::string name = axis_name(t.quoted());
                if (t.take(":")) {
                    name += ":(" + t.balanced('(', ')') + ")";
                    name += std::to_string(t.integer());
                }
                each(name);
            }
        });
    };
    if (t.peek() == '@')
        t.value(false);
    else if (t.take("mesh"))
        t.balanced('<', '>');
    t.want(",");
    t.want("[");
    t.items("]", [&] {
        DimSharding dim;
        dim.open = false;
        axes([&](const std::string& name) {
            if (name.empty())
                dim.open = true;
            else
                dim.axes.push_back(name);
        });
        if (t.sees_word()) { // p1
            const std::string priority = t.word();
            HloText number(std::string_view(priority).substr(1), place);
            dim.priority = static_cast<int>(std::clamp<i64>(number.integer(), 0, max_priority));
        }
        made.dims.push_back(std::move(dim));
    });
    while (t.take(",")) {
        const std::string which = t.word();
        t.want("=");
        axes([&](const std::string& name) {
            if (which == "replicated")
                made.replicated.push_back(name);
            else
                made.partial.push_back({name, Combine::sum});
        });
    }
    if (std::ranges::all_of(made.dims, [](const DimSharding& dim) { return dim == DimSharding(); }))
        made.dims.clear(); // it states nothing of them
    return made;
}

std::optional<Sharding> HloMesh::of_devices(const std::string& text, std::size_t rank,
                                            const std::string& place) const
{
    Sharding made;
    made.dims.resize(rank);
    for (DimSharding& dim : made.dims)
        dim.open = false;
    const auto tiles = tiles_of(text, place);
    if (!tiles)
        return text.find("replicated") != std::string::npos && rank > 0 ? std::optional(made) : std::nullopt;
    if (tiles->tiles.size() < rank)
        refuse(place, text, str("the tensor has ", rank, " dimensions"));
    for (std::size_t d = 0; d < rank; ++d)
        for (const auto& [stride, size] : tiles->digits[d]) {
            i64 below = mesh_.ranks();
            for (const MeshAxis& axis : mesh_.axes) { // major first
                below /= axis.size;
                if (below >= stride && below < stride * size)
                    made.dims[d].axes.push_back(axis.name);
            }
        }
    return made;
}

std::optional<Sharding> HloMesh::of(const HloAttribute& attributes, std::size_t rank,
                                    const std::string& place, std::size_t result) const
{
    if (mesh_.axes.empty())
        return {};
    if (const HloAttribute* sdy = attributes.find("sdy.sharding")) {
        std::string text = sdy->text;
        if (text.starts_with("[") || text.starts_with(" [")) { // sharding_per_value<[<…>, <…>]>
            HloText t(sdy->text, place);
            t.want("[");
            for (std::size_t i = 0; i <= result && !t.sees("]"); ++i) {
                text = t.balanced('<', '>');
                t.take(",");
            }
        }
        return of_sdy(text, place);
    }
    if (const HloAttribute* devices = attributes.find("mhlo.sharding"))
        return of_devices(devices->text, rank, place);
    return {};
}

} // namespace trivium
