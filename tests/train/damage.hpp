#pragma once
// Possible damage to the files of a checkpoint.
#include <functional>
#include <string>
#include <vector>

namespace trivium::damage {

/// The names of a checkpoint's files, in order.
std::vector<std::string> files_of(const std::string& checkpoint);
std::size_t bytes_of(const std::string& checkpoint);

/// Flips one bit, in place.
void flip(const std::string& path, std::size_t byte, int bit);

/// The checkpoint that is damaged, and good ones: of an earlier step of the run, of the same step of another
/// run, and of another layout of ranks.
struct Place {
    std::string newest, older, other_run, other_layout;
};

struct Damage {
    std::string what;
    std::function<void(const Place&)> make;
    bool harmless = false; ///< everything that was saved may still be present
};
/// For a checkpoint with the files of `checkpoint`: files swapped, missing, of another step or run, replaced
/// by links, folders or pipes, extended, or with meaningless content.
std::vector<Damage> damages(const std::string& checkpoint);

/// Whether both contain the same files, none of them a link, with the same bytes.
bool same_files(const std::string& a, const std::string& b);

} // namespace trivium::damage
