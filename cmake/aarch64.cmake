# Tests that run code for aarch64 do it under qemu, linked by hand with a main of their own, so that no cross compiler is
# needed. Where either tool is missing, the tests say SKIPPED.
find_program(QEMU_AARCH64 qemu-aarch64)
find_program(LLD_EXECUTABLE NAMES ld.lld-19 ld.lld)

# aarch64_main.c of this folder as an object, built before the test; its path in `out`.
function(nestor_aarch64_main test out)
  set(main ${CMAKE_CURRENT_BINARY_DIR}/aarch64_main.o)
  add_custom_command(OUTPUT ${main} DEPENDS aarch64_main.c VERBATIM
    COMMAND ${CLANG} --target=aarch64-unknown-linux-gnu -std=c11 -O1 -ffreestanding -Wall -Wextra -Werror
            -c ${CMAKE_CURRENT_SOURCE_DIR}/aarch64_main.c -o ${main})
  add_custom_target(${test}_aarch64_main DEPENDS ${main})
  add_dependencies(${test} ${test}_aarch64_main)
  set(${out} ${main} PARENT_SCOPE)
endfunction()
