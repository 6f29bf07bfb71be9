#pragma once
// Folders that come from elsewhere, and folders that are there as a whole or not at all.
#include <functional>
#include <string>

namespace trivium {

/// The path of the file `name` in `folder`; "" where there is none. UserError where it is not a regular file,
/// or a symbolic link out of the folder. (The cache of huggingface_hub is let pass: its links lead to
/// ../../blobs.)
std::string file_in_folder(const std::string& folder, const std::string& name);

/// UserError where `path` exists, unless it is an empty folder.
void require_new_folder(const std::string& path);

/// Makes the folder `path`: calls `write(temporary)`, which fills a new folder beside it; then every file is
/// synced to the disk and the folder renamed. When anything throws, the temporary folder goes and `path`
/// stays as it was. UserError as require_new_folder, IoError where the machine refuses.
void make_whole_folder(const std::string& path,
                       const std::function<void(const std::string& temporary)>& write);

} // namespace trivium
