// CPython extension goldentrace._hooks: module scopes. torch calls `enter` and `leave` around every
// module's forward, as global forward hooks; in C they cost a tenth of what Python hooks do.
// Knows no Torch: it turns a module object into a scope id and tells the recorder.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recorder/c_api.h"

namespace {

// Modules that the recording was told by name, alive as long as `names` is. Guarded by the GIL.
std::unordered_map<PyObject*, std::uint32_t> scope_of_module;

// Modules that nobody named (made on the fly, or of another model), entered and not left yet.
thread_local std::vector<std::pair<PyObject*, std::uint32_t>> unnamed;

// The scope of a module that is entered: its path, or below the current scope its class in brackets.
std::uint32_t scope_entered(PyObject* module) {
  const auto found = scope_of_module.find(module);
  if (found != scope_of_module.end()) return found->second;
  const std::string name = std::string("<") + Py_TYPE(module)->tp_name + ">";
  unnamed.emplace_back(module, goldentrace_scope_below(name.c_str()));
  return unnamed.back().second;
}

// The same one when it is left; entries above it lost their exits.
std::uint32_t scope_left(PyObject* module) {
  const auto found = scope_of_module.find(module);
  if (found != scope_of_module.end()) return found->second;
  for (std::size_t i = unnamed.size(); i-- > 0;) {
    if (unnamed[i].first != module) continue;
    const std::uint32_t scope = unnamed[i].second;
    unnamed.resize(i);
    return scope;
  }
  return 0;  // entered before the recording began
}

// enter(module, args): forward pre-hook.
PyObject* enter(PyObject* /*self*/, PyObject* const* args, Py_ssize_t count) {
  if (count > 0) goldentrace_scope_enter(scope_entered(args[0]));
  Py_RETURN_NONE;
}

// leave(module, args, output): forward hook, called after exceptions too.
PyObject* leave(PyObject* /*self*/, PyObject* const* args, Py_ssize_t count) {
  if (count > 0) goldentrace_scope_exit(scope_left(args[0]));
  Py_RETURN_NONE;
}

// set_names(dict): {module: path}; the caller keeps the modules alive until clear_names().
PyObject* set_names(PyObject* /*self*/, PyObject* names) {
  if (PyDict_Check(names) == 0) {
    PyErr_SetString(PyExc_TypeError, "set_names takes a dict of module: path");
    return nullptr;
  }
  scope_of_module.clear();
  unnamed.clear();
  PyObject* module = nullptr;
  PyObject* path = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(names, &position, &module, &path) != 0) {
    const char* text = PyUnicode_AsUTF8(path);
    if (text == nullptr) return nullptr;
    scope_of_module[module] = goldentrace_scope(text);
  }
  Py_RETURN_NONE;
}

PyObject* clear_names(PyObject* /*self*/, PyObject* /*unused*/) {
  scope_of_module.clear();
  Py_RETURN_NONE;
}

template <typename Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"enter", as_method(enter), METH_FASTCALL, "forward pre-hook: enters the module's scope"},
    {"leave", as_method(leave), METH_FASTCALL, "forward hook: leaves the module's scope"},
    {"set_names", set_names, METH_O, "set_names({module: path})"},
    {"clear_names", clear_names, METH_NOARGS, "forgets all modules"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_hooks",
                          "Module scopes for goldentrace.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__hooks() { return PyModule_Create(&definition); }
