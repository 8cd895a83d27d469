# kvr_library / kvr_binary / kvr_test: one call per target, files listed, never globbed.
# Libraries are always linked through their kvr:: alias, so a typing error is a configure error and layering is visible.

include(CMakeParseArguments)
find_program(KVR_MOLD mold)
find_program(KVR_CCACHE ccache)
if(KVR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KVR_CCACHE})
endif()

add_library(kvr_flags INTERFACE)
# -Wsign-conversion stays off on both compilers: gcc's -Wconversion does not include it, clang's does.
target_compile_options(kvr_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(kvr_flags INTERFACE -Wthread-safety)
endif()
target_include_directories(kvr_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
if(KVR_MOLD)
  target_link_options(kvr_flags INTERFACE -fuse-ld=mold)
endif()
if(KVR_SANITIZE)
  target_compile_options(kvr_flags INTERFACE -fsanitize=${KVR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(kvr_flags INTERFACE -fsanitize=${KVR_SANITIZE})
endif()
if(KVR_FUZZ)
  target_compile_options(kvr_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# kvr_library(NAME HDRS a.h SRCS a.cc DEPS kvr::b ext::c [SYSTEM_DEPS ...])
# A library without SRCS is an INTERFACE library. Headers join a FILE_SET, so `all_verify_interface_header_sets`
# proves that each one compiles alone.
function(kvr_library name)
  cmake_parse_arguments(L "" "" "HDRS;SRCS;DEPS" ${ARGN})
  if(L_SRCS)
    add_library(kvr_${name} STATIC ${L_SRCS})
    set(scope PUBLIC)
  else()
    add_library(kvr_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(kvr::${name} ALIAS kvr_${name})
  target_link_libraries(kvr_${name} ${scope} kvr_flags ${L_DEPS})
  if(L_HDRS)
    list(TRANSFORM L_HDRS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    target_sources(kvr_${name} ${scope} FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
      FILES ${L_HDRS})
  endif()
endfunction()

# kvr_binary(NAME SRCS main.cc DEPS ...): build/bin/NAME
function(kvr_binary name)
  cmake_parse_arguments(B "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${B_SRCS})
  target_link_libraries(${name} PRIVATE kvr_flags ${B_DEPS})
endfunction()

# kvr_test(NAME SRCS x_test.cc DEPS ... LABELS unit [TIMEOUT seconds]) links gtest_main.
# The working directory is the source root, so tests read tests/data by relative path. One binary is one ctest entry:
# a test of ours takes milliseconds, a process start under a sanitizer does not. A pure build leaves out tests of what it
# does not build.
function(kvr_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(KVR_PURE_ONLY)
    foreach(dep ${T_DEPS})
      if(NOT TARGET ${dep})
        return()
      endif()
    endforeach()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_executable(${name} ${T_SRCS})
  target_link_libraries(${name} PRIVATE kvr_flags ${T_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT})
  # One build target per label, so that a sanitizer tier builds just what it runs: ninja tests_unit.
  foreach(label ${T_LABELS})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
endfunction()

# kvr_fuzz(NAME SRCS fuzz_x.cc DEPS ... CORPUS dir): with KVR_FUZZ a libFuzzer binary NAME; otherwise a replayer that
# runs LLVMFuzzerTestOneInput over every file of the corpus, registered as a test with label corpus.
function(kvr_fuzz name)
  cmake_parse_arguments(F "" "CORPUS" "SRCS;DEPS" ${ARGN})
  if(KVR_FUZZ)
    add_executable(${name} ${F_SRCS})
    target_link_libraries(${name} PRIVATE kvr_flags ${F_DEPS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    if(NOT TARGET fuzz_targets)
      add_custom_target(fuzz_targets)
    endif()
    add_dependencies(fuzz_targets ${name})
  else()
    add_executable(${name} ${F_SRCS} ${CMAKE_SOURCE_DIR}/tests/fuzz/main.cc)
    target_link_libraries(${name} PRIVATE kvr_flags ${F_DEPS})
    add_test(NAME ${name}_corpus COMMAND ${name} ${F_CORPUS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name}_corpus PROPERTIES LABELS corpus TIMEOUT 300)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()

# kvr_bench(NAME SRCS bm_x.cc DEPS ...): build/bench/NAME, a Google Benchmark binary. Not a test: see tests/run bench.
function(kvr_bench name)
  cmake_parse_arguments(B "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${B_SRCS})
  target_link_libraries(${name} PRIVATE kvr_flags ${B_DEPS} benchmark::benchmark)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
endfunction()
