# The C files that every artifact carries (runtime/*_rt.c), as LLVM bitcode for each architecture, embedded in a target.
# They include no system headers, so that no cross tool chain is needed.
function(nestor_embed_bitcode target)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/*_rt.c)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/*_rt.h)
  set(blobs "")
  set(rows "")
  set(outputs "")
  foreach(source ${sources})
    cmake_path(GET source STEM name)
    foreach(arch x86_64 aarch64)
      set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.${arch}.bc)
      add_custom_command(OUTPUT ${output} DEPENDS ${source} ${headers} VERBATIM
        COMMAND ${CLANG} --target=${arch}-unknown-linux-gnu -std=c11 -O2 -fPIC -ffreestanding -fvisibility=hidden
                -fno-ident -Wall -Wextra -Werror -I${PROJECT_SOURCE_DIR} -emit-llvm -c ${source} -o ${output}
        COMMENT "Bitcode of ${name} for ${arch}")
      list(APPEND outputs ${output})
      string(APPEND blobs "NESTOR_BLOB(${name}_${arch}, \"${output}\")\n")
      string(APPEND rows "    {\"${name}\", \"${arch}\", ${name}_${arch}_begin, ${name}_${arch}_end},\n")
    endforeach()
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/bitcode.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/bitcode.cpp @ONLY)
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/bitcode.cpp PROPERTIES OBJECT_DEPENDS "${outputs}")
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/bitcode.cpp)
endfunction()
