#pragma once
// For libraries that may crash, or never end, on a crafted file.
#include <functional>
#include <string>

namespace trivium {

/// Runs `work`, which reads the file at `path`, in a child process. Throws the UserError or IoError that
/// `work` throws there, and a UserError if the child crashes, or takes more than 10 s of processor time or 1
/// GiB of memory. Returns if the child hangs for 20 s, on a lock that another thread held at the fork. `work`
/// changes nothing outside of its process, and does not call MPI.
void try_in_child(const std::string& path, const std::function<void()>& work);

} // namespace trivium
