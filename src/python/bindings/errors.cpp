// Our errors as Python exceptions: nestor.Error and its subclass ScheduleError, with the parts of the
// diagnostic; nestor.InternalError for our own mistakes.
#include "nestor/error.h"
#include "src/python/bindings/bindings.h"

namespace nestor::python {

namespace {

struct Types {
  nb::object error, schedule, internal;
  nb::object in_python;  // a text of the command line's words in Python's
};
Types& types() {
  static Types* const kept = new Types;  // outlives the interpreter's end
  return *kept;
}

void raise(const nb::object& type, const Error& e) {
  const Diagnostic& d = e.diagnostic();
  const auto words = [](const std::string& text) { return types().in_python(nb::str(text.c_str())); };
  const nb::object value = type(words(e.what()));
  nb::list notes;
  for (const std::string& note : d.notes) notes.append(words(note));
  value.attr("message") = words(d.message);
  value.attr("notes") = notes;
  value.attr("hint") = words(d.hint);
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
  types() = {python.attr("Error"), python.attr("ScheduleError"), python.attr("InternalError"),
             python.attr("in_python")};
  nb::register_exception_translator(translate, nullptr);
  m.attr("Error") = types().error;
}

}  // namespace nestor::python
