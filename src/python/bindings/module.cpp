// The compiled half of the Python package `nestor`; what it holds is described where users see it, in
// nestor/*.py.
#include "src/python/bindings/bindings.h"

NB_MODULE(_nestor, m) {
  nanobind::set_leak_warnings(false);  // threads that still run at the end hold what they use
  m.attr("__version__") = NESTOR_VERSION;
  nestor::python::add_errors(m);
  nestor::python::add_models(m);
  nestor::python::add_schedules(m);
  nestor::python::add_threads(m);
  nestor::python::add_tuner(m);
}
