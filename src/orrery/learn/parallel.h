#pragma once

#include <cstddef>
#include <functional>

namespace orrery {

/// Calls `work(task, worker)` once for each task below `tasks` on up to `threads`
/// threads; `worker`, below `threads`, tells them apart. Which worker gets a task
/// depends on both counts alone. Results are the same for any number of threads when
/// each task writes only what is its own. The first task (by number of its worker)
/// that throws ends the call with its exception, after every worker has stopped.
void for_each_task(size_t tasks, int threads, const std::function<void(size_t, size_t)>& work);

/// Calls `work(task)` once for each task below `tasks`, in their order, whichever of up to
/// `threads` threads is free next: for tasks of very different lengths. Results are the same for
/// any number of threads when each task writes only what is its own. After one throws no other is
/// begun, and the call ends with the exception of the first one, by number, that threw.
void share_tasks(size_t tasks, int threads, const std::function<void(size_t)>& work);

}  // namespace orrery
