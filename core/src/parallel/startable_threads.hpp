// Whether the system has threads to give.
#pragma once

namespace plumb {

/// How many of the `wanted` threads, of the size that OpenMP's have, can be started while all of
/// them run: they are started, and end at once. Limits of processes, of control groups and of
/// memory come in many kinds, none of which says how much of it is left.
int startable_threads(int wanted);

}  // namespace plumb
