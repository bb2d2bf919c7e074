#include <fmt/format.h>

#include "orrery/base/csv.h"
#include "orrery/report/text.h"

namespace orrery {

std::string launches_csv(const PredictAnswer& answer) {
  std::string out = "name,op,dtype,params,count,predicted_us,low_us,high_us\n";
  for (const LaunchRow& row : answer.launch_rows)
    out +=
        fmt::format("{},{},{},{},{},{:.4f},{:.4f},{:.4f}\n", csv_field(row.name), row.op, row.dtype,
                    csv_field(row.params), row.count, row.predicted_us, row.low_us, row.high_us);
  return out;
}

}  // namespace orrery
