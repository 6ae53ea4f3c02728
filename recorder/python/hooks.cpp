// CPython extension goldentrace._hooks: module scopes. Its `call` takes the place of
// torch.nn.Module.__call__, and enters and leaves the module's scope around it. Global forward
// hooks would do the same, but torch then calls every module by its slow way: 15 us a module in a
// decode step, against 1. Knows no Torch: it turns a module object into a scope id and tells the
// recorder.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recorder/c_api.h"

namespace {

struct Named {
  bool unnamed = false;  // looked at and not worth a name: not offered for adoption again
  bool counts_steps = false;
  std::uint32_t scope = 0;
};

// All of it is guarded by the GIL.
bool recording = false;  // never in a forked child: the recorder's locks may be held there for good
std::unordered_map<PyObject*, Named> known;  // `forget` is called before a module's memory is freed
PyObject* adopter = nullptr;
std::uint32_t steps = 0;

// Modules without a path (made on the fly, or of another model), entered and not left yet.
thread_local std::vector<std::pair<PyObject*, std::uint32_t>> unnamed;

const Named* find(PyObject* module) {
  auto found = known.find(module);
  if (found == known.end() && std::strcmp(Py_TYPE(module)->tp_name, "OptimizedModule") == 0) {
    // What torch.compile wraps around a module goes by the module's name.
    PyObject* const inner = PyObject_GetAttrString(module, "_orig_mod");
    if (inner == nullptr) PyErr_Clear();
    found = known.find(inner);
    Py_XDECREF(inner);
  }
  return found != known.end() ? &found->second : nullptr;
}

// The step begins where the main model is entered, not again where its wrapper enters it.
void count_step() {
  if (goldentrace_scope_depth() > 0 && goldentrace_scope_current() == 0) return;
  goldentrace_set_step(steps++);
}

// Lets `adopter` name a module that is called from outside every named one. False when the
// exception that it left is to be passed on (an interrupt).
bool offer(PyObject* module) {
  if (adopter == nullptr || goldentrace_scope_depth() > unnamed.size()) return true;
  PyObject* const callable = std::exchange(adopter, nullptr);  // not from inside itself
  PyObject* const answer = PyObject_CallOneArg(callable, module);
  if (recording && adopter == nullptr) {
    adopter = callable;
  } else {
    Py_DECREF(callable);
  }
  if (answer == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return false;
    PyErr_Clear();
  }
  Py_XDECREF(answer);
  return true;
}

// The scope is the module's path, or below the current scope its class in brackets. False when the
// exception that is set is to be passed on.
bool enter(PyObject* module) {
  const Named* named = find(module);
  if (named == nullptr) {
    if (!offer(module)) return false;
    named = find(module);
  }
  if (named != nullptr && !named->unnamed) {
    if (named->counts_steps) count_step();
    if (named->scope == 0) unnamed.clear();  // the root empties the stack
    goldentrace_scope_enter(named->scope);
    return true;
  }
  if (goldentrace_scope_depth() == 0) unnamed.clear();  // their exits were lost
  const std::string name = std::string("<") + Py_TYPE(module)->tp_name + ">";
  unnamed.emplace_back(module, goldentrace_scope_below(name.c_str()));
  goldentrace_scope_enter(unnamed.back().second);
  return true;
}

// The scope of a module that is left; entries above it lost their exits.
std::uint32_t scope_left(PyObject* module) {
  const Named* named = find(module);
  if (named != nullptr && !named->unnamed) return named->scope;
  for (std::size_t i = unnamed.size(); i-- > 0;) {
    if (unnamed[i].first != module) continue;
    const std::uint32_t scope = unnamed[i].second;
    unnamed.resize(i);
    return scope;
  }
  return 0;  // entered before the recording began
}

// What stands in the place of a class's __call__: a method like any other, so that who saves it
// from the class and puts it back later (torch.fx does) puts back the same.
struct ScopedCall {
  PyObject_HEAD PyObject* original;
  vectorcallfunc vectorcall;
};

// The original between entering and leaving the module's scope. Exceptions leave it too.
PyObject* call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  PyObject* const original = reinterpret_cast<ScopedCall*>(self)->original;
  if (!recording || PyVectorcall_NARGS(count) < 1) {
    return PyObject_Vectorcall(original, args, count, names);
  }
  PyObject* const module = args[0];
  if (!enter(module)) return nullptr;
  PyObject* const result = PyObject_Vectorcall(original, args, count, names);
  if (recording) {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    goldentrace_scope_exit(scope_left(module));
    PyErr_Restore(type, value, traceback);
  }
  return result;
}

PyObject* bind(PyObject* self, PyObject* instance, PyObject* /*type*/) {
  if (instance == nullptr || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

void destroy(PyObject* self) {
  Py_XDECREF(reinterpret_cast<ScopedCall*>(self)->original);
  Py_TYPE(self)->tp_free(self);
}

// Its name, signature and code are the original's.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* const own = PyObject_GenericGetAttr(self, name);
  if (own != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return own;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<ScopedCall*>(self)->original, name);
}

PyTypeObject scoped_call_type = [] {
  PyTypeObject type{};
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(&type), 1);
  type.tp_name = "goldentrace._hooks.ScopedCall";
  type.tp_basicsize = sizeof(ScopedCall);
  type.tp_dealloc = destroy;
  type.tp_vectorcall_offset = offsetof(ScopedCall, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  type.tp_doc = "calls a module, inside its scope";
  type.tp_getattro = get_attribute;
  type.tp_descr_get = bind;
  return type;
}();

// around(original): what is to stand in its place as a class's __call__.
PyObject* around(PyObject* /*self*/, PyObject* original) {
  auto* const scoped = PyObject_New(ScopedCall, &scoped_call_type);
  if (scoped == nullptr) return nullptr;
  Py_INCREF(original);
  scoped->original = original;
  scoped->vectorcall = call;
  return reinterpret_cast<PyObject*>(scoped);
}

void clear() {
  known.clear();
  unnamed.clear();
  steps = 0;
  Py_CLEAR(adopter);
}

// start(adopter or None): before the first name.
PyObject* start(PyObject* /*self*/, PyObject* callable) {
  clear();
  recording = true;
  if (callable != Py_None) {
    Py_INCREF(callable);
    adopter = callable;
  }
  Py_RETURN_NONE;
}

PyObject* stop(PyObject* /*self*/, PyObject* /*unused*/) {
  recording = false;
  clear();
  Py_RETURN_NONE;
}

// name(module, path, counts_steps): the first name of a module stands; a path of None says that it
// has none. The caller sees to it that forget() is called before the module's memory is freed.
PyObject* name(PyObject* /*self*/, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "name takes a module, its path and whether it counts steps");
    return nullptr;
  }
  Named entry;
  entry.unnamed = args[1] == Py_None;
  entry.counts_steps = PyObject_IsTrue(args[2]) == 1;
  if (!entry.unnamed) {
    const char* path = PyUnicode_AsUTF8(args[1]);
    if (path == nullptr) return nullptr;
    entry.scope = goldentrace_scope(path);
  }
  const auto [found, added] = known.try_emplace(args[0], entry);
  if (!added && found->second.unnamed) found->second = entry;
  Py_RETURN_NONE;
}

// forget(id(module)).
PyObject* forget(PyObject* /*self*/, PyObject* address) {
  void* const module = PyLong_AsVoidPtr(address);
  if (module == nullptr && PyErr_Occurred() != nullptr) return nullptr;
  known.erase(static_cast<PyObject*>(module));
  Py_RETURN_NONE;
}

void stop_in_child() { recording = false; }

template <typename Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"around", around, METH_O, "around(original): a __call__ that keeps scopes"},
    {"start", start, METH_O, "start(adopter): called with each module that is to get a name"},
    {"stop", stop, METH_NOARGS, "forgets all modules; the hooks do nothing from now on"},
    {"name", as_method(name), METH_FASTCALL, "name(module, path or None, counts_steps)"},
    {"forget", forget, METH_O, "forget(id(module))"},
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

PyMODINIT_FUNC PyInit__hooks() {
  pthread_atfork(nullptr, nullptr, stop_in_child);
  if (PyType_Ready(&scoped_call_type) < 0) return nullptr;
  return PyModule_Create(&definition);
}
