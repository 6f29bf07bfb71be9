#pragma once
// Reading folders of unknown origin, and making folders atomically.
#include <functional>
#include <string>

namespace trivium {

/// The path of the file `name` in `folder`; "" if it does not exist. UserError if it is not a regular file,
/// or a symbolic link out of the folder. (Links to ../../blobs are accepted in a cache of huggingface_hub.)
std::string file_in_folder(const std::string& folder, const std::string& name);

/// UserError if `path` exists, unless it is an empty folder.
void require_new_folder(const std::string& path);

/// Makes the folder `path` atomically: calls `write(temporary)`, which fills a new folder next to `path`;
/// then syncs every file and renames the folder. If anything throws before the rename, the temporary folder
/// is removed and `path` stays as it was. UserError as require_new_folder; errors of `write`; IoError.
void make_whole_folder(const std::string& path,
                       const std::function<void(const std::string& temporary)>& write);

} // namespace trivium
