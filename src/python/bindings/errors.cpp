// Errors of ours as Python's: nestor.Error, of which ScheduleError is one, with the parts of the diagnostic;
// nestor.InternalError for our own mistakes.
#include "nestor/error.h"
#include "src/python/bindings/bindings.h"

namespace nestor::python {

namespace {

struct Types {
  nb::object error, schedule, internal;
};
Types& types() {
  static Types* const kept = new Types;  // outlives the interpreter's end
  return *kept;
}

void raise(const nb::object& type, const Error& e) {
  const Diagnostic& d = e.diagnostic();
  const nb::object value = type(nb::str(e.what()));
  value.attr("message") = d.message;
  value.attr("notes") = nb::cast(d.notes);
  value.attr("hint") = d.hint;
  PyErr_SetObject(type.ptr(), value.ptr());
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const ScheduleError& e) {
    raise(types().schedule, e);
  } catch (const UserError& e) {
    raise(types().error, e);
  } catch (const InternalError& e) {
    raise(types().internal, e);
  }
}

}  // namespace

void add_errors(nb::module_& m) {
  const nb::module_ python = nb::module_::import_("nestor._errors");
  types() = {python.attr("Error"), python.attr("ScheduleError"), python.attr("InternalError")};
  nb::register_exception_translator(translate, nullptr);
  m.attr("Error") = types().error;
}

void warn(const std::string& message) {
  const nb::gil_scoped_acquire held;
  nb::module_::import_("warnings").attr("warn")(message, nb::arg("stacklevel") = 3);
}

}  // namespace nestor::python
