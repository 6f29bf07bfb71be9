#include "io/files/open_files.hpp"

namespace trivium {

OccasionalFile::OccasionalFile(std::shared_ptr<OpenFiles> group, std::string path, std::string what)
    : group_(std::move(group)), path_(std::move(path)), what_(std::move(what))
{
    identity_ = open()->identity();
}

std::shared_ptr<const PlainFile> OccasionalFile::open() const
{
    const std::lock_guard lock(group_->mutex);
    if (std::shared_ptr<const PlainFile> file = open_.lock())
        return file;
    auto file = std::make_shared<const PlainFile>(PlainFile::open(path_, what_, PlainFile::Links::follow));
    if (identity_ && *identity_ != file->identity())
        throw UserError({path_, "is another file than the one that was opened first",
                         str("something has replaced this ", what_, " while it was in use"),
                         "start again, and replace no file while a process reads it"});
    group_->files.push_back(file);
    if (group_->files.size() > OpenFiles::most)
        group_->files.pop_front();
    open_ = file;
    return file;
}

} // namespace trivium
