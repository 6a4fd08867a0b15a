# `cmake --install build/release`. Component `program`: the command with its manual page and shell completions; component
# `development`: headers, libraries, and the CMake package that finds them.
include(CMakePackageConfigHelpers)

install(TARGETS heddle_program RUNTIME COMPONENT program)
foreach(name openmpi mpich)
  if(TARGET heddle_${name})
    install(TARGETS heddle_${name} RUNTIME COMPONENT program OPTIONAL)  # where it was built
  endif()
endforeach()
# They are written by the program from the descriptions of its options.
foreach(page
    "man;share/man/man1/heddle.1"
    "completion bash;share/bash-completion/completions/heddle"
    "completion zsh;share/zsh/site-functions/_heddle"
    "completion fish;share/fish/vendor_completions.d/heddle.fish")
  list(GET page 0 arguments)
  list(GET page 1 file)
  string(REPLACE " " "\" \"" arguments "${arguments}")
  install(CODE "
    set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\")
    execute_process(COMMAND \"$<TARGET_FILE:heddle_program>\" \"${arguments}\"
      OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    message(STATUS \"Installing: \${file}\")
    file(WRITE \"\${file}\" \"\${text}\")" COMPONENT program)
endforeach()

get_property(libraries GLOBAL PROPERTY heddle_libraries)
set_target_properties(heddle_no_mpi PROPERTIES EXPORT_NAME no_mpi)
install(TARGETS ${libraries} heddle_no_mpi heddle_extension EXPORT HeddleTargets
  ARCHIVE COMPONENT development
  OBJECTS DESTINATION ${CMAKE_INSTALL_LIBDIR}/heddle COMPONENT development)
install(DIRECTORY framework parallel layers models notebooks_export experiments
  DESTINATION ${HEDDLE_HEADERS} COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "claims" EXCLUDE PATTERN "cells" EXCLUDE PATTERN "launcher" EXCLUDE)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Heddle)
install(EXPORT HeddleTargets NAMESPACE Heddle:: DESTINATION ${package} COMPONENT development)
configure_package_config_file(packaging/HeddleConfig.cmake.in ${PROJECT_BINARY_DIR}/HeddleConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/HeddleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/HeddleConfig.cmake ${PROJECT_BINARY_DIR}/HeddleConfigVersion.cmake
  packaging/dependencies.cmake packaging/extension_version.cpp DESTINATION ${package} COMPONENT development)
