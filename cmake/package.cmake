# What `cmake --install`, the Debian package and, with CAIRN_STATIC, the tarball have; scripts/package.sh makes both.
# Included once, behind the targets of the program and the library.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(papers "${CMAKE_INSTALL_DOCDIR}")
if(CAIRN_STATIC)
  set(papers .)  # where who unpacks the tarball looks
  install(FILES packaging/copyright DESTINATION packaging)
else()
  install(FILES packaging/copyright DESTINATION "${papers}")
  install(FILES examples/systemd/cairn.service DESTINATION lib/systemd/system)
endif()
install(TARGETS cairn RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(FILES models/guide/guide.gguf DESTINATION "${CMAKE_INSTALL_DATADIR}/cairn")  # `cairn chat` without a file
if(NOT CAIRN_SANITIZE)
  # The library alone: cmake --install BUILD --component library
  set(package_files "${CMAKE_INSTALL_LIBDIR}/cmake/Cairn")
  install(TARGETS cairn_shared EXPORT CairnTargets COMPONENT library LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    COMPONENT library NAMELINK_COMPONENT library)
  install(FILES include/cairn.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library)
  install(EXPORT CairnTargets NAMESPACE Cairn:: DESTINATION "${package_files}" COMPONENT library)
  configure_package_config_file(packaging/library/CairnConfig.cmake.in "${CMAKE_BINARY_DIR}/library/CairnConfig.cmake"
    INSTALL_DESTINATION "${package_files}")
  write_basic_package_version_file("${CMAKE_BINARY_DIR}/library/CairnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  # Found from where it lies, so that the library may be moved.
  file(RELATIVE_PATH CAIRN_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /)
  string(REGEX REPLACE "/$" "" CAIRN_PC_PREFIX "${CAIRN_PC_PREFIX}")
  configure_file(packaging/library/cairn.pc.in "${CMAKE_BINARY_DIR}/library/cairn.pc" @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/library/CairnConfig.cmake" "${CMAKE_BINARY_DIR}/library/CairnConfigVersion.cmake"
    DESTINATION "${package_files}" COMPONENT library)
  install(FILES "${CMAKE_BINARY_DIR}/library/cairn.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT library)
endif()
# Laid out as here, so that links between pages lead somewhere.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE NOTICE VERSION DESTINATION "${papers}")
install(DIRECTORY docs examples DESTINATION "${papers}")
find_program(CAIRN_DPKG_QUERY dpkg-query)  # the libraries are packages of Debian, which have their licences
if(CAIRN_DPKG_QUERY AND CMAKE_GENERATOR STREQUAL "Ninja")
  install(CODE "execute_process(COMMAND \"${CMAKE_SOURCE_DIR}/scripts/licenses.sh\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${papers}/licenses\" \"${CMAKE_BINARY_DIR}\" COMMAND_ERROR_IS_FATAL ANY)")
endif()

set(CPACK_PACKAGE_NAME cairn)
set(CPACK_PACKAGE_CONTACT "The Cairn authors <cairn-authors@users.noreply.invalid>")  # Debian's form wants an address
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Server for GGUF language models")
set(CPACK_STRIP_FILES ON)
if(CAIRN_STATIC)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGING_INSTALL_PREFIX /)
  set(CPACK_PACKAGE_FILE_NAME "cairn-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
else()
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Cairn opens language models in GGUF files, runs them on the processor with
kernels of its own, and answers many clients at once.
.
It speaks the protocols of OpenAI (chat, completions, Responses, embeddings),
Anthropic, Ollama and llama.cpp's server, and has a page for browsers.
The package has a systemd unit, which is not started by itself, and a small
demonstration model: try `cairn chat`.")
  set(CPACK_DEBIAN_PACKAGE_SECTION net)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # what the program is linked with, by dpkg-shlibdeps
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
endif()
include(CPack)
