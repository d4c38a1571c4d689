# `cmake --install`: the program and the CMake package around it. No headers of ours: what a model's users include is the
# header that `nestor compile` writes, and it includes nothing. Nor Halide's library, which lies in the build folder.
include(CMakePackageConfigHelpers)
set(package ${PROJECT_BINARY_DIR}/package)
write_basic_package_version_file(${package}/NestorConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
set_target_properties(nestor PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)  # an LLVM outside of the system's folders is found
install(TARGETS nestor RUNTIME DESTINATION bin)
install(FILES ${package}/NestorConfigVersion.cmake ${PROJECT_SOURCE_DIR}/cmake/package/NestorConfig.cmake
  DESTINATION lib/cmake/Nestor)
