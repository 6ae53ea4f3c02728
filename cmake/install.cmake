# `cmake --install`: libgoldentrace with its header, for pkg-config and for find_package, and the
# program `replay`. `record` and the Python package are used from the build folder.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

target_include_directories(goldentrace_capi INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(goldentrace_capi PROPERTIES EXPORT_NAME goldentrace)
install(TARGETS goldentrace_capi EXPORT goldentraceTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES src/capi/goldentrace.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/goldentrace)

set(GOLDENTRACE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/goldentrace)
install(EXPORT goldentraceTargets NAMESPACE goldentrace:: DESTINATION ${GOLDENTRACE_CMAKE_DIR})
configure_package_config_file(
  cmake/goldentraceConfig.cmake.in ${PROJECT_BINARY_DIR}/goldentraceConfig.cmake
  INSTALL_DESTINATION ${GOLDENTRACE_CMAKE_DIR})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/goldentraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/goldentraceConfig.cmake
              ${PROJECT_BINARY_DIR}/goldentraceConfigVersion.cmake
        DESTINATION ${GOLDENTRACE_CMAKE_DIR})

# The tree may be moved: the prefix is found from where the .pc file lies.
file(RELATIVE_PATH GOLDENTRACE_PC_PREFIX
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/goldentrace.pc.in ${PROJECT_BINARY_DIR}/goldentrace.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/goldentrace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
