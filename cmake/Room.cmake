# Rooms: each folder of src/orrery is an object library that may use only the
# rooms it names. Object libraries keep self-registering files alive, which a
# static archive would drop at link time.

add_library(orrery_flags INTERFACE)
target_include_directories(orrery_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(orrery_flags INTERFACE -Wall -Wextra)
if(ORRERY_WERROR)
  target_compile_options(orrery_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # At -O3 GCC 12 warns inside the standard library of "text" + std::string
  # (gcc.gnu.org/PR105651) and of a std::variant moved into a vector. clang-tidy's
  # analyzer still looks for uninitialised reads in our own code.
  target_compile_options(orrery_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(ORRERY_SANITIZE)
  target_compile_options(orrery_flags INTERFACE
    -fsanitize=${ORRERY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    # AddressSanitizer sees what this sees, and it takes a third of the compile time.
    -fno-sanitize=object-size)
  target_link_options(orrery_flags INTERFACE -fsanitize=${ORRERY_SANITIZE})
endif()

set_property(GLOBAL PROPERTY ORRERY_ROOMS "")

# With ORRERY_BATCH compiles sources of the target several at a time: for a build that is
# made whole, not for one that follows an edit.
function(orrery_batch target)
  if(NOT ORRERY_BATCH)
    return()
  endif()
  find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)
  set(script ${PROJECT_SOURCE_DIR}/tools/check/batches.py)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "TARGET_OBJECTS")
  # A name that an edit brings may ask for other batches.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script} ${sources})
  execute_process(COMMAND ${Python_EXECUTABLE} ${script} ${ORRERY_BATCH} ${sources}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    OUTPUT_VARIABLE batches OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "," batches "${batches}")
  string(REPLACE "\n" ";" batches "${batches}")
  set(number 0)
  foreach(batch IN LISTS batches)
    string(REPLACE "," ";" batch "${batch}")
    set_source_files_properties(${batch} PROPERTIES UNITY_GROUP ${number})
    math(EXPR number "${number} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# A third of a cold build was spent reading the same headers again. Those that never change
# are precompiled, once for all targets of a kind. No file may count on that: it includes
# what it uses, as -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON shows.
function(orrery_precompile target kind)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND ORRERY_WERROR AND NOT kind STREQUAL "test")
    # Where GCC 12 optimises, it warns of the standard library's own code once that comes
    # precompiled: bounds and overflow in the copying of strings.
    return()
  endif()
  get_property(first GLOBAL PROPERTY ORRERY_PRECOMPILED_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled_${kind}.h)
    set_property(GLOBAL PROPERTY ORRERY_PRECOMPILED_${kind} ${target})
  endif()
endfunction()

# Stops the configuration when a file of the room includes a header of a room
# it does not declare.
function(_orrery_check_includes room allowed)
  foreach(file IN LISTS ARGN)
    file(STRINGS ${file} includes REGEX "^#include \"orrery/")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "^#include \"orrery/([a-z_]+)/.*" "\\1" used "${line}")
      if(NOT used STREQUAL room AND NOT used IN_LIST allowed)
        message(FATAL_ERROR "${file}: room '${room}' may not use '${used}' (${line})")
      endif()
    endforeach()
  endforeach()
endfunction()

# orrery_room(NAME USES ROOM...) builds src/orrery/NAME, and with ORRERY_TESTS
# one test program from its *_test.cc that links just the rooms it may use.
function(orrery_room room)
  cmake_parse_arguments(ROOM "" "" "USES" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/src/orrery/${room})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.h)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")
  _orrery_check_includes(${room} "${ROOM_USES}" ${headers} ${sources} ${tests})

  add_library(orrery_${room} OBJECT ${sources})
  target_link_libraries(orrery_${room}
    PUBLIC orrery_flags fmt::fmt
    PRIVATE nlohmann_json::nlohmann_json yaml-cpp ZLIB::ZLIB CLI11::CLI11)
  if(room STREQUAL "cli")
    # It reads a command line and calls what does the work.
    target_compile_options(orrery_cli PRIVATE $<$<CONFIG:Release>:-O1>)
    orrery_precompile(orrery_cli cli)
  else()
    orrery_precompile(orrery_${room} room)
  endif()
  orrery_batch(orrery_${room})
  set_property(GLOBAL APPEND PROPERTY ORRERY_ROOMS ${room})

  if(ORRERY_TESTS AND tests)
    find_package(GTest REQUIRED)
    include(GoogleTest)
    add_executable(${room}_test ${tests})
    foreach(used IN ITEMS ${room} LISTS ROOM_USES)
      target_sources(${room}_test PRIVATE $<TARGET_OBJECTS:orrery_${used}>)
    endforeach()
    target_compile_definitions(${room}_test PRIVATE
      ORRERY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_libraries(${room}_test PRIVATE orrery_flags fmt::fmt
      nlohmann_json::nlohmann_json yaml-cpp ZLIB::ZLIB CLI11::CLI11 GTest::gtest GTest::gmock GTest::gtest_main)
    # A test's own code runs once; optimising it would take longer than running it.
    target_compile_options(${room}_test PRIVATE -O0)
    orrery_precompile(${room}_test test)
    orrery_batch(${room}_test)
    gtest_discover_tests(${room}_test DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
  endif()
endfunction()

# orrery_embed(ROOM FILE...) makes text files constants of a room (EmbedText.cmake).
function(orrery_embed room)
  set(files ${ARGN})
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/)
  string(REPLACE ";" "," joined "${files}")
  set(output ${PROJECT_BINARY_DIR}/embedded_${room}.cc)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFILES=${joined} -P ${script}
    DEPENDS ${files} ${script} VERBATIM COMMENT "Embedding text in ${room}")
  target_sources(orrery_${room} PRIVATE ${output})
endfunction()

# liborrery: every room but the command line, for find_package(orrery).
function(orrery_library)
  get_property(rooms GLOBAL PROPERTY ORRERY_ROOMS)
  list(REMOVE_ITEM rooms cli)
  add_library(orrery SHARED)
  foreach(room IN LISTS rooms)
    target_sources(orrery PRIVATE $<TARGET_OBJECTS:orrery_${room}>)
  endforeach()
  target_link_libraries(orrery PUBLIC fmt::fmt PRIVATE orrery_flags yaml-cpp ZLIB::ZLIB)
  target_include_directories(orrery INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(orrery PUBLIC cxx_std_20)
  set_target_properties(orrery PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()

# The `orrery` program links the objects themselves: it starts faster than
# through a shared library and needs no search path in the build tree.
function(orrery_command_line)
  get_property(rooms GLOBAL PROPERTY ORRERY_ROOMS)
  add_executable(orrery_program ${PROJECT_SOURCE_DIR}/src/orrery/cli/main.cc)
  foreach(room IN LISTS rooms)
    target_sources(orrery_program PRIVATE $<TARGET_OBJECTS:orrery_${room}>)
  endforeach()
  target_link_libraries(orrery_program PRIVATE orrery_flags fmt::fmt yaml-cpp ZLIB::ZLIB CLI11::CLI11)
  set_target_properties(orrery_program PROPERTIES OUTPUT_NAME orrery)
endfunction()
