#include "train/saver.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>

namespace trivium {

namespace {

Seconds now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace

Saver::Saver(Comm& world, const SaverConfig& config, std::vector<SavedTensor>& tensors) : world_(world), config_(config), tensors_(tensors)
{
    std::vector<TensorPiece> pieces;
    succeed_together(world_, [&] {
        Bytes bytes = 0;
        for (const SavedTensor& tensor : tensors_)
            bytes += tensor.written();
        if (config_.snapshot)
            snapshot_.resize(static_cast<std::size_t>(bytes));
        Bytes at = 0;
        for (SavedTensor& tensor : tensors_) {
            pieces.push_back(tensor.written_piece(config_.snapshot ? snapshot_.data() + at : nullptr));
            at += tensor.written();
        }
    });
    writer_.emplace(world_, config_.dir, std::move(pieces));
}

Saver::~Saver() { join(); }

void Saver::run_in_background(std::function<void()> work)
{
    done_ = false;
    thread_ = std::thread([this, work = std::move(work)] {
        work();
        done_ = true;
    });
}

void Saver::join()
{
    if (thread_.joinable())
        thread_.join();
}

void Saver::take_snapshot()
{
    Bytes at = 0;
    for (SavedTensor& tensor : tensors_) {
        tensor.copy_written(snapshot_.data() + at);
        at += tensor.written();
    }
}

void Saver::start(const RunState& state)
{
    if (phase_ != Phase::idle && world_.rank() == 0)
        log_progress(str("waiting for the save of step ", state_.step));
    finish();
    begun_ = now();
    stall_ = 0;
    state_ = state;
    writer_->begin(state.step);
    phase_ = Phase::writing;
    if (!config_.background) {
        if (config_.snapshot)
            succeed_together(world_, [&] { take_snapshot(); });
        writer_->write();
        finish();
        return;
    }
    taken_promise_ = {};
    taken_ = taken_promise_.get_future();
    if (!HostWindow::in_place()) { // a device is the step's; on the host a thread may read beside it
        succeed_together(world_, [&] { take_snapshot(); });
        taken_promise_.set_value();
    }
    run_in_background([this] {
        if (HostWindow::in_place()) {
            take_snapshot();
            taken_promise_.set_value();
        }
        writer_->write();
    });
    stall_ += now() - begun_;
}

void Saver::wait_for_snapshot()
{
    if (!taken_.valid())
        return;
    const Seconds begin = now();
    taken_.get();
    stall_ += now() - begin;
}

u64 Saver::flags() const
{
    if (phase_ == Phase::idle)
        return 0;
    if (!done_)
        return busy;
    return (phase_ == Phase::writing ? writer_->failed() : publish_failure_ != nullptr) ? failed : 0;
}

void Saver::advance(u64 agreed)
{
    entered_ = now();
    const bool over = (agreed & failed) != 0 || (agreed & busy) == 0;
    if (phase_ == Phase::writing && over)
        end_writing();
    else if (phase_ == Phase::publishing && over)
        end_publishing();
    stall_ += now() - entered_;
}

void Saver::publish()
{
    publish_failure_ = nullptr;
    try {
        path_ = writer_->publish(state_, config_.keep);
    } catch (...) {
        publish_failure_ = std::current_exception();
    }
}

void Saver::end_writing()
{
    join();
    phase_ = Phase::idle; // should it throw
    writer_->collect();
    phase_ = Phase::publishing;
    if (world_.rank() == 0)
        run_in_background([this] { publish(); });
}

void Saver::end_publishing()
{
    join();
    phase_ = Phase::idle;
    succeed_together(world_, [&] {
        if (publish_failure_)
            std::rethrow_exception(std::exchange(publish_failure_, nullptr));
    });
    times_.whole = now() - begun_;
    times_.stall = config_.background ? stall_ + now() - entered_ : times_.whole;
    if (world_.rank() == 0)
        log_info(fmt::format("saved {} in {}{}", path_, format_seconds(times_.whole),
                             config_.background ? fmt::format(", training waited for {}", format_seconds(times_.stall)) : ""));
}

void Saver::finish()
{
    entered_ = now();
    if (phase_ == Phase::writing)
        end_writing();
    if (phase_ == Phase::publishing)
        end_publishing();
}

} // namespace trivium
