# What Nestor stands on. Required packages are Debian 12's (./dev setup installs them); optional ones are found or left
# out with one line in the summary.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(LLVM 19.1 REQUIRED CONFIG)
find_package(LLD REQUIRED CONFIG HINTS ${LLVM_DIR}/../lld /usr/lib/llvm-19/lib/cmake/lld)
find_package(Catch2 REQUIRED)
find_package(benchmark REQUIRED)
find_package(CLI11 REQUIRED)
find_package(SQLite3 REQUIRED)
find_library(ZIP_LIBRARY zip REQUIRED)  # its CMake package asks for tools that Debian ships apart
find_package(Protobuf REQUIRED)
find_library(ISL_LIBRARY isl REQUIRED)
find_library(HWLOC_LIBRARY hwloc REQUIRED)
find_library(ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
find_library(BOOST_CONTEXT_LIBRARY boost_context REQUIRED)
find_program(CLANG NAMES clang-19 REQUIRED)
message(STATUS "Nestor: LLVM ${LLVM_PACKAGE_VERSION}, Catch2 ${Catch2_VERSION}, clang ${CLANG}")

# Optional: found or left out, with one line each. Halide's own CMake package asks for CMake 3.28, Debian 12 has 3.25.
file(GLOB halide_roots ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/halide)
find_path(HALIDE_INCLUDE Halide.h HINTS ${halide_roots} PATH_SUFFIXES include)
find_library(HALIDE_LIBRARY Halide HINTS ${halide_roots} PATH_SUFFIXES lib64 lib)
if(HALIDE_INCLUDE AND HALIDE_LIBRARY)
  add_library(Halide::Halide SHARED IMPORTED)
  set_target_properties(Halide::Halide PROPERTIES IMPORTED_LOCATION ${HALIDE_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${HALIDE_INCLUDE})
  set(CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR}/lib)  # where programs of the build folder find libnestor_halide.so
  message(STATUS "Nestor: Halide in ${HALIDE_INCLUDE} (second opinion)")
else()
  message(STATUS "Nestor: no Halide SDK, its tests are skipped (./dev setup installs it)")
endif()
