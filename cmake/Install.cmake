# What `cmake --install` lays down: the program, the library with its headers,
# the catalogue and fitted data, and the package that find_package(orrery) reads.
# Nothing in it names the prefix, so the installed tree can be moved.

include(CMakePackageConfigHelpers)

set(ORRERY_SHARE_DIR ${CMAKE_INSTALL_DATADIR}/orrery)
set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/orrery)

install(TARGETS orrery_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS orrery EXPORT orreryTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/orrery DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.inc"
  PATTERN "*_for_test.h" EXCLUDE
  PATTERN "cli" EXCLUDE)

install(DIRECTORY DESTINATION ${ORRERY_SHARE_DIR})
foreach(folder IN ITEMS hardware data)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${ORRERY_SHARE_DIR})
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The manual page and the shells' completions, which the program writes from its help texts.
set(_manual ${PROJECT_BINARY_DIR}/orrery.1)
set(_bash ${PROJECT_BINARY_DIR}/completions/orrery)
set(_zsh ${PROJECT_BINARY_DIR}/completions/_orrery)
add_custom_command(OUTPUT ${_manual} ${_bash} ${_zsh}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/completions
  COMMAND orrery_program man > ${_manual}
  COMMAND orrery_program completion bash > ${_bash}
  COMMAND orrery_program completion zsh > ${_zsh}
  DEPENDS orrery_program VERBATIM COMMENT "Writing the manual page and completions")
add_custom_target(orrery_texts ALL DEPENDS ${_manual} ${_bash} ${_zsh})
install(FILES ${_manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${_bash} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${_zsh} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

install(EXPORT orreryTargets NAMESPACE orrery:: DESTINATION ${_package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/orreryConfig.cmake.in
  ${PROJECT_BINARY_DIR}/orreryConfig.cmake
  INSTALL_DESTINATION ${_package_dir} PATH_VARS ORRERY_SHARE_DIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/orreryConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/orreryConfig.cmake ${PROJECT_BINARY_DIR}/orreryConfigVersion.cmake
  DESTINATION ${_package_dir})
