// The native half of the Python package: one request as JSON in, its answer out.

#include <pybind11/pybind11.h>

#include <string>

#include "orrery/api/session.h"
#include "orrery/base/version.h"

namespace py = pybind11;

namespace {

std::string call(const std::string& request) {
  const py::gil_scoped_release others_may_run;
  return orrery::Session().call(request);
}

/// Raises orrery.Error, the class that python/orrery/__init__.py defines.
void raise(const orrery::Error& error) {
  const py::object type = py::module_::import("orrery").attr("Error");
  const py::object value = type(error.what());
  value.attr("message") = error.message();
  value.attr("kind") = std::string(orrery::name(error.kind()));
  value.attr("exit_code") = error.exit_code();
  value.attr("file") = error.where().file;
  value.attr("line") = error.where().line;
  value.attr("column") = error.where().column;
  PyErr_SetObject(type.ptr(), value.ptr());
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.doc() = "Orrery's session; use the package 'orrery'.";
  module.attr("__version__") = orrery::kVersion;
  module.def("call", &call, py::arg("request"),
             "The answer to a request, both JSON texts; raises orrery.Error.");
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const orrery::Error& error) {
      raise(error);
    }
  });
}
