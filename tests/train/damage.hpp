#pragma once
// What may happen to the files of a checkpoint.
#include <functional>
#include <string>
#include <vector>

namespace trivium::damage {

/// The names of a checkpoint's files, in order.
std::vector<std::string> files_of(const std::string& checkpoint);
std::size_t bytes_of(const std::string& checkpoint);

/// Turns one bit over, in place.
void flip(const std::string& path, std::size_t byte, int bit);

/// The checkpoint that is damaged, and good ones: of an earlier step of the run, of the same step of another
/// run, and of another layout of ranks.
struct Place {
    std::string newest, older, other_run, other_layout;
};

struct Damage {
    std::string what;
    std::function<void(const Place&)> make;
    bool harmless = false; ///< all that was saved may still be there
};
/// For a checkpoint with the files that `checkpoint` has: files swapped, missing, of another step or run,
/// replaced by links and folders and pipes, longer, empty of sense.
std::vector<Damage> damages(const std::string& checkpoint);

/// Whether both hold the same files, none of them a link, with the same bytes.
bool same_files(const std::string& a, const std::string& b);

} // namespace trivium::damage
