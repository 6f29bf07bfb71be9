#include "train/damage.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

namespace trivium::damage {

namespace fs = std::filesystem;

std::vector<std::string> files_of(const std::string& checkpoint)
{
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(checkpoint))
        files.push_back(entry.path().filename());
    std::sort(files.begin(), files.end());
    return files;
}

std::size_t bytes_of(const std::string& checkpoint)
{
    std::size_t bytes = 0;
    for (const std::string& file : files_of(checkpoint))
        bytes += fs::file_size(checkpoint + "/" + file);
    return bytes;
}

void flip(const std::string& path, std::size_t byte, int bit)
{
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(byte));
    const int was = file.get();
    file.seekp(static_cast<std::streamoff>(byte));
    file.put(static_cast<char>(was ^ (1 << bit)));
}

namespace {

using Make = std::function<void(const std::string& path)>; ///< to one file

void add_to_file(std::vector<Damage>& all, const std::string& file, const std::string& what, const Make& make,
                 bool harmless = false)
{
    all.push_back(
        {file + ": " + what, [=](const Place& place) { make(place.newest + "/" + file); }, harmless});
}

void link_instead(const std::string& path, const std::string& target)
{
    fs::remove(path);
    fs::create_symlink(target, path);
}

void add_damages_of_file(std::vector<Damage>& all, const std::string& file)
{
    add_to_file(all, file, "missing", [](const std::string& path) { fs::remove(path); });
    add_to_file(all, file, "a link to a good copy", [](const std::string& path) {
        const std::string copy = fs::path(path).parent_path().string() + "-copy";
        fs::create_directories(copy);
        fs::rename(path, copy + "/good");
        fs::create_symlink(copy + "/good", path);
    });
    add_to_file(all, file, "a link to nowhere",
                [](const std::string& path) { link_instead(path, "nowhere"); });
    add_to_file(all, file, "a link to itself", [](const std::string& path) { link_instead(path, path); });
    add_to_file(all, file, "a link to /dev/zero",
                [](const std::string& path) { link_instead(path, "/dev/zero"); });
    add_to_file(all, file, "a link to a folder", [](const std::string& path) { link_instead(path, ".."); });
    add_to_file(all, file, "a link to a pipe", [](const std::string& path) {
        ::mkfifo((path + "-pipe").c_str(), 0600);
        link_instead(path, path + "-pipe");
    });
    add_to_file(all, file, "a pipe", [](const std::string& path) {
        fs::remove(path);
        ::mkfifo(path.c_str(), 0600);
    });
    add_to_file(all, file, "a folder", [](const std::string& path) {
        fs::remove(path);
        fs::create_directory(path);
    });
    add_to_file(
        all, file, "unreadable", [](const std::string& path) { fs::permissions(path, fs::perms::none); },
        true); // root reads it
    add_to_file(all, file, "zeros", [](const std::string& path) {
        const std::size_t size = fs::file_size(path);
        std::ofstream(path, std::ios::binary) << std::string(size, '\0');
    });
    add_to_file(all, file, "a byte longer", [](const std::string& path) {
        std::ofstream(path, std::ios::binary | std::ios::app) << '\n';
    });
    add_to_file(all, file, "a TiB longer",
                [](const std::string& path) { fs::resize_file(path, std::uintmax_t{1} << 40); });
    const auto from = [&](const std::string& what, std::string Place::*source) {
        all.push_back({file + ": " + what, [=](const Place& place) {
                           if (fs::exists(place.*source + "/" + file))
                               fs::copy_file(place.*source + "/" + file, place.newest + "/" + file,
                                             fs::copy_options::overwrite_existing);
                       }});
    };
    from("of another step", &Place::older);
    from("of another run", &Place::other_run);
    from("of another layout", &Place::other_layout);
}

} // namespace

std::vector<Damage> damages(const std::string& checkpoint)
{
    std::vector<Damage> all;
    const std::vector<std::string> files = files_of(checkpoint);
    for (const std::string& file : files)
        add_damages_of_file(all, file);
    std::vector<std::string> shards;
    std::copy_if(files.begin(), files.end(), std::back_inserter(shards),
                 [](const std::string& file) { return file.starts_with("shard-"); });
    for (std::size_t i = 1; i < shards.size(); ++i)
        all.push_back({shards[0] + " and " + shards[i] + ": swapped", [=](const Place& place) {
                           const std::string& newest = place.newest;
                           fs::rename(newest + "/" + shards[0], newest + "/swap");
                           fs::rename(newest + "/" + shards[i], newest + "/" + shards[0]);
                           fs::rename(newest + "/swap", newest + "/" + shards[i]);
                       }});
    all.push_back({"an empty folder", [](const Place& place) {
                       const std::string& newest = place.newest;
                       fs::remove_all(newest);
                       fs::create_directory(newest);
                   }});
    all.push_back({"a file too many",
                   [](const Place& place) {
                       const std::string& newest = place.newest;
                       std::ofstream(newest + "/shard-00099.h5") << "not HDF5";
                       std::ofstream(newest + "/notes.txt") << "mine";
                       fs::create_directory(newest + "/folder");
                   },
                   true});
    all.push_back({"a link to the folder",
                   [](const Place& place) {
                       const std::string& newest = place.newest;
                       fs::rename(newest, newest + "-moved");
                       fs::create_directory_symlink(newest + "-moved", newest);
                   },
                   true});
    return all;
}

bool same_files(const std::string& a, const std::string& b)
{
    if (!fs::is_directory(a) || files_of(a) != files_of(b))
        return false;
    const auto content = [](const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    for (const std::string& file : files_of(a)) {
        const std::string x = a + "/" + file, y = b + "/" + file;
        if (!fs::is_regular_file(fs::symlink_status(x)) || fs::file_size(x) != fs::file_size(y) ||
            content(x) != content(y))
            return false;
    }
    return true;
}

} // namespace trivium::damage
