#include "orrery/sim/event_queue.h"

namespace orrery {

template class EventQueue<uint64_t>;

}  // namespace orrery
