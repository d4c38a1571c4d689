# find_package(Nestor) gives the program as Nestor::nestor, and nestor_add_model.
get_filename_component(nestor_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)  # wherever it was moved to
if(NOT EXISTS "${nestor_prefix}/bin/nestor")
  set(Nestor_FOUND FALSE)
  set(Nestor_NOT_FOUND_MESSAGE "there is no ${nestor_prefix}/bin/nestor beside ${CMAKE_CURRENT_LIST_DIR}")
  return()
endif()
if(NOT TARGET Nestor::nestor)
  add_executable(Nestor::nestor IMPORTED GLOBAL)
  set_target_properties(Nestor::nestor PROPERTIES IMPORTED_LOCATION "${nestor_prefix}/bin/nestor")
endif()
unset(nestor_prefix)

# nestor_add_model(target model.onnx
#   [SHARED] [NAME n] [DIM batch=1 ...] [CONST x=1 ...] [THREADS n] [TARGET t] [DB file]
#   [OPTIONS word ...] [DEPENDS file ...])
#
# A library `target` of the model, compiled when the model, the database, a file of DEPENDS or the compiler is newer.
# Targets that link it find its header, NAME.h. NAME, which is the target's name unless given, also begins the names of
# the C functions. The library is an archive, or with SHARED a shared object. The other arguments are `nestor compile`'s
# options; OPTIONS are any others of them, DEPENDS the files that those or the model name.
function(nestor_add_model target model)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "SHARED" "NAME;THREADS;TARGET;DB" "DIM;CONST;OPTIONS;DEPENDS")
  foreach(word ${ARG_UNPARSED_ARGUMENTS})
    message(FATAL_ERROR "nestor_add_model(${target}): `${word}` isn't an argument; SHARED, NAME, DIM, CONST, THREADS, "
      "TARGET, DB, OPTIONS and DEPENDS are")
  endforeach()
  foreach(word ${ARG_KEYWORDS_MISSING_VALUES})
    message(FATAL_ERROR "nestor_add_model(${target}): ${word} needs a value")
  endforeach()
  set(files "")
  foreach(file "${model}" ${ARG_DB} ${ARG_DEPENDS})
    get_filename_component(file "${file}" ABSOLUTE)
    list(APPEND files "${file}")
    get_source_file_property(made "${file}" GENERATED)
    if(NOT EXISTS "${file}" AND NOT made)
      message(FATAL_ERROR "nestor_add_model(${target}): there is no ${file}")
    endif()
  endforeach()
  list(GET files 0 model)

  set(options "")
  foreach(key DIM CONST)
    string(TOLOWER "--${key}" option)
    foreach(value ${ARG_${key}})
      list(APPEND options ${option} "${value}")
    endforeach()
  endforeach()
  foreach(key THREADS TARGET)
    string(TOLOWER "--${key}" option)
    if(DEFINED ARG_${key})
      list(APPEND options ${option} "${ARG_${key}}")
    endif()
  endforeach()
  if(DEFINED ARG_DB)
    list(GET files 1 db)
    list(APPEND options --db "${db}")
  endif()

  set(name "${target}")
  if(DEFINED ARG_NAME)
    set(name "${ARG_NAME}")
  endif()
  set(kind STATIC)
  set(ending .a)
  if(ARG_SHARED)
    set(kind SHARED)
    set(ending .so)
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/nestor/${target}")
  file(MAKE_DIRECTORY "${folder}")  # folders of headers exist when CMake runs
  set(library "${folder}/${name}${ending}")
  get_target_property(nestor Nestor::nestor IMPORTED_LOCATION)
  add_custom_command(OUTPUT "${library}" "${folder}/${name}.h" DEPENDS ${files} "${nestor}" VERBATIM
    COMMAND "${nestor}" compile "${model}" -o "${library}" ${options} ${ARG_OPTIONS}
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" COMMENT "Nestor: ${name}${ending} of ${model}")
  add_custom_target(${target}_compile DEPENDS "${library}" "${folder}/${name}.h")
  add_library(${target} ${kind} IMPORTED GLOBAL)
  add_dependencies(${target} ${target}_compile)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${library}" INTERFACE_LINK_LIBRARIES "m;${CMAKE_DL_LIBS}"
    INTERFACE_INCLUDE_DIRECTORIES "${folder}")
endfunction()
