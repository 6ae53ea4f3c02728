# Finds LibTorch for C++ without torch's own CMake package, which demands a CUDA toolkit as soon as the
# wheel is a CUDA build. Takes either
#   LIBTORCH_ROOT          a LibTorch folder (with include/ and lib/), or
#   GOLDENTRACE_PYTHON     an interpreter with an installed torch wheel.
# Defines LibTorch::LibTorch, which links libtorch_cpu and libc10 only: one build serves CPU and CUDA
# machines. NDEBUG is part of the target: the layout of at::RecordFunction depends on it, and wheels
# are built with it.
if(NOT LIBTORCH_ROOT)
  execute_process(
    COMMAND ${GOLDENTRACE_PYTHON} -c
            "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE LIBTORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

find_path(LibTorch_INCLUDE_DIR ATen/record_function.h HINTS ${LIBTORCH_ROOT}/include NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu HINTS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 HINTS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH)
# The OpenMP library whose threads LibTorch's kernels use: a second one would have threads of its own.
file(GLOB LibTorch_OPENMP_LIBRARY ${LIBTORCH_ROOT}/lib/libgomp*.so* ${LIBTORCH_ROOT}/lib/libomp*.so*
     ${LIBTORCH_ROOT}/lib/libiomp*.so* ${LIBTORCH_ROOT}/../torch.libs/libgomp*.so*)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "set GOLDENTRACE_PYTHON to a Python that has torch, or LIBTORCH_ROOT")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${LibTorch_INCLUDE_DIR})
  target_compile_definitions(LibTorch::LibTorch INTERFACE NDEBUG)
  target_link_libraries(LibTorch::LibTorch INTERFACE ${LibTorch_CPU_LIBRARY} ${LibTorch_C10_LIBRARY}
                        ${LibTorch_OPENMP_LIBRARY})
  # A CUDA wheel's libtorch_cpu needs libraries that it finds itself by its own run path.
  target_link_options(LibTorch::LibTorch INTERFACE -Wl,--allow-shlib-undefined)
endif()
