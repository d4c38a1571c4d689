# The commit of the sources in NESTOR_COMMIT, abbreviated; empty outside of a checkout of Nestor. A new commit configures
# anew, so that `nestor --version` doesn't name an old one.
function(nestor_git out)
  execute_process(COMMAND ${GIT} ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE text
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

set(NESTOR_COMMIT "")
find_program(GIT git)
if(GIT)
  nestor_git(top rev-parse --show-toplevel)
  if(top STREQUAL PROJECT_SOURCE_DIR)  # else the sources lie in somebody else's repository
    nestor_git(NESTOR_COMMIT rev-parse --short=12 HEAD)
    nestor_git(log rev-parse --path-format=absolute --git-path logs/HEAD)  # a line for each commit and checkout
    if(EXISTS "${log}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${log})
    endif()
  endif()
endif()
