#include "train/save/saver.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "lifecycle/disk_space.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <exception>
#include <fmt/format.h>

namespace trivium {

i64 kept_checkpoints(const CheckpointConfig& config)
{
    return config.keep == 0 ? 0 : std::max(config.keep, i64{2});
}

Bytes bytes_to_write(const std::vector<SavedTensor>& tensors)
{
    Bytes bytes = 0;
    for (const SavedTensor& tensor : tensors)
        bytes += tensor.written();
    return bytes;
}

void require_space(Comm& world, const RunConfig& config, i64 step, const std::vector<SavedTensor>& tensors)
{
    SavesToCome saves;
    for (const Bytes bytes : gather_records(world, bytes_to_write(tensors)))
        saves.bytes += bytes;
    const CheckpointConfig& c = config.checkpoint;
    const i64 steps = config.train.steps - step;
    saves.count = steps <= 0 ? 0 : c.every > 0 ? ceil_div(steps, c.every) : 1;
    saves.keep = kept_checkpoints(c);
    if (saves.keep > 0 && !c.best.empty())
        ++saves.keep;
    succeed_together(world, [&] {
        if (world.rank() != 0)
            return;
        saves.kept_before = static_cast<i64>(list_checkpoints(c.dir).size());
        if (const std::string warning = judge_space(c.dir, free_space(c.dir), saves); !warning.empty())
            log_warning(warning);
    });
}

Saver::Saver(Comm& world, const SaverConfig& config, std::vector<SavedTensor>& tensors)
    : world_(world), config_(config), tensors_(tensors)
{
    std::vector<TensorPiece> pieces;
    succeed_together(world_, [&] {
        if (config_.snapshot)
            snapshot_.resize(static_cast<std::size_t>(bytes_to_write(tensors_)));
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
        try {
            work();
        } catch (...) {
            failure_ = std::current_exception();
        }
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
    if (phase_ == Phase::writing && world_.rank() == 0)
        log_progress(str("waiting for the save of step ", state_.step));
    finish();
    begun_ = now();
    stall_ = 0;
    failure_ = nullptr;
    state_ = state;
    writer_->begin(state.step);
    phase_ = Phase::writing;
    if (!config_.background) {
        if (config_.snapshot)
            succeed_together(world_, [&] { take_snapshot(); });
        writer_->write();
        entered_ = now();
        end_writing();
        end_publishing();
        return;
    }
    taken_promise_ = {};
    taken_ = taken_promise_.get_future();
    if (!HostWindow::in_place()) { // on a device the step needs it; on the host a thread may read
                                   // concurrently
        succeed_together(world_, [&] { take_snapshot(); });
        taken_promise_.set_value();
    }
    run_in_background([this] {
        if (HostWindow::in_place()) {
            try {
                take_snapshot();
            } catch (...) { // the ranks agree on it after the step, which must not wait for it
                failure_ = std::current_exception();
            }
            taken_promise_.set_value();
        }
        if (!failure_)
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
    return failure_ || (phase_ == Phase::writing && writer_->failed()) ? failed : 0;
}

void Saver::advance(u64 agreed)
{
    entered_ = now();
    if ((agreed & failed) != 0 || (agreed & busy) == 0) {
        if (phase_ == Phase::writing)
            end_writing();
        else if (phase_ == Phase::publishing)
            end_publishing();
        else if (phase_ == Phase::pruning)
            end_background();
    }
    stall_ += now() - entered_;
}

void Saver::begin_on_first(Phase phase, std::function<void()> work)
{
    phase_ = phase;
    failure_ = nullptr;
    if (world_.rank() == 0)
        run_in_background(std::move(work));
}

void Saver::end_background()
{
    join();
    phase_ = Phase::idle; // in case it throws
    succeed_together(world_, [&] {
        if (failure_)
            std::rethrow_exception(failure_);
    });
}

void Saver::end_writing()
{
    end_background();
    writer_->collect();
    begin_on_first(Phase::publishing, [this] {
        if (config_.before_publishing)
            config_.before_publishing();
        path_ = writer_->publish(state_);
    });
}

void Saver::end_publishing()
{
    end_background();
    times_.whole = now() - begun_;
    times_.stall = config_.background ? stall_ + now() - entered_ : times_.whole;
    if (world_.rank() == 0)
        log_info(fmt::format(
            "saved {} in {}{}", path_, format_seconds(times_.whole),
            config_.background ? fmt::format(", training waited for {}", format_seconds(times_.stall)) : ""));
    begin_on_first(Phase::pruning, [this] {
        if (const i64 every = config_.always_every; every > 0) {
            const i64 step = state_.step / every * every;
            if (step == state_.step)
                returns_ = {step, state_.best.step};
            else if (step != returns_.step) // another process saved it
                returns_ = {step, best_recorded_by(str(config_.dir, "/", checkpoint_name(step))).step};
        }
        writer_->prune(config_.keep, {returns_.step, returns_.best});
    });
}

void Saver::finish()
{
    entered_ = now();
    if (phase_ == Phase::writing)
        end_writing();
    if (phase_ == Phase::publishing)
        end_publishing();
    if (phase_ == Phase::pruning)
        end_background();
}

} // namespace trivium
