#pragma once
// Runs that are longer than the time between failures: when to save, and how long they take.
#include "base/units.hpp"

namespace trivium {

/// Failures that end the job, as a Poisson process.
struct Failures {
    Seconds between = 0; ///< mean time between failures of the whole job
    Seconds stall = 0;   ///< for which a checkpoint stops the training
    Seconds restart = 0; ///< from a failure to the first step: requeue, start, read
    Seconds least = 0;   ///< between checkpoints: what it takes to write one
};

struct LongRun {
    Seconds interval = 0; ///< between checkpoints
    double goodput = 1;   ///< part of the time that goes into steps that count
};

/// The interval of Daly 2006 ("A higher order estimate of the optimum checkpoint interval for restart dumps",
/// equation 37), but at least Failures::least; the goodput is the work over his expected run time (equation
/// 20). \pre between > 0
LongRun long_run(const Failures& failures);

} // namespace trivium
